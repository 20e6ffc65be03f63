//! LIM-5: however many workers book, with clocks that differ, and whatever wakes late, twice or not at all, a
//! destination gets no more requests in any window than its rate allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use lapse_policy::booking::{GateAsk, PlanAsk};
use lapse_policy::clock::{Clocks, Spacing, Write};
use lapse_policy::destination::Rate;
use lapse_policy::timestamp::{Micros, Timestamp};
use proptest::prelude::*;

const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);
/// How far a sandbox's clock may be from true time, in ms.
const SKEW_MS: i64 = 2000;
const WORKERS: usize = 5;

/// What a worker does at an instant of true time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// Plans for that many; where both clocks are idle this books the gate too.
    Plan(usize),
    /// Books that many at the gate. Several at once stand for messages that wake twice or in a crowd.
    Gate(usize),
    /// The same, but the reply is lost: the places are booked, and booked again.
    GateTwice(usize),
    /// Books, and then starts nothing: its time is over, or it dies.
    GateUnused(usize),
    /// Learns of a 429 that asks for so many ms.
    Throttled(u64),
    /// An operator lifts the pause.
    Lift,
}

/// One step of a trace: how long after the one before, by whom, and what happens between its writes.
#[derive(Debug, Clone, Copy)]
struct Step {
    wait_ms: u64,
    worker: usize,
    act: Act,
    /// Bookings of another worker between a refused write and the next.
    meddle: usize,
    /// How long after its place the worker wakes for each request, in ms.
    late_ms: u64,
}

#[derive(Debug, Clone)]
struct Trace {
    rate: Rate,
    jitter: Duration,
    /// Each worker's clock less true time, in ms.
    skew: [i64; WORKERS],
    steps: Vec<Step>,
}

fn rates() -> impl Strategy<Value = Rate> {
    let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let limit = prop_oneof![1..=5_u32, 1..=100_u32, 1..=10_000_u32];
    let per_seconds = prop_oneof![3 => Just(1_u32), 1 => 1..=60_u32, 1 => Just(3600_u32)];
    let burst = prop_oneof![Just(1_u32), 1..=10_u32, 1..=1000_u32];
    (limit, per_seconds, burst).prop_map(move |(limit, per_seconds, burst)| Rate {
        limit: number(limit),
        per_seconds: number(per_seconds),
        burst: number(burst),
    })
}

fn acts() -> impl Strategy<Value = Act> {
    let several = || prop_oneof![1..=10_usize, Just(200)];
    prop_oneof![
        6 => several().prop_map(Act::Gate),
        2 => several().prop_map(Act::Plan),
        1 => several().prop_map(Act::GateTwice),
        1 => several().prop_map(Act::GateUnused),
        1 => (0..4000_u64).prop_map(Act::Throttled),
        1 => Just(Act::Lift),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let wait_ms = prop_oneof![4 => Just(0_u64), 4 => 0..50_u64, 2 => 0..1500_u64, 1 => 0..20_000_u64];
    let late_ms = prop_oneof![4 => Just(0_u64), 4 => 0..400_u64, 1 => Just(3000_u64)];
    (wait_ms, 0..WORKERS, acts(), 0..3_usize, late_ms).prop_map(|(wait_ms, worker, act, meddle, late_ms)| Step {
        wait_ms,
        worker,
        act,
        meddle,
        late_ms,
    })
}

fn traces() -> impl Strategy<Value = Trace> {
    let jitter = prop_oneof![Just(0_u64), Just(150), 0..1000_u64].prop_map(Duration::from_millis);
    let skew = prop::array::uniform5(prop_oneof![Just(-SKEW_MS), Just(SKEW_MS), -SKEW_MS..=SKEW_MS]);
    (rates(), jitter, skew, prop::collection::vec(steps(), 1..80)).prop_map(|(rate, jitter, skew, steps)| Trace {
        rate,
        jitter,
        skew,
        steps,
    })
}

/// Runs a trace against one clock item.
struct World<'a> {
    trace: &'a Trace,
    spacing: Spacing,
    item: Clocks,
    /// What each worker's last answer showed: its first write is made from it.
    known: [Clocks; WORKERS],
    /// Starts of requests, in µs of true time.
    started: Vec<i64>,
    /// Requests that were too late for their place and book again: when, by whom.
    again: BinaryHeap<Reverse<(u64, usize)>>,
    /// The most writes that a booking took.
    writes: usize,
    /// Whether a place was booked while a pause lasted, by its worker's clock.
    booked_in_pause: bool,
}

