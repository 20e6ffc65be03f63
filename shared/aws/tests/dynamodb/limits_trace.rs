//! LIM-1, LIM-3, LIM-5, LIM-7: the adapter and the model stay the same over any run of writes.
//!
//! Owns: the traces, each from a committed seed. Must not: be a table of cases; `limits` is.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use lapse_engines::each;
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::pause::Pause;
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::pair::{NOW, Pair, name};

/// A seed that ever found something is added here and stays.
const SEEDS: [u64; 8] = [1, 2, 3, 5, 8, 13, 21, 34];
const WRITES: u64 = 75;

/// Mostly the value itself; at times its neighbours, at times far off.
fn near(rng: &mut Rng, value: i64) -> i64 {
    let off = [0, 0, 0, -1, 1, -1_000_000, 1_000_000];
    value.saturating_add(off[rng.usize(..off.len())])
}

fn any_clock(rng: &mut Rng) -> Clock {
    if rng.bool() { Clock::Plan } else { Clock::Gate }
}

fn reading(item: &Clocks, clock: Clock, now: Timestamp) -> Micros {
    let value = match clock {
        Clock::Plan => item.plan,
        Clock::Gate => item.gate,
    };
    value.unwrap_or(now.micros())
}

fn any_guard(rng: &mut Rng, item: &Clocks, now: Timestamp) -> Guard {
    if rng.bool() {
        Guard::Shift(near(rng, item.pause.shift))
    } else {
        let until = item.pause.until.unwrap_or(now).millis();
        Guard::NotPaused(Timestamp::from_millis(near(rng, until)))
    }
}

/// What a booking, a 429, an operator or a success might make of a pause, or anything at all.
fn any_pause(rng: &mut Rng, pause: Pause, now: Timestamp) -> Pause {
    let span = Duration::from_millis(rng.u64(..20_000));
    match rng.u8(..7) {
        0 => pause.throttled(Some(span), now, now),
        1 => pause.throttled(None, now.plus(span), now.plus(span)),
        2 => pause.raised(Timestamp::FAR_FUTURE, now),
        3 => pause.lifted(now),
        4 => pause.succeeded(Timestamp::FAR_FUTURE),
        5 => Pause::default(),
        _ => Pause { shift: -rng.i64(0..5_000_000), from: Some(now), ..pause },
    }
}

/// The pause as this sandbox might believe it to be: one field is another now and then.
fn believed(rng: &mut Rng, pause: Pause) -> Pause {
    match rng.u8(..12) {
        0 => Pause { until: pause.until.map(|t| t.plus(Duration::from_millis(1))), streak: pause.streak ^ 1, ..pause },
        1 => Pause { from: Some(NOW), ..pause },
        2 => Pause { shift: pause.shift + 1, ..pause },
        3 => Pause { until: None, from: None, ..pause },
        _ => pause,
    }
}

fn any_write(rng: &mut Rng, item: &Clocks, now: Timestamp) -> Write {
    match rng.u8(..10) {
        0..=2 => {
            let clock = any_clock(rng);
            let value = reading(item, clock, now).0;
            let (least, most) = (near(rng, value), near(rng, value).max(near(rng, value)));
            let add = Micros(rng.i64(1..10_000_000));
            Write::Busy { clock, add, least: Micros(least), most: Micros(most), guard: any_guard(rng, item, now) }
        }
        3..=5 => {
            let clock = any_clock(rng);
            let below = Micros(near(rng, reading(item, clock, now).0).saturating_add(rng.i64(0..=1)));
            let to = Micros(near(rng, now.micros().0));
            Write::Idle { clock, to, below, guard: any_guard(rng, item, now) }
        }
        6..=7 => {
            let mut one = |clock| {
                let below = Micros(reading(item, clock, now).0.saturating_add(rng.i64(0..=3)));
                (Micros(below.0 + rng.i64(0..5_000_000)), below)
            };
            let (plan, gate) = (one(Clock::Plan), one(Clock::Gate));
            let at = item.pause.until.unwrap_or(now);
            Write::BothIdle { plan, gate, shift: near(rng, item.pause.shift), at }
        }
        _ => Write::Pause { from: believed(rng, item.pause), to: any_pause(rng, item.pause, now) },
    }
}

fn kind(write: &Write) -> &'static str {
    match write {
        Write::Busy { .. } => "busy",
        Write::Idle { .. } => "idle",
        Write::BothIdle { .. } => "both",
        Write::Pause { .. } => "pause",
    }
}

#[tokio::test]
async fn lim_1_to_7_any_run_of_writes_is_answered_and_stored_as_the_model_says() {
    for engine in each() {
        let mut met = BTreeMap::new();
        let destinations = [name("catalog"), name("billing")];
        for seed in SEEDS {
            let mut rng = Rng::with_seed(seed);
            let mut pair = Pair::new(engine).await;
            for step in 0..WRITES {
                let now = NOW.plus(Duration::from_millis(step * rng.u64(..3000)));
                let destination = &destinations[rng.usize(..destinations.len())];
                let write = any_write(&mut rng, &pair.item(destination), now);
                let done = pair.write(&format!("seed {seed}, step {step}"), destination, &write).await;
                *met.entry((kind(&write), done)).or_insert(0) += 1;
            }
        }
        for kind in ["busy", "idle", "both", "pause"] {
            for done in [true, false] {
                assert!(met.get(&(kind, done)).is_some_and(|n| *n >= 15), "{kind}, done {done}: too few in {met:?}");
            }
        }
    }
}
