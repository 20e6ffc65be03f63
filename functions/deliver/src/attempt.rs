//! LIM-5, RET-7, ACK-4, LED-6, LED-7: one claimed delivery from its place to its end.
//!
//! Owns: waiting for the place, the last looks before the request, the request, and completing the record.
//! Must not: decide what an outcome means; `lapse_policy::decision` does.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Class, Outcome};
use lapse_policy::clock::{Clocks, Spacing};
use lapse_policy::decision::{Action, Attempt, Decision, decide};
use lapse_policy::destination::Destination;
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{self, Chance as _, Clock as _, LedgerWrite, Sender as _, Sent};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp, millis};

use crate::booking::{AtGate, gate, paused};
use crate::commit::Committed;
use crate::intent::{BACK_LEAST, Intent, Outcome as Written, Ready, UNDONE, ends, write_down};
use crate::report;
use crate::run::Run;
use crate::settle::acknowledge;
use crate::work::{End, Work};
use crate::world::World;

/// What must be left of the invocation beside the attempt itself (ACK-4).
const AROUND_ATTEMPT: Duration = Duration::from_secs(5);
/// How often a place is booked anew that could not be used in time.
const MOST_BOOKINGS: usize = 3;
/// Between two tries to record a 2xx (LED-7).
const RECORD_AGAIN: Duration = Duration::from_millis(200);
/// What one more try to record a 2xx may take.
const RECORD_NEEDS: Duration = Duration::from_secs(4);

/// What the attempts of one destination share.
#[derive(Debug)]
pub struct Target {
    /// The destination.
    pub destination: Arc<Destination>,
    /// Its distances, if it has a rate.
    pub spacing: Option<Spacing>,
    /// A pause that this invocation has learned of (LIM-7).
    pub pause: Cell<Option<Clocks>>,
}

/// Whether an attempt still fits the invocation (ACK-4).
pub fn fits<W: World>(run: &Run<'_, W>, destination: &Destination) -> bool {
    run.ends_at.since(run.now()) >= destination.timeout + AROUND_ATTEMPT
}

/// Works on one claimed delivery.
pub async fn attempt<W: World>(run: &Run<'_, W>, target: &Target, ready: Ready) -> (Work, End) {
    match start(run, target, ready).await {
        Ok((ready, place)) => send(run, target, ready, place).await,
        Err((ready, intent)) => {
            let mut ended = ends(write_down(run, vec![(*ready, intent)]).await);
            // One intent has one outcome.
            ended.pop().unwrap_or_else(unreachable_outcome)
        }
    }
}

#[expect(clippy::panic, reason = "caught per record (ACK-2); the message stays")]
fn unreachable_outcome() -> (Work, End) {
    panic!("one intent has one outcome")
}

/// Waits for a place that can be used, and looks at everything once more. `Err` is what is written instead.
async fn start<W: World>(
    run: &Run<'_, W>,
    target: &Target,
    mut ready: Ready,
) -> Result<(Ready, Option<Micros>), (Box<Ready>, Intent)> {
    let clock = run.world.clock();
    let late = target.spacing.map_or(Duration::ZERO, |spacing| spacing.late);
    for _ in 0..MOST_BOOKINGS {
        if let Some(not_before) = ready.not_before {
            clock.sleep_until(not_before).await;
        }
        if run.now() > ready.deadline {
            break;
        }
        let mut place = ready.place.take();
        if place.is_none()
            && let Some(spacing) = target.spacing
        {
            match gate(run, &target.destination, spacing, vec![ready]).await.pop() {
                Some(AtGate::Placed(placed)) => {
                    ready = placed;
                    place = ready.place.take();
                }
                Some(AtGate::Soon(soon)) => {
                    ready = soon;
                    continue;
                }
                Some(AtGate::Refused(ready, intent)) => return Err((Box::new(ready), intent)),
                None => unreachable_outcome_of_gate(),
            }
        }
        if let Some(place) = place {
            clock.sleep_until(place.timestamp()).await;
        }
        let now = run.now();
        if let Some(clocks) = known_pause(run, target, now) {
            match paused(run, ready, &clocks) {
                AtGate::Placed(soon) | AtGate::Soon(soon) => ready = soon,
                AtGate::Refused(ready, intent) => return Err((Box::new(ready), intent)),
            }
            continue;
        }
        if now > ready.deadline || !fits(run, &target.destination) {
            break;
        }
        if place.is_none_or(|place| now.since(place.timestamp()) <= late) {
            return Ok((ready, place));
        }
    }
    if run.now() > ready.deadline {
        return Err((Box::new(ready), Intent::Dead(Reason::DeadlinePassed, None)));
    }
    let until = run.now().plus(UNDONE);
    let planned = ready.work.planned;
    Err((Box::new(ready), Intent::Wait(until, planned)))
}