impl<'a> World<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            spacing: Spacing::of(trace.rate, trace.jitter),
            item: Clocks::default(),
            known: [Clocks::default(); WORKERS],
            started: Vec::new(),
            again: BinaryHeap::new(),
            writes: 0,
            booked_in_pause: false,
        }
    }

    /// The worker's clock at so many ms of true time after the start.
    fn clock(&self, worker: usize, true_ms: u64) -> Timestamp {
        let true_ms = START.millis() + i64::try_from(true_ms).unwrap_or(0);
        Timestamp::from_millis(true_ms + self.trace.skew[worker])
    }

    fn run(mut self, latest_ms: u64) -> Self {
        let mut true_ms = 0;
        for step in &self.trace.steps {
            true_ms += step.wait_ms;
            self.book_again(true_ms);
            let (worker, late) = (step.worker, step.late_ms.min(latest_ms));
            match step.act {
                Act::Plan(count) => self.plan(worker, true_ms, count, late),
                Act::Gate(count) => self.gate(worker, true_ms, count, step.meddle, late),
                Act::GateTwice(count) => {
                    self.book_gate(worker, true_ms, count, step.meddle);
                    self.gate(worker, true_ms, count, 0, late);
                }
                Act::GateUnused(count) => {
                    self.book_gate(worker, true_ms, count, step.meddle);
                }
                Act::Throttled(ms) => {
                    let now = self.clock(worker, true_ms);
                    let asked = Some(Duration::from_millis(ms));
                    self.item.pause = self.item.pause.throttled(asked, now, now);
                }
                Act::Lift => self.item.pause = self.item.pause.lifted(self.clock(worker, true_ms)),
            }
        }
        self.book_again(u64::MAX);
        self
    }

    /// Requests that were late for their place by then book anew, each when it woke, this time in time.
    fn book_again(&mut self, until_ms: u64) {
        while let Some(Reverse((at, worker))) = self.again.pop() {
            if at > until_ms {
                self.again.push(Reverse((at, worker)));
                break;
            }
            self.gate(worker, at, 1, 0, 0);
        }
    }

    /// From what the worker knows, then from the item as it is.
    fn plan(&mut self, worker: usize, true_ms: u64, count: usize, late: u64) {
        let now = self.clock(worker, true_ms);
        let reach = now.plus(Duration::from_hours(24));
        let ask = PlanAsk { count, now, reach, spacing: self.spacing };
        let known = self.known[worker];
        let first = if known.plan.is_some() { ask.busy(&known) } else { ask.idle(&known) };
        let mut tried = first;
        let mut after = self.put(worker, now, &tried);
        if let (None, Some(next)) = (after, ask.next(&self.item)) {
            tried = next;
            after = self.put(worker, now, &tried);
        }
        if let Some((_, Some(places))) = after.map(|after| ask.booked(&tried, &after)) {
            self.start(worker, places.iter(), late);
        }
    }

    fn gate(&mut self, worker: usize, true_ms: u64, count: usize, meddle: usize, late: u64) {
        let places = self.book_gate(worker, true_ms, count, meddle);
        self.start(worker, places.into_iter(), late);
    }

    /// LIM-1's loop: from what is known, then from what each refusal showed, at most three writes.
    fn book_gate(&mut self, worker: usize, true_ms: u64, count: usize, meddle: usize) -> Vec<Micros> {
        let now = self.clock(worker, true_ms);
        let ask = GateAsk { count, now, spacing: self.spacing };
        let known = self.known[worker].gate;
        let mut write = known.map_or(ask.idle(), |gate| ask.busy(gate));
        for tried in 1..=3 {
            self.writes = self.writes.max(tried);
            if let Some(after) = self.put(worker, now, &write) {
                return ask.booked(&write, &after).iter().collect();
            }
            let Ok(follows) = ask.next(&self.item) else { break };
            write = follows;
            for other in 1..=meddle {
                let other = (worker + other) % WORKERS;
                let places = self.book_once(other, true_ms);
                self.start(other, places.into_iter(), 0);
            }
        }
        Vec::new()
    }

    fn book_once(&mut self, worker: usize, true_ms: u64) -> Vec<Micros> {
        let ask = GateAsk { count: 1, now: self.clock(worker, true_ms), spacing: self.spacing };
        let Ok(write) = ask.next(&self.item) else { return Vec::new() };
        self.put(worker, ask.now, &write).map_or_else(Vec::new, |after| ask.booked(&write, &after).iter().collect())
    }

    fn put(&mut self, worker: usize, now: Timestamp, write: &Write) -> Option<Clocks> {
        let after = write.apply(&self.item);
        let at_gate = after.is_some_and(|after| after.gate != self.item.gate);
        self.booked_in_pause |= at_gate && self.item.paused(now).is_some();
        self.item = after.unwrap_or(self.item);
        self.known[worker] = self.item;
        after
    }

    /// A request starts at its place, at most so late after it, or books again (LIM-5).
    fn start(&mut self, worker: usize, places: impl Iterator<Item = Micros>, late_ms: u64) {
        for place in places {
            // By the worker's own clock, which wakes at whole milliseconds.
            let woken = place.timestamp().plus(Duration::from_millis(late_ms));
            let true_us = woken.micros().0 - START.micros().0 - self.trace.skew[worker] * 1000;
            if Duration::from_millis(late_ms) <= self.spacing.late {
                self.started.push(true_us);
            } else {
                self.again.push(Reverse((u64::try_from(true_us / 1000).unwrap_or(0), worker)));
            }
        }
    }

    /// Asserts that no window holds more than `burst + (its length + spread) / T` requests.
    fn check(mut self, spread: Duration) -> Result<(), TestCaseError> {
        prop_assert!(self.writes <= 3);
        prop_assert!(!self.booked_in_pause, "a place was booked while a pause lasted");
        self.started.sort_unstable();
        let Rate { limit, per_seconds, burst } = self.trace.rate;
        let (limit, burst) = (i128::from(limit.get()), i128::from(burst.get()));
        let per_us = i128::from(per_seconds.get()) * 1_000_000;
        let spread = i128::from(Micros::of(spread).0);
        // Of all windows that end with a request, the fullest starts where this is least.
        let slack = |(n, at): (i128, i64)| n * per_us - i128::from(at) * limit;
        let mut first = (0, i64::MIN / 2);
        for (n, at) in (0_i128..).zip(self.started.iter().copied()) {
            first = if n == 0 || slack((n, at)) < slack(first) { (n, at) } else { first };
            let (count, length) = (n - first.0 + 1, at - first.1);
            let most = (i128::from(length) + spread) * limit;
            prop_assert!((count - burst) * per_us <= most, "{count} requests within {length} µs");
        }
        Ok(())
    }
}

