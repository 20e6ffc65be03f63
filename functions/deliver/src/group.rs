//! ACK-5, ACK-8: one destination's deliveries in an invocation: judge, plan, claim, gate, send.
//!
//! Owns: the order of these steps. Must not: hold up another destination; groups run side by side.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lapse_policy::clock::Spacing;
use lapse_policy::destination::MAX_AGE;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Chance as _;
use lapse_policy::reason::Reason;

use crate::attempt::{Target, attempt, fits};
use crate::booking::{AtGate, gate, plan, unlimited};
use crate::configuration::Configured;
use crate::intent::{BACK_LEAST, BACK_MOST, Intent, Outcome, Ready, ends, judge, write_down};
use crate::run::Run;
use crate::settle::settle;
use crate::work::{End, Work};
use crate::world::World;

/// A delivery whose claim lost a race is judged again; after so many it comes back.
const MOST_CLAIMS: usize = 3;

/// Works on all deliveries of one destination.
pub async fn group<W: World>(run: &Run<'_, W>, name: &DestinationName, works: Vec<Work>) {
    let me = run.activity.join();
    let configured = run.memory.configuration.of(run.world.destinations(), name, run.now(), run.function_timeout).await;
    match configured {
        Err(error) => {
            tracing::error!(operation = error.operation, cause = error.cause, "destination_unavailable");
            let back = |work| (work, End::Back(run.between(BACK_LEAST, BACK_MOST)));
            settle(run, works.into_iter().map(back).collect()).await;
        }
        Ok(Configured::Unusable(reason, error)) => settle(run, unusable(run, works, reason, &error).await).await,
        Ok(Configured::Destination(destination)) => {
            let spacing = destination.rate.map(|rate| Spacing::of(rate, destination.jitter));
            let target = Target { destination, spacing, pause: Cell::new(None) };
            let (mut ended, claimed) = claim(run, &target, works).await;
            let (starting, refused) = at_gate(run, &target, claimed).await;
            ended.extend(ends(write_down(run, refused).await));
            let attempts: FuturesUnordered<_> = starting.into_iter().map(|ready| one(run, &target, ready)).collect();
            let rest = async {
                let me = me;
                settle(run, ended).await;
                drop(me);
            };
            futures::future::join(rest, attempts.collect::<()>()).await;
        }
    }
}

/// One attempt, from its place to its settled end. A panic fails this record alone (ACK-2).
fn one<'a, W: World>(run: &'a Run<'_, W>, target: &'a Target, ready: Ready) -> impl Future<Output = ()> + 'a {
    let me = run.activity.join();
    let key = ready.work.key.clone();
    let work = async move {
        let ended = attempt(run, target, ready).await;
        settle(run, vec![ended]).await;
    };
    async move {
        if AssertUnwindSafe(work).catch_unwind().await.is_err() {
            tracing::error!(event_id = %key.id, destination = %key.destination, "record_panicked");
        }
        drop(me);
    }
}

/// No destination to send to: what is not decided yet is dead (DST-1).
async fn unusable<W: World>(run: &Run<'_, W>, works: Vec<Work>, reason: Reason, error: &str) -> Vec<(Work, End)> {
    let (mut ended, mut intents) = (Vec::new(), Vec::new());
    for work in works {
        match judge(work, MAX_AGE, run.now(), &run.world.chance().token()) {
            // ACK-8: a deadline that is past comes first.
            Ok(ready) if run.now() > ready.deadline => {
                intents.push((*ready, Intent::Dead(Reason::DeadlinePassed, None)));
            }
            Ok(ready) => intents.push((*ready, Intent::Dead(reason, Some(error.to_owned())))),
            Err(end) => ended.push(*end),
        }
    }
    ended.extend(ends(write_down(run, intents).await));
    ended
}