/// The pause that lasts, by this invocation's own answers or by the store's last one (LIM-7).
pub fn known_pause<W: World>(run: &Run<'_, W>, target: &Target, now: Timestamp) -> Option<Clocks> {
    let seen = run.limiter().last_seen(&target.destination.name);
    [target.pause.get(), Some(seen)]
        .into_iter()
        .flatten()
        .max_by_key(|clocks| clocks.paused(now))
        .filter(|clocks| clocks.paused(now).is_some())
}

#[expect(clippy::panic, reason = "caught per record (ACK-2); the message stays")]
fn unreachable_outcome_of_gate() -> ! {
    panic!("the gate answers for each delivery")
}

async fn send<W: World>(run: &Run<'_, W>, target: &Target, ready: Ready, place: Option<Micros>) -> (Work, End) {
    let started = run.now();
    let record = &ready.base;
    let seen = run.limiter().last_seen(&target.destination.name);
    let request = ports::Attempt {
        destination: Arc::clone(&target.destination),
        id: ready.work.key.id.clone(),
        payload: Arc::clone(&ready.work.message.payload),
        number: record.attempts + record.throttles + 1,
        at: started,
    };
    let sent = run.world.sender().send(&request).await;
    let now = run.now();
    let decision = decide(
        &sent.outcome,
        target.destination.rules(),
        Attempt {
            attempts: record.attempts,
            streak: seen.pause.streak,
            unknown_before: record.unknown_outcome,
            deadline: ready.deadline,
            now,
            draw: run.world.chance().draw(),
        },
    );
    let unrecorded = Unrecorded::of(run, &ready.work, &decision);
    tell_limiter(run, target, &decision, started, now).await;
    let status = status(&sent.outcome);
    report::attempt(&report::Attempt {
        key: &ready.work.key,
        number: request.number,
        epoch: record.epoch,
        decision: &decision,
        status,
        took_ms: millis(now.since(started)),
        plan_lead_ms: ready.work.planned.map(|planned| (seen.real_time(planned).0 - started.micros().0) / 1000),
        place_lag_ms: place.map(|place| millis(started.since(place.timestamp()))),
        receives: ready.work.receives,
        now,
    });
    count(run, &ready, &decision, started, now, place);
    let completed = record.attempted(&decision, status, error(&sent));
    complete(run, ready, completed, &decision, &unrecorded).await
}

/// A 2xx is acknowledged from the moment it is known, however the invocation ends (LED-7); it is logged if the
/// record never came to say so.
struct Unrecorded {
    key: DeliveryKey,
    recorded: Cell<bool>,
}

impl Unrecorded {
    fn of<W: World>(run: &Run<'_, W>, work: &Work, decision: &Decision) -> Self {
        let delivered = decision.action == Action::Acknowledge;
        if delivered {
            acknowledge(run, work);
        }
        Self { key: work.key.clone(), recorded: Cell::new(!delivered) }
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        if !self.recorded.get() {
            tracing::error!(event_id = %self.key.id, destination = %self.key.destination, "delivered_unrecorded");
        }
    }
}

/// Stores a pause, or ends a streak (LIM-7, CLS-8), and lets this destination's other records know at once.
async fn tell_limiter<W: World>(
    run: &Run<'_, W>,
    target: &Target,
    decision: &Decision,
    started: Timestamp,
    now: Timestamp,
) {
    let name = &target.destination.name;
    let limiter = run.limiter();
    // Before it is stored, and even if it cannot be: the other records must not start meanwhile.
    let known = known_pause(run, target, now).unwrap_or_else(|| limiter.last_seen(name));
    let pause = match (decision.class, decision.pause_until) {
        (Class::Throttled, _) => Some(known.pause.throttled(decision.asked, started, now)),
        (Class::Permanent, Some(until)) => Some(known.pause.raised(until, now)),
        (Class::Delivered | Class::Transient | Class::Permanent, _) => None,
    };
    if let Some(pause) = pause {
        target.pause.set(Some(Clocks { pause, ..known }));
    }
    let told = match (decision.class, decision.pause_until) {
        (Class::Throttled, _) => limiter.throttled(name, decision.asked, started, now).await.map(Some),
        (Class::Permanent, Some(until)) => limiter.pause(name, until, now).await.map(Some),
        (Class::Delivered, _) => limiter.succeeded(name, started).await.map(|()| None),
        (Class::Transient | Class::Permanent, _) => Ok(None),
    };
    match told {
        Ok(Some(clocks)) => target.pause.set(Some(clocks)),
        Ok(None) => {}
        // The delivery itself waits as it was asked; the others will be told by their own answers.
        Err(error) => tracing::error!(operation = error.operation, cause = error.cause, "pause_not_stored"),
    }
}

