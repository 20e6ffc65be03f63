//! LIM-1, LIM-3, LIM-5 to LIM-7: bookings, pauses and lifts as sandboxes make them, at every kind of rate and at the
//! ends of time; the adapter and the model stay the same throughout.
//!
//! Owns: the traces, each from a committed seed. Must not: judge places; the policy's own tests do.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use fastrand::Rng;
use lapse_engines::each;
use lapse_policy::booking::{GateAsk, PlanAsk};
use lapse_policy::clock::{Clocks, Spacing, Write};
use lapse_policy::destination::{JITTER, Rate};
use lapse_policy::names::DestinationName;
use lapse_policy::pause::Pause;
use lapse_policy::timestamp::Timestamp;

use crate::pair::{NOW, Pair, name};

/// A seed that ever found something is added here and stays.
const SEEDS: [u64; 3] = [1, 4, 9];
const STEPS: u32 = 20;
/// `limit`, `per_seconds`, `burst`: from one an hour to 10,000 a second, and the longest that DST-1 takes.
const RATES: [(u32, u32, u32); 7] =
    [(1, 604_800, 1), (1, 3600, 1), (7, 60, 3), (5, 1, 1), (50, 1, 50), (10_000, 1, 1), (10_000, 1, 1_000_000)];
/// How far sandboxes' clocks may be from true time, and how many there are.
const DIFFER: Duration = Duration::from_secs(2);
const SANDBOXES: usize = 3;

/// One destination's trace: true time, and what each sandbox last saw.
struct Trace {
    rng: Rng,
    label: String,
    destination: DestinationName,
    spacing: Spacing,
    now: Timestamp,
    seen: [Clocks; SANDBOXES],
    met: BTreeMap<&'static str, u32>,
}

impl Trace {
    fn new(seed: u64, (limit, per_seconds, burst): (u32, u32, u32), start: Timestamp) -> Self {
        let number = |n| NonZeroU32::new(n).unwrap();
        let rate = Rate { limit: number(limit), per_seconds: number(per_seconds), burst: number(burst) };
        Self {
            rng: Rng::with_seed(seed),
            label: format!("seed {seed}, {rate:?} from {start}"),
            destination: name("catalog"),
            spacing: Spacing::of(rate, JITTER),
            now: start,
            seen: [Clocks::default(); SANDBOXES],
            met: BTreeMap::new(),
        }
    }

    async fn run(&mut self, pair: &mut Pair) {
        for _ in 0..STEPS {
            let step = Duration::from_micros(u64::try_from(self.spacing.gate_step.0).unwrap());
            self.now = self.now.plus(step * self.rng.u32(0..40) / 10);
            let sandbox = self.rng.usize(..SANDBOXES);
            let off = DIFFER * self.rng.u32(0..100) / 100;
            let now = if self.rng.bool() { self.now.plus(off) } else { self.now.minus(off) };
            match self.rng.u8(..10) {
                0..=3 => self.gate(pair, sandbox, now).await,
                4..=7 => self.plan(pair, sandbox, now).await,
                _ => self.pause(pair, sandbox, now).await,
            }
        }
    }

    /// One write. What the sandbox sees is the item as it is then, whether it was done or not.
    async fn write(&mut self, pair: &mut Pair, sandbox: usize, write: &Write) -> bool {
        let done = pair.write(&self.label, &self.destination, write).await;
        self.seen[sandbox] = pair.item(&self.destination);
        let kind = match (write, done) {
            (Write::Busy { .. }, true) => "busy",
            (Write::Idle { .. }, true) => "idle",
            (Write::BothIdle { .. }, true) => "both idle",
            (Write::Pause { .. }, true) => "pause",
            (_, false) => "refused",
        };
        *self.met.entry(kind).or_default() += 1;
        done
    }

