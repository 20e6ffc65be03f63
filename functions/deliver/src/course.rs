//! ACK-2, ACK-8: the steps of deliveries to one destination: judge, plan, claim, gate, send.
//!
//! Owns: the order of these steps, for any number of deliveries at once.
//! Must not: know whether they go side by side or one after another; `group` does.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lapse_policy::ports::Chance as _;
use lapse_policy::reason::Reason;

use crate::attempt::{Target, attempt, fits, known_pause};
use crate::batcher::Participant;
use crate::booking::{AtGate, gate, paused, plan, unlimited};
use crate::intent::{BACK_LEAST, Intent, Outcome, Ready, ends, judge, write_down};
use crate::limiter::Scope;
use crate::run::Run;
use crate::settle::settle;
use crate::work::{End, Work};
use crate::world::World;

/// A delivery whose claim lost a race is judged again; after so many it comes back.
const MOST_CLAIMS: usize = 3;

/// Deliveries as their records say.
#[derive(Debug, Default)]
pub struct Sifted {
    /// Nothing is to be written about these.
    pub ended: Vec<(Work, End)>,
    /// These are not to be sent now: that is to be written down.
    pub intents: Vec<(Ready, Intent)>,
    /// These may be sent, if the limiter agrees.
    pub ready: Vec<Ready>,
}

/// Judges deliveries, without asking anybody.
pub fn sift<W: World>(run: &Run<'_, W>, target: &Target, works: Vec<Work>) -> Sifted {
    let mut sifted = Sifted::default();
    for work in works {
        match judge(work, target.destination.max_age, run.now(), &run.world.chance().token()) {
            Ok(ready) => match hindrance(run, target, &ready) {
                Some(intent) => sifted.intents.push((*ready, intent)),
                None => sifted.ready.push(*ready),
            },
            Err(judged) => {
                let (work, end) = *judged;
                if end == End::Acknowledge {
                    run.count(&work.key.destination, |counts| counts.duplicates += 1);
                }
                sifted.ended.push((work, end));
            }
        }
    }
    sifted
}

/// Why a delivery cannot be sent, whatever the limiter says: nothing is booked for it.
fn hindrance<W: World>(run: &Run<'_, W>, target: &Target, ready: &Ready) -> Option<Intent> {
    if ready.base.is_poison() {
        let error = "its workers died three times in a row".to_owned();
        Some(Intent::Dead(Reason::Poison, Some(error)))
    } else if run.now() > ready.deadline {
        // RET-7
        Some(Intent::Dead(Reason::DeadlinePassed, None))
    } else if !fits(run, &target.destination) {
        Some(Intent::Back(BACK_LEAST))
    } else {
        None
    }
}

/// What the limiter says to deliveries that may be sent: now, or when (LIM-3, LIM-9).
pub async fn plans<W: World>(run: &Run<'_, W>, target: &Target, readies: Vec<Ready>) -> Vec<(Ready, Intent)> {
    let Some(spacing) = target.spacing else { return unlimited(run, &target.destination, readies).await };
    let scope = Scope::of(&target.destination, readies.len());
    let (planned, unplanned): (Vec<_>, Vec<_>) = readies.into_iter().partition(|ready| ready.work.planned.is_some());
    let mut intents: Vec<_> = planned.into_iter().map(|ready| (ready, Intent::Send)).collect();
    intents.extend(plan(run, &target.destination, spacing, scope, unplanned).await);
    intents
}

/// What is next for a delivery whose turn has not come yet (LAN-2), after all that has happened meanwhile. One that no
/// longer fits the invocation is not written down: a planned time of its own would be over when it finds a lane again.
pub fn reconsider<W: World>(run: &Run<'_, W>, target: &Target, ready: Ready) -> (Ready, Intent) {
    if let Some(intent) = hindrance(run, target, &ready) {
        return (ready, intent);
    }
    let Some(clocks) = known_pause(run, target, run.now()) else { return (ready, Intent::Send) };
    match paused(run, ready, &clocks) {
        AtGate::Placed(ready) | AtGate::Soon(ready) => (ready, Intent::Send),
        AtGate::Refused(ready, intent) => (ready, intent),
    }
}

/// Whether deliveries may be sent that were not to be sent, where a lost race shows that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// At once: a lane is held, or none is needed.
    Here,
    /// They come back: they need a lane, and there is none at hand (LAN-4).
    Later,
}

/// Carries intents out: claims what is to be sent, passes the gate, sends, and settles all.
pub async fn carry_out<W: World>(
    run: &Run<'_, W>,
    target: &Target,
    me: Participant<'_>,
    mut ended: Vec<(Work, End)>,
    intents: Vec<(Ready, Intent)>,
    sending: Sending,
) {
    let (others, claimed) = claim(run, target, intents, sending).await;
    ended.extend(others);
    let (starting, refused) = at_gate(run, target, claimed).await;
    ended.extend(ends(write_down(run, refused).await));
    let attempts: FuturesUnordered<_> = starting.into_iter().map(|ready| one(run, target, ready)).collect();
    let rest = async {
        let me = me;
        settle(run, ended).await;
        drop(me);
    };
    futures::future::join(rest, attempts.collect::<()>()).await;
}

/// Writes intents down until every delivery is claimed or has an end.
async fn claim<W: World>(
    run: &Run<'_, W>,
    target: &Target,
    mut intents: Vec<(Ready, Intent)>,
    sending: Sending,
) -> (Vec<(Work, End)>, Vec<Ready>) {
    let (mut ended, mut claimed) = (Vec::new(), Vec::new());
    for more in (0..MOST_CLAIMS).rev() {
        let mut lost = Vec::new();
        for outcome in write_down(run, intents).await {
            match outcome {
                Outcome::Claimed(ready) => claimed.push(*ready),
                Outcome::Ended(work, end) => ended.push((work, end)),
                // LED-4: it shows only now that it may have killed its worker; it comes back, to be claimed alone.
                Outcome::Lost(work) if more == 0 || work.is_suspect(run.now()) => {
                    ended.push((work, End::Back(BACK_LEAST)));
                }
                Outcome::Lost(work) => lost.push(work),
            }
        }
        if lost.is_empty() {
            break;
        }
        let again = sift(run, target, lost);
        ended.extend(again.ended);
        intents = again.intents;
        match sending {
            Sending::Here => intents.extend(plans(run, target, again.ready).await),
            Sending::Later => {
                ended.extend(again.ready.into_iter().map(|ready| (ready.work, End::Back(BACK_LEAST))));
            }
        }
    }
    (ended, claimed)
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
