//! A whole deployment in virtual time, put together.
//!
//! Owns: which part is connected to which, as the template connects them. Must not: decide what happens in it.

use super::chance::{Dice, Span, Way};
use super::lanes::LanesTable;
use super::lot::Lot;
use super::mapping::{Mapping, Source};
use super::queue::{self, Queue};
use super::receivers::Receivers;
use super::sandbox::{Deliver, Letters, Shared};
use super::schedule::{Rule, ScheduleTable};
use super::steps::{Eyes, Place};
use super::stores::{DestinationsTable, LedgerTable, LimitsTable};
use super::time::{SandboxClock, Time};
use super::weather::{Part, Weather};

/// A call of a store or a queue, one way.
const CALL: Span = Span(1, 2);
/// `MaximumConcurrency` of `triage` (infra/contract.json).
const TRIAGE_WORKERS: usize = 2;
/// Receives of a letter after which SQS moves it (infra/contract.json).
const LETTER_RECEIVES: u32 = 3;

/// How a world is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Decides all that chance decides.
    pub seed: u64,
    /// `MaximumConcurrency`.
    pub workers: usize,
    /// How far a sandbox's clock may be from true time, in ms.
    pub skew_ms: u64,
    /// `maxReceiveCount` of `deliveries`.
    pub most_receives: u32,
    /// How many messages of a queue may be in flight.
    pub most_in_flight: usize,
    /// Whether batches are as full as the queue allows: SQS may return fewer messages than it has.
    pub full_batches: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let queue::Settings { most_receives, most_in_flight, .. } = queue::Settings::deliveries();
        Self { seed: 1, workers: 50, skew_ms: 0, most_receives, most_in_flight, full_batches: true }
    }
}

/// A deployment.
#[derive(Debug)]
pub struct World {
    /// The clock.
    pub time: Time,
    /// What is left of chance for whoever uses the world.
    pub dice: Dice,
    /// Queues, tables and receivers.
    pub shared: Shared,
    /// The event source of `deliver`.
    pub mapping: Mapping,
    /// The event source of `triage`.
    pub triage: Mapping,
    /// The schedule's rule.
    pub rule: Rule,
    /// What becomes of processes.
    pub lot: Lot,
    /// Through these the world can be watched.
    pub eyes: Eyes,
}

impl World {
    /// A world that works from the start, in fair weather.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let (time, dice, eyes) = (Time::default(), Dice::new(settings.seed), Eyes::default());
        let weather = Weather::fair(dice.fork());
        let lot = Lot::new(time.clone(), dice.fork(), weather.clone(), settings.skew_ms);
        let way = |part| Way::new(time.clone(), dice.fork(), CALL, part, weather.clone());
        let queue = |settings, part| Queue::new(settings, time.clone(), dice.fork(), way(part), eyes.clone());
        let most_in_flight = settings.most_in_flight;
        let of =
            |place, most_receives, dead_letters| queue::Settings { place, most_receives, dead_letters, most_in_flight };
        let dead_letters = queue(of(Place::DeadLetters, u32::MAX, None), Part::Failures);
        let moved = || Some(dead_letters.clone());
        let deliveries = queue(of(Place::Deliveries, settings.most_receives, moved()), Part::Deliveries);
        let failures = queue(of(Place::Failures, LETTER_RECEIVES, moved()), Part::Failures);
        let shared = Shared {
            ledger: LedgerTable::new(way(Part::Ledger), eyes.clone()),
            limits: LimitsTable::new(way(Part::Limits), eyes.clone()),
            lanes: LanesTable::new(way(Part::Lanes), eyes.clone()),
            destinations: DestinationsTable::new(way(Part::Destinations)),
            receivers: Receivers::new(time.clone(), dice.fork(), weather.clone(), eyes.clone()),
            deliveries,
            failures,
            dead_letters,
            schedule: ScheduleTable::new(way(Part::Schedule), eyes.clone()),
            weather: weather.clone(),
        };
        let rule = Rule::start(&time, dice.fork(), &shared.schedule, &shared.deliveries, lot.clone());
        let clock = |time: &Time, lot: &Lot| SandboxClock::new(time.clone(), lot.ahead_ms());
        let source = |queue: &Queue, workers, cold| Source {
            queue: queue.clone(),
            full_batches: settings.full_batches,
            workers,
            lot: lot.clone(),
            weather: weather.clone(),
            eyes: eyes.clone(),
            cold,
        };
        let (of, at, by, chance) = (shared.clone(), time.clone(), lot.clone(), dice.fork());
        let deliver = Box::new(move || -> std::rc::Rc<dyn super::mapping::Function> {
            std::rc::Rc::new(Deliver::new(&of, clock(&at, &by), chance.fork()))
        });
        let mapping = Mapping::start(&time, dice.fork(), source(&shared.deliveries, settings.workers, deliver));
        let (of, at, by) = (shared.clone(), time.clone(), lot.clone());
        let letters = Box::new(move || -> std::rc::Rc<dyn super::mapping::Function> {
            std::rc::Rc::new(Letters::new(&of, clock(&at, &by)))
        });
        let triage = Mapping::start(&time, dice.fork(), source(&shared.failures, TRIAGE_WORKERS, letters));
        Self { time, dice, shared, mapping, triage, rule, lot, eyes }
    }
}
