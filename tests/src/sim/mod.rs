//! A simulator that tries to break every promise: the real `deliver`, `expiry`, `triage` and `receiver` over a world
//! in virtual time, with faults drawn from a seed. The same seed takes the same course.
//!
//! Owns: one run from its seed to its outcome. Must not: judge (`invariants` does), nor choose faults (`actors` do).

pub mod actors;
pub mod command;
pub mod day;
pub mod invariants;
pub mod reference;
pub mod trace;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;

use crate::fleet::bugs::Bug;
use crate::fleet::steps::{Step, Watcher};
use crate::fleet::time::START;
use crate::fleet::weather::Fault;
use crate::fleet::world::{Settings, World};
use actors::Temper;
use invariants::{Judge, Tolerances, Violation};
use trace::Tracer;

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// For so long events are offered and things go wrong.
    pub hours: f64,
    /// How many events are offered, at most.
    pub events: u32,
    /// For how many destinations.
    pub destinations: u32,
    /// A bug that is planted.
    pub bug: Option<Bug>,
    /// What is told of it.
    pub trace: Option<trace::Filter>,
}

impl Default for Options {
    fn default() -> Self {
        Self { hours: 1.0, events: 20, destinations: 3, bug: None, trace: None }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
    /// Events that were accepted.
    pub events: u64,
    /// Requests that were started.
    pub sends: u64,
    /// Faults of each kind.
    pub faults: BTreeMap<Fault, u64>,
    /// How events ended.
    pub ends: BTreeMap<&'static str, u64>,
    /// Virtual time that passed.
    pub lasted: Duration,
    /// How often tasks were polled: the fingerprint of the course.
    pub polls: u64,
}

/// After this much everything has ended, or never will: the longest deadline twice, for redriven letters, and the
/// longest wait.
const LATEST: Duration = Duration::from_hours(24 * 30);

/// Plays a run.
#[must_use]
pub fn play(seed: u64, options: &Options) -> Outcome {
    let temper = Temper::of(seed, options.bug);
    let world = Rc::new(World::new(Settings {
        seed,
        workers: temper.workers,
        skew_ms: temper.skew_ms,
        most_receives: temper.most_receives,
        most_in_flight: temper.most_in_flight,
        full_batches: false,
    }));
    world.shared.weather.plant(options.bug);
    let judge =
        Judge::new(Tolerances { skew_ms: i64::try_from(temper.skew_ms).unwrap_or(i64::MAX), fair: temper.fair });
    let watchers: Vec<Box<dyn Watcher>> = std::iter::once(Box::new(judge.clone()) as Box<dyn Watcher>)
        .chain(options.trace.clone().map(|filter| Box::new(Tracer::new(filter)) as Box<dyn Watcher>))
        .collect();
    world.eyes.open(Box::new(Watchers(watchers)));
    let actors = actors::start(&world, &temper, options);
    let quiet = || judge.violation().is_some() || (actors.are_done() && is_quiet(&world));
    let ended = world.time.drive(START.plus(LATEST), quiet);
    judge.finish(world.time.now(), ended);
    Outcome {
        seed,
        violation: judge.violation(),
        events: judge.events(),
        sends: judge.sends(),
        faults: world.shared.weather.counts(),
        ends: judge.ends(),
        lasted: world.time.now().since(START),
        polls: world.time.polls(),
    }
}

/// Whether nothing is on its way any more.
fn is_quiet(world: &World) -> bool {
    let shared = &world.shared;
    shared.deliveries.is_empty()
        && shared.failures.is_empty()
        && shared.schedule.is_empty()
        && world.mapping.at_work() == 0
        && world.triage.at_work() == 0
        && !world.rule.is_at_work()
}

/// Several watchers as one.
struct Watchers(Vec<Box<dyn Watcher>>);

impl Watcher for Watchers {
    fn see(&mut self, at: Timestamp, step: &Step) {
        for watcher in &mut self.0 {
            watcher.see(at, step);
        }
    }
}
