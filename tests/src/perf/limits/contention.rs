//! LIM-1 to LIM-3, LIM-5: workers that book at one destination at the same time, and what became of it.
//!
//! Owns: the workers, each a thread with a client of its own, as sandboxes are; and counting. Must not: send anything.
//! The limiter and its adapter are the real ones, and so is time.

use std::num::NonZeroU32;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lapse_aws::limits::DynamoLimits;
use lapse_aws::system::SystemClock;
use lapse_deliver::limiter::{Gated, Limiter, Planned, Scope, Seen};
use lapse_policy::booking::{GateAsk, INLINE, Places, PlanAsk};
use lapse_policy::clock::Spacing;
use lapse_policy::destination::Rate;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Clock as _, Limits as _};
use lapse_policy::timestamp::Micros;
use serde::Serialize;

use crate::perf::calls::{Calls, Counted};

/// The budget of a booking (DESIGN 7).
const WRITES_MOST: f64 = 1.5;
/// How many places one booking asks for: a full batch.
const BATCH: usize = 10;

/// How much of what the destination allows is asked for.
#[derive(Debug)]
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// Requests per second.
    limit: u32,
    /// Requests at once.
    burst: u32,
    /// Whether the budget of writes holds for it.
    in_budget: InBudget,
}

/// Whether a load is one that the budget of writes is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InBudget {
    /// The destination has a backlog: its clocks are ahead.
    Yes,
    /// Its clocks are now ahead and now past: what was right for the last booking is wrong for the next.
    No,
}

/// A backlog that the burst makes room for; far fewer places than workers; and clocks that are just past and just ahead
/// in turn, which is the worst for two branches.
pub const LOADS: [Load; 3] = [
    Load { name: "room for all", limit: 100, burst: 100_000, in_budget: InBudget::Yes },
    Load { name: "crowded", limit: 50, burst: 10, in_budget: InBudget::Yes },
    Load { name: "on the edge", limit: 10_000, burst: 1, in_budget: InBudget::No },
];

/// Where the limiter's table is.
#[derive(Debug)]
pub struct Place {
    /// The engine's name.
    pub engine: &'static str,
    /// Its address.
    pub endpoint: String,
    /// The table.
    pub table: String,
}

/// What workers that booked at the same time came to.
#[derive(Debug, Clone, Serialize)]
pub struct Contention {
    /// The engine's name.
    pub engine: &'static str,
    /// The load's name.
    pub load: &'static str,
    /// Whether the budget of writes holds for it.
    pub in_budget: InBudget,
    /// How many there were.
    pub workers: usize,
    /// Bookings, on the plan and at the gate.
    pub bookings: usize,
    /// Conditional writes that they took.
    pub writes: u64,
    /// Those whose condition did not hold.
    pub refused_writes: u64,
    /// Bookings that lost three races: their messages would be deferred.
    pub raced: usize,
    /// Bookings that found no place.
    pub full: usize,
    /// What was given on the plan.
    pub plan: Given,
    /// What was given at the gate.
    pub gate: Given,
}

/// What one clock gave.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Given {
    /// Places.
    pub places: usize,
    /// Readings of the clock that were given more than once.
    pub twice: usize,
    /// The least distance between two readings, in µs, and what it must be.
    pub closest_us: Option<i64>,
    /// See `closest_us`.
    pub step_us: i64,
    /// Places that come before the burst's tolerance allows.
    pub early: usize,
}

impl Contention {
    /// The heads of [`Self::row`].
    pub const HEADS: [&str; 11] = [
        "engine",
        "load",
        "workers",
        "bookings",
        "writes",
        "writes/booking",
        "places",
        "full",
        "raced",
        "closest/T",
        "twice or early",
    ];

    /// For a person.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        let closest = [self.plan, self.gate].iter().filter_map(Given::closest).fold(f64::INFINITY, f64::min);
        let wrong = self.plan.twice + self.plan.early + self.gate.twice + self.gate.early;
        vec![
            self.engine.to_owned(),
            self.load.to_owned(),
            self.workers.to_string(),
            self.bookings.to_string(),
            self.writes.to_string(),
            format!("{:.2}", self.writes_per_booking()),
            format!("{} + {}", self.plan.places, self.gate.places),
            self.full.to_string(),
            self.raced.to_string(),
            format!("{closest:.2}"),
            wrong.to_string(),
        ]
    }

    /// What a booking costs.
    #[must_use]
    pub fn writes_per_booking(&self) -> f64 {
        as_number(self.writes) / as_number(u64::try_from(self.bookings).unwrap_or(u64::MAX))
    }

    /// Targets that it misses, a sentence each.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let Self { engine, load, workers, raced, .. } = self;
        let writes = self.writes_per_booking();
        let mut missed = Vec::new();
        if self.in_budget == InBudget::Yes && writes > WRITES_MOST {
            missed.push(format!("{writes:.2} writes per booking, at most {WRITES_MOST}"));
        }
        if *raced > 0 {
            missed.push(format!("{raced} bookings lost every race"));
        }
        for (clock, given) in [("plan", self.plan), ("gate", self.gate)] {
            let Given { twice, early, places, step_us, closest_us } = given;
            if twice > 0 || early > 0 {
                missed.push(format!("{clock}: {twice} readings given twice and {early} places too early"));
            }
            if closest_us.is_some_and(|closest| closest < step_us) {
                missed.push(format!("{clock}: {closest_us:?} µs between two readings, at least {step_us}"));
            }
            if places == 0 {
                missed.push(format!("{clock}: nothing was given"));
            }
        }
        missed.into_iter().map(|what| format!("{engine}, {load}, {workers} workers: {what}")).collect()
    }
}