    async fn gate(&mut self, pair: &mut Pair, sandbox: usize, now: Timestamp) {
        let ask = GateAsk { count: self.rng.usize(1..=10), now, spacing: self.spacing };
        let known = self.seen[sandbox].gate.unwrap_or(now.micros()).max(now.micros());
        let mut next = Ok(if self.rng.bool() { ask.busy(known) } else { ask.idle() });
        while let Ok(write) = next {
            if self.write(pair, sandbox, &write).await {
                return;
            }
            // Nobody else writes between: the second finds it as the first left it, and the third is never needed.
            next = ask.next(&self.seen[sandbox]);
        }
        *self.met.entry("gate closed").or_default() += 1;
    }

    async fn plan(&mut self, pair: &mut Pair, sandbox: usize, now: Timestamp) {
        let reach = match self.rng.u8(..6) {
            0 => now,
            1 => now.plus(Duration::from_secs(1)),
            2 => Timestamp::FAR_FUTURE,
            _ => now.plus(Duration::from_hours(24)),
        };
        let ask = PlanAsk { count: self.rng.usize(1..=10), now, reach, spacing: self.spacing };
        let seen = self.seen[sandbox];
        let mut next = Some(if self.rng.bool() { ask.busy(&seen) } else { ask.idle(&seen) });
        while let Some(write) = next {
            if self.write(pair, sandbox, &write).await {
                return;
            }
            next = ask.next(&self.seen[sandbox]);
        }
        *self.met.entry("plan full").or_default() += 1;
    }

    async fn pause(&mut self, pair: &mut Pair, sandbox: usize, now: Timestamp) {
        let asked = Duration::from_secs(self.rng.u64(0..100_000));
        let started = now.minus(Duration::from_millis(self.rng.u64(0..3000)));
        let choice = self.rng.u8(..6);
        let change = |pause: Pause| match choice {
            0 => pause.throttled(None, started, now),
            1 => pause.throttled(Some(asked), started, now),
            2 => pause.raised(Timestamp::FAR_FUTURE, now),
            3 | 4 => pause.lifted(now),
            _ => pause.succeeded(now),
        };
        loop {
            let from = self.seen[sandbox].pause;
            if self.write(pair, sandbox, &Write::Pause { from, to: change(from) }).await {
                return;
            }
        }
    }
}

#[tokio::test]
async fn lim_1_to_7_bookings_at_every_rate_are_answered_and_stored_as_the_model_says() {
    for engine in each() {
        let mut met: BTreeMap<&str, u32> = BTreeMap::new();
        for seed in SEEDS {
            for rate in RATES {
                let mut trace = Trace::new(seed, rate, NOW);
                trace.run(&mut Pair::new(engine).await).await;
                trace.met.into_iter().for_each(|(kind, times)| *met.entry(kind).or_default() += times);
            }
        }
        for kind in ["busy", "idle", "both idle", "pause", "refused", "gate closed", "plan full"] {
            assert!(met.get(kind).is_some_and(|n| *n >= 10), "{kind}: too few in {met:?}");
        }
    }
}

#[tokio::test]
async fn lim_1_to_7_bookings_at_the_ends_of_time_are_answered_and_stored_as_the_model_says() {
    let end = Timestamp::FAR_FUTURE;
    let endless = Pause { until: Some(end), from: Some(NOW), shift: end.millis() - NOW.millis(), streak: u32::MAX };
    let lifted = Pause { until: None, ..endless };
    let gained = Pause { shift: -endless.shift, ..Pause::default() };
    let items = [
        Clocks { plan: Some(end.micros()), gate: Some(end.micros()), pause: Pause::default() },
        Clocks { plan: None, gate: None, pause: endless },
        Clocks { plan: Some(NOW.micros()), gate: None, pause: lifted },
        Clocks { plan: None, gate: Some(NOW.micros()), pause: gained },
        Clocks::default(),
    ];
    for engine in each() {
        for (start, item) in [Timestamp::EPOCH, NOW, end.minus(Duration::from_mins(1))]
            .into_iter()
            .flat_map(|start| items.map(|item| (start, item)))
        {
            let mut pair = Pair::new(engine).await;
            let mut trace = Trace::new(7, (50, 1, 50), start);
            pair.start(&trace.destination, item).await;
            trace.run(&mut pair).await;
        }
    }
}
