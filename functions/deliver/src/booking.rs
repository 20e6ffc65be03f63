//! LIM-3 to LIM-9, DST-2: asking the limiter, and what its answers mean for deliveries.
//!
//! Owns: the choice between sending now and waiting. Must not: write records or send.

use std::collections::VecDeque;
use std::time::Duration;

use lapse_policy::booking::{Closed, GateAsk, INLINE, Places, PlanAsk};
use lapse_policy::clock::{Clocks, Spacing};
use lapse_policy::destination::Destination;
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp};
use lapse_policy::waiting::wake_for;

use crate::intent::{BACK_LEAST, BACK_MOST, Intent, Ready, UNDONE};
use crate::limiter::{Gated, Planned, Scope};
use crate::run::Run;
use crate::world::World;

/// How often planned times are asked for: again where the plan turned out to be fuller than was known (LIM-6).
const MOST_PLANS: usize = 3;
/// A pause longer than this is looked at again and again rather than waited for (DST-2).
const LONG_PAUSE: Duration = Duration::from_secs(900);
/// How often.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// What is added at random, so that a paused destination's deliveries do not all look at once.
const LOOK_JITTER: Duration = Duration::from_secs(300);

/// Plans deliveries that have no planned time (LIM-3): each is sent now, or waits. Nothing is booked for one whose time
/// would be past its deadline: in a time that nobody uses, the destination is not served (LIM-6).
pub async fn plan<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    spacing: Spacing,
    scope: Scope,
    mut readies: Vec<Ready>,
) -> Vec<(Ready, Intent)> {
    for asked in 0..MOST_PLANS {
        readies.sort_by_key(|ready| ready.deadline);
        let (now, known) = (run.now(), run.limiter().last_seen(&destination.name));
        let (mut asking, mut rest) = in_time(readies, &known, spacing, now);
        if asking.is_empty() && asked > 0 {
            return rest.into_iter().map(|ready| full(run, destination, ready, &known, now)).collect();
        }
        if asking.is_empty() {
            // What is known may be old: the answer to one of them tells how it stands.
            asking.extend(rest.pop());
        }
        let Some(reach) = reach(&asking, spacing, now) else { return Vec::new() };
        let ask = PlanAsk { count: asking.len(), now, reach, spacing };
        match run.limiter().plan(&destination.name, ask, scope).await {
            Err(error) => {
                tracing::error!(operation = error.operation, cause = error.cause, "limiter_unavailable");
                return asking.into_iter().chain(rest).map(|ready| (ready, back(run))).collect();
            }
            Ok(Planned::Booked { times, gate, clocks }) => {
                let mut intents = placed(run, destination, asking, (times, gate), &clocks, now);
                let (unasked, none) = in_time(rest, &clocks, spacing, now);
                intents.extend(unasked.into_iter().map(|ready| (ready, Intent::Back(BACK_LEAST))));
                intents.extend(none.into_iter().map(|ready| full(run, destination, ready, &clocks, now)));
                return intents;
            }
            Ok(Planned::Full(_)) => {
                asking.append(&mut rest);
                readies = asking;
            }
        }
    }
    readies.into_iter().map(|ready| (ready, back(run))).collect()
}

/// What deliveries come to that have planned times, and perhaps places at the gate.
fn placed<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    readies: Vec<Ready>,
    (times, gate): (Places, Option<Places>),
    clocks: &Clocks,
    now: Timestamp,
) -> Vec<(Ready, Intent)> {
    let mut gate: VecDeque<_> = gate.iter().flat_map(|places| places.iter().collect::<Vec<_>>()).collect();
    let placed = |(mut ready, planned): (Ready, Micros)| {
        let place = clocks.real_time(planned);
        if place.timestamp() > ready.deadline {
            return full(run, destination, ready, clocks, now);
        }
        ready.work.planned = Some(planned);
        if place.timestamp().since(now) <= INLINE {
            ready.place = gate.pop_front();
            (ready, Intent::Send)
        } else {
            let until = wake_for(place, now);
            let until = clocks.paused(now).map_or(until, |end| hold(run, end, until, ready.deadline, now));
            (ready, Intent::Wait(until, Some(planned)))
        }
    };
    readies.into_iter().zip(times.iter().collect::<Vec<_>>()).map(placed).collect()
}