async fn complete<W: World>(
    run: &Run<'_, W>,
    ready: Ready,
    completed: Record,
    decision: &Decision,
    unrecorded: &Unrecorded,
) -> (Work, End) {
    let ready = Ready { base: completed, ..ready };
    let intent = match decision.action {
        Action::Acknowledge => return delivered(run, ready, unrecorded).await,
        Action::RetryAt(at) => Intent::Wait(at, None),
        Action::Dead(reason) => Intent::Dead(reason, ready.base.last_error.clone()),
    };
    let mut outcomes = write_down(run, vec![(ready, intent)]).await;
    match outcomes.pop() {
        Some(Written::Ended(work, end)) => (work, end),
        // The lease ran out and someone else took over: their record says what is next.
        Some(Written::Lost(work)) => (work, End::Back(BACK_LEAST)),
        Some(Written::Claimed(ready)) => (ready.work, End::Back(BACK_LEAST)),
        None => unreachable_outcome(),
    }
}

/// Records the receiver's decision: over any state but Delivered (LED-6), for as long as there is time (LED-7).
async fn delivered<W: World>(run: &Run<'_, W>, ready: Ready, unrecorded: &Unrecorded) -> (Work, End) {
    let mut base = Some(ready.base.clone());
    loop {
        let moment = Moment { now: run.now(), deadline: ready.deadline };
        let write = match &base {
            Some(record) if record.state == State::Delivered => {
                unrecorded.recorded.set(true);
                break;
            }
            Some(record) => record.delivered(moment).map(LedgerWrite::Swap),
            // Its time to live is over, or someone deleted it: the fact is written all the same.
            None => {
                Record::first(&ready.base.token, ready.base.epoch, moment).delivered(moment).map(LedgerWrite::Insert)
            }
        };
        let Ok(write) = write else { break };
        let answer = run.ledger.submit(&run.activity, vec![(ready.work.key.clone(), write)]).await.pop().flatten();
        match answer.unwrap_or(Committed::Unavailable) {
            Committed::Stored => {
                unrecorded.recorded.set(true);
                break;
            }
            Committed::Lost(theirs) => base = theirs.map(|record| *record),
            Committed::Unavailable => {}
        }
        if run.ends_at.since(run.now()) < RECORD_NEEDS {
            break;
        }
        run.world.clock().sleep_until(run.now().plus(RECORD_AGAIN)).await;
    }
    (ready.work, End::Acknowledge)
}

fn count<W: World>(
    run: &Run<'_, W>,
    ready: &Ready,
    decision: &Decision,
    started: Timestamp,
    now: Timestamp,
    place: Option<Micros>,
) {
    run.count(&ready.work.key.destination, |tally| {
        tally.attempts += 1;
        match decision.class {
            Class::Delivered => {
                tally.delivered += 1;
                let age = millis(now.since(ready.work.message.occurred_at));
                tally.delivery_age_ms = tally.delivery_age_ms.max(age);
            }
            Class::Throttled => tally.throttled += 1,
            Class::Transient => tally.transient += 1,
            Class::Permanent => {}
        }
        if place.is_some() {
            let waited = millis(started.since(ready.base.first_at));
            tally.place_wait_ms = tally.place_wait_ms.max(waited);
        }
    });
}

fn status(outcome: &Outcome) -> Option<u16> {
    match outcome {
        Outcome::Answered(answer) => Some(answer.status),
        Outcome::Failed(_) => None,
    }
}

/// What the operator reads of an attempt: where a redirect leads, else the answer's start or the error.
fn error(sent: &Sent) -> Option<String> {
    match &sent.outcome {
        Outcome::Answered(Answer { location_host: Some(host), .. }) => Some(format!("redirects to {host}")),
        Outcome::Answered(_) | Outcome::Failed(_) => sent.excerpt.clone(),
    }
}