impl Given {
    /// Of the readings and the places that a clock gave to all workers.
    fn of<'a>(taken: impl Iterator<Item = &'a Taken>, step: Micros, tol: Micros) -> Self {
        let (mut readings, mut places): (Vec<Micros>, Vec<Micros>) = (Vec::new(), Vec::new());
        for one in taken {
            readings.extend(&one.readings);
            places.extend(&one.places);
        }
        readings.sort();
        places.sort();
        let gaps: Vec<_> = readings.windows(2).map(|pair| pair[1].minus(pair[0])).collect();
        let mut next = Micros(i64::MIN);
        let early = |place: &&Micros| {
            let early = **place < next.minus(tol);
            next = next.max(**place).plus(step);
            early
        };
        Self {
            places: places.len(),
            twice: gaps.iter().filter(|gap| **gap == Micros(0)).count(),
            closest_us: gaps.iter().min().map(|gap| gap.0),
            step_us: step.0,
            early: places.iter().filter(early).count(),
        }
    }

    fn closest(&self) -> Option<f64> {
        Some(as_number(u64::try_from(self.closest_us?).ok()?) / as_number(u64::try_from(self.step_us).ok()?))
    }
}

/// What one worker got.
#[derive(Debug, Default)]
struct Got {
    bookings: usize,
    full: usize,
    failed: usize,
    plan: Taken,
    gate: Taken,
}

/// What one worker got of one clock.
#[derive(Debug, Default)]
struct Taken {
    /// The clock's readings that were booked: a step apart, whoever booked them.
    readings: Vec<Micros>,
    /// The places: readings less the tolerance, but never in the past.
    places: Vec<Micros>,
}

impl Taken {
    fn take(&mut self, places: Places, after: Option<Micros>, step: Micros) {
        let after = after.unwrap_or_default();
        self.readings.extend((1..=places.count).map(|back| after.minus(step.times(back))));
        self.places.extend(places.iter());
    }
}

/// Lets so many workers book so often on each clock, all at once, at a destination that nobody knows yet.
pub fn contend(place: &Place, load: &Load, workers: usize, rounds: usize) -> Result<Contention> {
    let number = |n| NonZeroU32::new(n).context("a rate is not 0");
    let rate = Rate { limit: number(load.limit)?, per_seconds: NonZeroU32::MIN, burst: number(load.burst)? };
    let spacing = Spacing::of(rate, Duration::ZERO);
    let destination = DestinationName::parse(&format!("{}-{workers}", load.name.replace(' ', "-")))?;
    let (calls, start) = (Arc::new(Calls::default()), Barrier::new(workers));
    let got = thread::scope(|scope| {
        let work = || work(place, &destination, spacing, rounds, &calls, &start);
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|t| t.join().map_err(|_| anyhow!("a worker panicked"))?).collect::<Result<Vec<_>>>()
    })?;
    let sum = |of: fn(&Got) -> usize| got.iter().map(of).sum::<usize>();
    let store_failed = usize::try_from(calls.failed.now())?;
    anyhow::ensure!(store_failed == 0, "{}: {store_failed} calls failed", place.engine);
    Ok(Contention {
        engine: place.engine,
        load: load.name,
        in_budget: load.in_budget,
        workers,
        bookings: sum(|got| got.bookings),
        writes: calls.limiter_writes(),
        refused_writes: calls.limits_refused_writes.now(),
        raced: sum(|got| got.failed),
        full: sum(|got| got.full),
        plan: Given::of(got.iter().map(|got| &got.plan), spacing.plan_step, spacing.plan_tol),
        gate: Given::of(got.iter().map(|got| &got.gate), spacing.gate_step, spacing.gate_tol),
    })
}

fn as_number(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn work(
    place: &Place,
    destination: &DestinationName,
    spacing: Spacing,
    rounds: usize,
    calls: &Arc<Calls>,
    start: &Barrier,
) -> Result<Got> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = lapse_engines::client(&place.endpoint);
    let store = Counted::new(DynamoLimits::new(client, place.table.clone()), calls);
    let (seen, mut got) = (Seen::default(), Got::default());
    runtime.block_on(async {
        // Its connection is there before anyone books.
        let connected = store.read(destination).await;
        start.wait();
        connected?;
        let limiter = Limiter::new(&store, &seen);
        for _ in 0..rounds {
            let now = SystemClock.now();
            let reach = now.plus(Duration::from_hours(24));
            got.bookings += 1;
            let due =
                match limiter.plan(destination, PlanAsk { count: BATCH, now, reach, spacing }, Scope::BothIfIdle).await
                {
                    Ok(Planned::Booked { times, gate, clocks }) => {
                        got.plan.take(times, clocks.plan, spacing.plan_step);
                        if let Some(places) = gate {
                            // One write was both bookings (LIM-3).
                            got.bookings += 1;
                            got.gate.take(places, clocks.gate, spacing.gate_step);
                            continue;
                        }
                        times.within(INLINE)
                    }
                    Ok(Planned::Full(_)) => 0,
                    Err(_) => {
                        got.failed += 1;
                        0
                    }
                };
            // The others would be deferred, and ask when they wake (LIM-4).
            if due == 0 {
                continue;
            }
            got.bookings += 1;
            match limiter.gate(destination, GateAsk { count: due, now: SystemClock.now(), spacing }).await {
                Ok(Gated::Booked(places, clocks)) => got.gate.take(places, clocks.gate, spacing.gate_step),
                Ok(Gated::Closed(..)) => got.full += 1,
                Err(_) => got.failed += 1,
            }
        }
        Ok(got)
    })
}