/// Splits deliveries, the earliest deadline first, into those that have their time before it and those that have
/// not, if the plan is as `clocks` says (LIM-6).
fn in_time(readies: Vec<Ready>, clocks: &Clocks, spacing: Spacing, now: Timestamp) -> (Vec<Ready>, Vec<Ready>) {
    let start = clocks.plan_time(now);
    let mut clock = clocks.plan.unwrap_or(start).max(start);
    readies.into_iter().partition(|ready| {
        let time = clock.minus(spacing.plan_tol).max(start);
        let fits = clocks.real_time(time).timestamp() <= usable(ready.deadline, now);
        if fits {
            clock = clock.plus(spacing.plan_step);
        }
        fits
    })
}

/// The latest planned time that is of use: a wake-up may be late, so it is a little before the deadline. What is waited
/// for in this invocation needs no wake-up.
fn usable(deadline: Timestamp, now: Timestamp) -> Timestamp {
    deadline.minus(INLINE).max(deadline.min(now.plus(INLINE)))
}

/// How far the first of these times may be for each of them to be before its delivery's deadline (LIM-6).
fn reach(readies: &[Ready], spacing: Spacing, now: Timestamp) -> Option<Timestamp> {
    let first = |(i, ready): (usize, &Ready)| usable(ready.deadline, now).micros().minus(spacing.plan_step.times(i)).0;
    readies.iter().enumerate().map(first).min().map(|micros| Timestamp::from_millis(micros.div_euclid(1000)))
}

/// No planned time before the deadline (LIM-6), unless a pause is why (DST-2).
fn full<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    ready: Ready,
    clocks: &Clocks,
    now: Timestamp,
) -> (Ready, Intent) {
    let left = ready.deadline.since(now);
    let intent = match clocks.paused(now) {
        // Not sooner than others whose claim is undone: near its end it would be received over and over until then.
        Some(end) => Intent::Wait(hold(run, end, end, ready.deadline, now).max(now.plus(UNDONE)), None),
        // A half that is waited for here would be looked at over and over.
        None if left < destination.timeout.max(2 * INLINE) => {
            let error = "the destination's rate has no place before the deadline".to_owned();
            Intent::Dead(Reason::NoPlaceBeforeDeadline, Some(error))
        }
        None => Intent::Wait(now.plus(left / 2), None),
    };
    (ready, intent)
}

/// Until when a delivery waits that would wake at `until` while a pause lasts until `end` (DST-2).
fn hold<W: World>(
    run: &Run<'_, W>,
    end: Timestamp,
    until: Timestamp,
    deadline: Timestamp,
    now: Timestamp,
) -> Timestamp {
    if end.since(now) <= LONG_PAUSE {
        // The message that wakes past its deadline is told so then (RET-7).
        return until.min(deadline.plus(Duration::from_millis(1)));
    }
    let look = now.plus(LOOK_AGAIN + run.between(Duration::ZERO, LOOK_JITTER));
    until.min(deadline.plus(Duration::from_millis(1))).min(look)
}

fn back<W: World>(run: &Run<'_, W>) -> Intent {
    Intent::Back(run.between(BACK_LEAST, BACK_MOST))
}

/// A destination without a rate books nothing; its pause holds all the same (LIM-9).
pub async fn unlimited<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    readies: Vec<Ready>,
) -> Vec<(Ready, Intent)> {
    if readies.is_empty() {
        return Vec::new();
    }
    let now = run.now();
    match run.limiter().read(&destination.name).await {
        Err(error) => {
            tracing::error!(operation = error.operation, cause = error.cause, "limiter_unavailable");
            readies.into_iter().map(|ready| (ready, back(run))).collect()
        }
        Ok(clocks) => readies
            .into_iter()
            .map(|ready| match clocks.paused(now) {
                Some(end) => {
                    let until = hold(run, end, end, ready.deadline, now);
                    if until.since(now) <= INLINE {
                        let not_before = ready.not_before.max(Some(until));
                        (Ready { not_before, ..ready }, Intent::Send)
                    } else {
                        (ready, Intent::Wait(until, None))
                    }
                }
                None => (ready, Intent::Send),
            })
            .collect(),
    }
}