/// The clocks' differences, and what a place's rounding up to a millisecond adds beyond the gate's own jitter.
fn spread(jitter: Duration, latest: Duration) -> Duration {
    let both = Duration::from_millis(2 * SKEW_MS.unsigned_abs());
    both + (latest + Duration::from_millis(1)).saturating_sub(jitter)
}

fn config() -> ProptestConfig {
    let beside = proptest::test_runner::FileFailurePersistence::WithSource("regressions");
    ProptestConfig { failure_persistence: Some(Box::new(beside)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn lim_5_any_window_holds_the_burst_and_its_length_over_the_distance(trace in traces()) {
        World::new(&trace).run(0).check(spread(trace.jitter, Duration::ZERO))?;
    }

    #[test]
    fn lim_5_late_starts_add_no_more_than_their_lateness(trace in traces()) {
        let late = Spacing::of(trace.rate, trace.jitter).late;
        World::new(&trace).run(u64::MAX).check(spread(trace.jitter, late))?;
    }
}

#[test]
fn lim_5_the_bound_is_reached_and_the_trace_sees_it() {
    // Two workers, 4 s apart, one instant: the slower clock's burst, then what 2D holds.
    let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let rate = Rate { limit: number(10), per_seconds: number(1), burst: number(3) };
    let step = |worker, act| Step { wait_ms: 0, worker, act, meddle: 0, late_ms: 0 };
    let steps = vec![step(0, Act::Gate(3)), step(1, Act::Gate(43))];
    let skew = [-SKEW_MS, SKEW_MS, 0, 0, 0];
    let trace = Trace { rate, jitter: Duration::ZERO, skew, steps };
    let mut world = World::new(&trace).run(0);
    world.started.sort_unstable();
    let at_once = world.started.iter().filter(|at| **at == 0).count();
    assert_eq!(at_once, 6, "two bursts at one instant: within burst + 2D/T = 43");
    assert!(world.check(Duration::from_millis(299)).is_err(), "less than what two bursts take");
}
