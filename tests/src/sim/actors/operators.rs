//! Operators of a run: they redrive, pause, resume, change limits, take a destination away and put it back.
//!
//! Owns: what a seed lets them do. Must not: do anything that the console or the `lapse` command could not.

use std::time::Duration;

use lapse_policy::names::DestinationName;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{Stage, receivers};
use crate::fleet::steps::{Place, Step};

/// What a redrive waits for: letters younger than a minute count as fresh (RUNBOOK, "Redrive").
const SETTLED: Duration = Duration::from_secs(90);

/// Lets them act.
pub(super) fn start(stage: &Stage, destinations: &[DestinationName]) {
    if stage.temper.operated {
        for _ in 0..stage.dice.below(5) {
            let at = stage.sometime();
            act(stage, at, destinations[stage.dice.below(destinations.len())].clone());
        }
    }
    // In the end some of them look into `dead-letters` once more.
    for n in 0..stage.dice.below(3) {
        let at = stage.until.plus(stage.span(60, 7200) * u32::try_from(n + 1).unwrap_or(1));
        redrive(stage, at);
    }
}

fn did(stage: &Stage, what: impl FnOnce() -> String) {
    stage.world.eyes.see(stage.time().now(), || Step::Did(what()));
}

fn redrive(stage: &Stage, at: Timestamp) {
    let here = stage.clone();
    let hasty = stage.one_in(4);
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        if !hasty {
            here.time().pass(SETTLED).await;
        }
        let shared = &here.world.shared;
        let to =
            |from| if from == Some(Place::Deliveries) { shared.deliveries.clone() } else { shared.failures.clone() };
        let moved = shared.dead_letters.redrive(to);
        did(&here, || format!("redrive of {moved} messages"));
    });
}

fn act(stage: &Stage, at: Timestamp, destination: DestinationName) {
    match stage.dice.below(5) {
        0 => redrive(stage, at),
        1 => {
            redrive(stage, at);
            redrive(stage, at.plus(stage.span(0, 300)));
        }
        2 => pause(stage, at, destination),
        3 => limit(stage, at, destination),
        _ => remove(stage, at, destination),
    }
}

/// Pauses it for a while, and perhaps lifts that before its time, as `lapse destination` does (DST-2, LIM-7).
fn pause(stage: &Stage, at: Timestamp, destination: DestinationName) {
    let (here, lasts, early) = (stage.clone(), stage.span(5, 3000), stage.one_in(2));
    stage.spawn(async move {
        let (time, limits) = (here.time(), &here.world.shared.limits);
        time.sleep_until(at).await;
        let now = time.now();
        let end = if early { Timestamp::FAR_FUTURE } else { now.plus(lasts) };
        limits.change(&destination, |mut clocks| {
            clocks.pause = clocks.pause.raised(end, now);
            clocks
        });
        did(&here, || format!("pause of {destination}"));
        if early {
            time.pass(lasts).await;
            let now = time.now();
            limits.change(&destination, |mut clocks| {
                clocks.pause = clocks.pause.lifted(now);
                clocks
            });
            here.world.eyes.see(now, || Step::Resumed(destination.clone()));
        }
    });
}

/// Another rate, or another number of lanes.
fn limit(stage: &Stage, at: Timestamp, destination: DestinationName) {
    let (here, rate, lanes) = (stage.clone(), receivers::rate(stage), 1 + stage.dice.below(4));
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let Some(mut row) = here.world.shared.destinations.row(&destination) else { return };
        // Only what is there is changed: a limit that begins to be one is not known to all at once.
        for (member, value) in [("rate", rate), ("max_in_flight", json!(lanes))] {
            if row.get(member).is_some_and(|value| *value != Value::Null) {
                row.insert(member.to_owned(), value);
            }
        }
        did(&here, || format!("other limits for {destination}"));
        receivers::put(&here, &destination, row);
    });
}

/// Takes it away, and mostly puts it back.
fn remove(stage: &Stage, at: Timestamp, destination: DestinationName) {
    let (here, lasts, back) = (stage.clone(), stage.span(1, 600), !stage.one_in(4));
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let Some(row) = here.world.shared.destinations.remove(&destination) else { return };
        did(&here, || format!("{destination} is taken away"));
        if back {
            here.time().pass(lasts).await;
            did(&here, || format!("{destination} is put back"));
            here.world.shared.destinations.put(&destination, row);
        }
    });
}