/// Where a claimed delivery stands at the gate.
#[derive(Debug)]
pub enum AtGate {
    /// It has a place.
    Placed(Ready),
    /// A pause ends within [`INLINE`]: it is waited for here, and then it asks again (LIM-4).
    Soon(Ready),
    /// It has none within reach: what is written instead of its claim.
    Refused(Ready, Intent),
}

/// Books places at the gate for claimed deliveries, in one write (LIM-5).
pub async fn gate<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    spacing: Spacing,
    readies: Vec<Ready>,
) -> Vec<AtGate> {
    let ask = GateAsk { count: readies.len(), now: run.now(), spacing };
    if readies.is_empty() {
        return Vec::new();
    }
    match run.limiter().gate(&destination.name, ask).await {
        Err(error) => {
            tracing::error!(operation = error.operation, cause = error.cause, "limiter_unavailable");
            let later = |ready: Ready| {
                let until = run.now().plus(run.between(BACK_LEAST, BACK_MOST));
                let planned = ready.work.planned;
                AtGate::Refused(ready, Intent::Wait(until, planned))
            };
            readies.into_iter().map(later).collect()
        }
        Ok(Gated::Closed(Closed::Paused(_), clocks)) => {
            readies.into_iter().map(|ready| paused(run, ready, &clocks)).collect()
        }
        Ok(Gated::Closed(Closed::Full, _)) => replan(run, destination, spacing, readies).await,
        Ok(Gated::Booked(places, _)) => {
            let mut readies = readies;
            let rest = readies.split_off(places.count.min(readies.len()));
            let mut answers: Vec<_> = readies
                .into_iter()
                .zip(places.iter())
                .map(|(ready, place)| AtGate::Placed(Ready { place: Some(place), ..ready }))
                .collect();
            answers.extend(replan(run, destination, spacing, rest).await);
            answers
        }
    }
}

/// The gate is full: a new planned time, and the claim is undone (LIM-5).
async fn replan<W: World>(
    run: &Run<'_, W>,
    destination: &Destination,
    spacing: Spacing,
    readies: Vec<Ready>,
) -> Vec<AtGate> {
    let soonest = run.now().plus(UNDONE);
    let later = |(ready, intent)| match intent {
        // The gate has just said that it has no place within this.
        Intent::Send => {
            let planned = ready_planned(&ready);
            AtGate::Refused(ready, Intent::Wait(soonest, planned))
        }
        Intent::Back(after) => {
            let planned = ready_planned(&ready);
            AtGate::Refused(ready, Intent::Wait(soonest.plus(after), planned))
        }
        intent @ (Intent::Wait(..) | Intent::Dead(..)) => AtGate::Refused(ready, intent),
    };
    plan(run, destination, spacing, Scope::PlanAlone, readies).await.into_iter().map(later).collect()
}

fn ready_planned(ready: &Ready) -> Option<Micros> {
    ready.work.planned
}

/// A pause lasts: the delivery waits for its planned time as the pause has moved it (LIM-5, LIM-7).
pub fn paused<W: World>(run: &Run<'_, W>, ready: Ready, clocks: &Clocks) -> AtGate {
    let now = run.now();
    let end = clocks.paused(now).unwrap_or(now);
    let planned = ready.work.planned;
    let moved = planned.map_or(end, |planned| wake_for(clocks.real_time(planned), now).max(end));
    let until = hold(run, end, moved, ready.deadline, now);
    if until.since(now) <= INLINE {
        AtGate::Soon(Ready { not_before: Some(until), ..ready })
    } else {
        AtGate::Refused(ready, Intent::Wait(until, planned))
    }
}
