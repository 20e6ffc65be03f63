//! ACK-5, LAN-2 to LAN-4: one destination's deliveries in an invocation, side by side or one after another in a lane.
//!
//! Owns: the choice between the two. Must not: hold up another destination; groups run side by side.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use lapse_policy::clock::Spacing;
use lapse_policy::destination::MAX_AGE;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Chance as _;
use lapse_policy::reason::Reason;
use lapse_policy::schedule::Origin;

use crate::attempt::Target;
use crate::batcher::Participant;
use crate::configuration::Configured;
use crate::course::{Sending, Sifted, carry_out, plans, reconsider, sift};
use crate::intent::{BACK_LEAST, BACK_MOST, Intent, Ready, ends, judge, write_down};
use crate::lane;
use crate::run::Run;
use crate::settle::settle;
use crate::work::{End, Work};
use crate::world::World;

/// So many receives of a message that finds no lane are soon after another (LAN-3).
const SOON_MOST: u32 = 3;
/// After them it is sent again with a delay between these: what waits for lanes must neither fill the flight of the
/// queue nor be received without end.
const LATER_LEAST: Duration = Duration::from_secs(10);
/// See [`LATER_LEAST`]. It is also what a lane may stay free at the end of a backlog.
const LATER_MOST: Duration = Duration::from_secs(60);

/// Works on all deliveries of one destination.
pub async fn group<W: World>(run: &Run<'_, W>, name: &DestinationName, works: Vec<Work>) {
    let me = run.activity.join();
    let configured = run.memory.configuration.of(run.world.destinations(), name, run.now(), run.function_timeout).await;
    match configured {
        Err(error) => {
            tracing::error!(operation = error.operation, cause = error.cause, "destination_unavailable");
            back(run, works.into_iter()).await;
        }
        Ok(Configured::Unusable(reason, error)) => settle(run, unusable(run, works, reason, &error).await).await,
        Ok(Configured::Destination(destination)) => {
            let spacing = destination.rate.map(|rate| Spacing::of(rate, destination.jitter));
            let target = Target { destination, spacing, pause: Cell::new(None) };
            match target.destination.max_in_flight {
                None => at_once(run, &target, me, works).await,
                // Boxed: else every destination's future would have room for a course in a lane.
                Some(most) => Box::pin(in_turn(run, &target, most, me, works)).await,
            }
        }
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

/// Side by side.
async fn at_once<W: World>(run: &Run<'_, W>, target: &Target, me: Participant<'_>, works: Vec<Work>) {
    let Sifted { ended, mut intents, ready } = sift(run, target, works);
    intents.extend(plans(run, target, ready).await);
    carry_out(run, target, me, ended, intents, Sending::Here).await;
}

/// One after another in one lane (LAN-2). What is not to be sent needs none and waits for none (LAN-4).
async fn in_turn<W: World>(run: &Run<'_, W>, target: &Target, most: NonZeroU32, me: Participant<'_>, works: Vec<Work>) {
    let Sifted { ended, intents, ready } = sift(run, target, works);
    let without = carry_out(run, target, me, ended, intents, Sending::Later);
    let within = async {
        if ready.is_empty() {
            return;
        }
        let me = run.activity.join();
        match lane::take(run, &target.destination.name, most).await {
            Ok(Some(held)) => lane::within(run, held, one_by_one(run, target, me, ready)).await,
            Ok(None) => {
                let count = u32::try_from(ready.len()).unwrap_or(u32::MAX);
                run.count(&target.destination.name, |counts| counts.lane_waits += count);
                settle(run, ready.into_iter().map(|ready| queue_up(run, ready.work)).collect()).await;
            }
            Err(error) => {
                tracing::error!(operation = error.operation, cause = error.cause, "lanes_unavailable");
                back(run, ready.into_iter().map(|ready| ready.work)).await;
            }
        }
    };
    futures::future::join(without, within).await;
}

/// Plans them together, then claims and sends one at a time, the earliest deadline first.
async fn one_by_one<'a, W: World>(run: &'a Run<'_, W>, target: &Target, mut me: Participant<'a>, readies: Vec<Ready>) {
    let mut intents = plans(run, target, readies).await;
    intents.sort_by_key(|(ready, _)| ready.deadline);
    loop {
        let (sends, others): (Vec<_>, Vec<_>) = intents.into_iter().partition(|(_, intent)| *intent == Intent::Send);
        let mut sends = sends.into_iter();
        let turn = sends.next().into_iter().collect();
        let also = run.activity.join();
        // Whatever the others turn out to be, it is not their turn.
        let others = carry_out(run, target, also, Vec::new(), others, Sending::Later);
        let turn = carry_out(run, target, me, Vec::new(), turn, Sending::Here);
        futures::future::join(others, turn).await;
        if sends.len() == 0 {
            break;
        }
        me = run.activity.join();
        intents = sends.map(|(ready, _)| reconsider(run, target, ready)).collect();
    }
}

/// Without a free lane a message looks again soon, and when it has done so in vain a few times, later and out of the
/// flight (LAN-3). One that was sent again without ever having had a record has done so before.
fn queue_up<W: World>(run: &Run<'_, W>, work: Work) -> (Work, End) {
    let waited_before = work.origin == Origin::Resumed && work.record.is_none();
    let end = if waited_before || work.receives > SOON_MOST {
        End::Again(run.between(LATER_LEAST, LATER_MOST))
    } else {
        End::Back(run.between(BACK_LEAST, BACK_MOST))
    };
    (work, end)
}

/// They could not be worked on (LIM-8).
async fn back<W: World>(run: &Run<'_, W>, works: impl Iterator<Item = Work>) {
    let back = |work| (work, End::Back(run.between(BACK_LEAST, BACK_MOST)));
    settle(run, works.map(back).collect()).await;
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