/// Judges, plans and claims, until every delivery is claimed or has an end.
async fn claim<W: World>(run: &Run<'_, W>, target: &Target, works: Vec<Work>) -> (Vec<(Work, End)>, Vec<Ready>) {
    let (mut ended, mut claimed) = (Vec::new(), Vec::new());
    let mut pending = works;
    for _ in 0..MOST_CLAIMS {
        if pending.is_empty() {
            break;
        }
        let mut readies = Vec::with_capacity(pending.len());
        for work in pending.drain(..) {
            match judge(work, target.destination.max_age, run.now(), &run.world.chance().token()) {
                Ok(ready) => readies.push(*ready),
                Err(judged) => {
                    let (work, end) = *judged;
                    if end == End::Acknowledge {
                        run.count(&work.key.destination, |counts| counts.duplicates += 1);
                    }
                    ended.push((work, end));
                }
            }
        }
        let intents = intents(run, target, readies).await;
        for outcome in write_down(run, intents).await {
            match outcome {
                Outcome::Claimed(ready) => claimed.push(*ready),
                Outcome::Ended(work, end) => ended.push((work, end)),
                // LED-4: it shows only now that it may have killed its worker; it comes back, to be claimed alone.
                Outcome::Lost(work) if work.is_suspect(run.now()) => ended.push((work, End::Back(BACK_LEAST))),
                Outcome::Lost(work) => pending.push(work),
            }
        }
    }
    ended.extend(pending.into_iter().map(|work| (work, End::Back(BACK_LEAST))));
    (ended, claimed)
}

/// What each delivery that may be worked on is to become.
async fn intents<W: World>(run: &Run<'_, W>, target: &Target, readies: Vec<Ready>) -> Vec<(Ready, Intent)> {
    let now = run.now();
    let (mut intents, mut to_plan) = (Vec::with_capacity(readies.len()), Vec::new());
    for ready in readies {
        if ready.base.is_poison() {
            let error = "its workers died three times in a row".to_owned();
            intents.push((ready, Intent::Dead(Reason::Poison, Some(error))));
        } else if now > ready.deadline {
            // RET-7: nothing is booked for it.
            intents.push((ready, Intent::Dead(Reason::DeadlinePassed, None)));
        } else if !fits(run, &target.destination) {
            intents.push((ready, Intent::Back(BACK_LEAST)));
        } else if target.spacing.is_some() && ready.work.planned.is_some() {
            intents.push((ready, Intent::Send));
        } else {
            to_plan.push(ready);
        }
    }
    if !to_plan.is_empty() {
        intents.extend(match target.spacing {
            Some(spacing) => plan(run, &target.destination, spacing, to_plan).await,
            None => unlimited(run, &target.destination, to_plan).await,
        });
    }
    intents
}

/// Gives a place to every claimed delivery that has none yet and may start now.
async fn at_gate<W: World>(
    run: &Run<'_, W>,
    target: &Target,
    claimed: Vec<Ready>,
) -> (Vec<Ready>, Vec<(Ready, Intent)>) {
    let Some(spacing) = target.spacing else { return (claimed, Vec::new()) };
    let now = run.now();
    // Those that must not start yet book their place when they may.
    let (mut starting, asking): (Vec<_>, Vec<_>) = claimed
        .into_iter()
        .partition(|ready| ready.place.is_some() || ready.not_before.is_some_and(|not_before| not_before > now));
    let mut refused = Vec::new();
    for answer in gate(run, &target.destination, spacing, asking).await {
        match answer {
            AtGate::Placed(ready) | AtGate::Soon(ready) => starting.push(ready),
            AtGate::Refused(ready, intent) => refused.push((ready, intent)),
        }
    }
    (starting, refused)
}

/// The destination's share of a batch.
pub type Share = (DestinationName, Vec<Work>);

/// Splits deliveries by destination, in the order of their first messages.
#[must_use]
pub fn by_destination(works: Vec<Work>) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for work in works {
        match shares.iter_mut().find(|(name, _)| *name == work.key.destination) {
            Some((_, share)) => share.push(work),
            None => shares.push((work.key.destination.clone(), vec![work])),
        }
    }
    shares
}
