//! What goes wrong in a run: calls, processes, clocks, outages, and a queue that forgets.
//!
//! Owns: when, and how badly. Must not: carry a fault out; each part does.

use std::time::Duration;

use lapse_policy::ports::Clock as _;

use super::Stage;
use crate::fleet::lot::Fortune;
use crate::fleet::steps::Step;
use crate::fleet::weather::{Fault, Odds, Part};

/// How late TTL takes what it may take: at once, or days later (DynamoDB developer guide).
const TTL_LATE_H: [u64; 3] = [0, 24, 24 * 4];

/// Lets things go wrong until the run's end, and mends all of them then.
pub(super) fn start(stage: &Stage) {
    if stage.temper.fair {
        return;
    }
    foul(stage);
    for _ in 0..stage.dice.below(4) {
        outage(stage);
    }
    for _ in 0..stage.dice.below(3) {
        stall(stage);
    }
    mend(stage);
}

fn foul(stage: &Stage) {
    let weather = &stage.world.shared.weather;
    let worst = [50, 300, 1500][stage.dice.below(3)];
    let up_to = |most: u32| u32::try_from(stage.dice.below(usize::try_from(most).unwrap_or(1))).unwrap_or(0);
    for part in Part::ALL {
        weather.set(part, Odds { call: up_to(worst), entry: up_to(worst / 2 + 1), down: false });
    }
    stage.world.lot.change(Fortune {
        crash: up_to(worst * 2),
        freeze: up_to(worst),
        unreadable: up_to(worst / 4 + 1),
        throttled: up_to(worst / 4 + 1),
        clock_step: up_to(worst),
        recycled: up_to(worst),
    });
    stage.world.rule.be_unpunctual(up_to(worst * 2));
}

/// A part is down for a while.
fn outage(stage: &Stage) {
    let (here, at) = (stage.clone(), stage.sometime());
    let part = Part::ALL[stage.dice.below(Part::ALL.len())];
    let lasts = [stage.span(1, 5), stage.span(5, 60), stage.span(60, 1500)][stage.dice.below(3)];
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let weather = &here.world.shared.weather;
        weather.count(Fault::Outage);
        weather.set(part, Odds { down: true, ..weather.odds(part) });
        here.world.eyes.see(here.time().now(), || Step::Went(Fault::Outage, format!("{part:?} for {lasts:?}")));
        here.time().sleep_until(here.time().now().plus(lasts).min(here.until)).await;
        weather.set(part, Odds { down: false, ..weather.odds(part) });
    });
}

/// An event source stands still, or no tick comes for a while.
fn stall(stage: &Stage) {
    let (here, at) = (stage.clone(), stage.sometime());
    let (which, lasts) = (stage.dice.below(3), [stage.span(10, 3000), stage.span(3000, 20_000)][stage.dice.below(2)]);
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let end = here.time().now().plus(lasts).min(here.until);
        let what = match which {
            0 => {
                here.world.mapping.stall_until(end);
                "the event source of deliver"
            }
            1 => {
                here.world.triage.stall_until(end);
                "the event source of triage"
            }
            _ => {
                here.world.rule.stop_until(end);
                "the rule"
            }
        };
        here.world.eyes.see(here.time().now(), || Step::Went(Fault::Outage, format!("{what} for {lasts:?}")));
    });
}

/// From the end on nothing fails any more; TTL goes on.
fn mend(stage: &Stage) {
    let here = stage.clone();
    stage.spawn(async move {
        here.time().sleep_until(here.until).await;
        here.world.eyes.see(here.time().now(), || Step::Did("nothing fails any more".to_owned()));
        here.world.shared.weather.clear();
        here.world.lot.change(Fortune::default());
        here.world.rule.be_unpunctual(0);
    });
    // Not waited for: it never ends.
    let (here, late) = (stage.clone(), TTL_LATE_H[stage.dice.below(TTL_LATE_H.len())]);
    stage.world.time.spawn(async move {
        loop {
            here.time().pass(Duration::from_hours(6)).await;
            here.world.shared.ledger.expire(here.time().now(), Duration::from_hours(late));
        }
    });
}
