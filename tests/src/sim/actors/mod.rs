//! Everybody who does something in a run: producers, receivers, operators, and misfortune.
//!
//! Owns: what a seed decides about a run as a whole, and when all of them are done. Must not: judge.

mod misfortune;
mod operators;
mod producers;
mod receivers;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::timestamp::Timestamp;

use super::Options;
use super::reference::Catalog;
use crate::fleet::bugs::Bug;
use crate::fleet::chance::{Dice, Span, Way};
use crate::fleet::time::{START, Time};
use crate::fleet::weather::Part;
use crate::fleet::world::World;

/// What a seed decides about a run as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Temper {
    /// `MaximumConcurrency`.
    pub workers: usize,
    /// How far clocks are from true time, in ms.
    pub skew_ms: u64,
    /// Whether nothing but receivers fails.
    pub fair: bool,
    /// `maxReceiveCount` of `deliveries`.
    pub most_receives: u32,
    /// How many messages may be in flight.
    pub most_in_flight: usize,
    /// Whether operators interfere.
    pub operated: bool,
}

impl Temper {
    /// That of a seed. A planted bug shows in foul weather, except where only fair weather is judged.
    #[must_use]
    pub fn of(seed: u64, bug: Option<Bug>) -> Self {
        // Not the world's own chance: what is decided here must not move with what the world draws.
        let dice = Dice::new(seed ^ 0x6c61_7073_6500_0000);
        let fair = dice.below(4) == 0 || bug == Some(Bug::NeverHidden);
        Self {
            workers: [1, 2, 5, 10][dice.below(4)],
            skew_ms: [0, 0, 200, 500, 2000][dice.below(5)],
            fair,
            most_receives: if fair || dice.below(4) > 0 { 1000 } else { 15 },
            most_in_flight: if fair || dice.below(6) > 0 { 120_000 } else { 12 },
            operated: dice.below(3) > 0,
        }
    }
}

/// What all actors of a run share.
#[derive(Debug, Clone)]
struct Stage {
    world: Rc<World>,
    dice: Dice,
    temper: Temper,
    catalog: Catalog,
    /// The end of the time in which things go wrong.
    until: Timestamp,
    at_work: Rc<Cell<usize>>,
}

impl Stage {
    /// Someone who does something, once.
    fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let at_work = Rc::clone(&self.at_work);
        at_work.set(at_work.get() + 1);
        self.world.time.spawn(async move {
            work.await;
            at_work.set(at_work.get() - 1);
        });
    }

    fn time(&self) -> &Time {
        &self.world.time
    }

    /// A random instant of the run.
    fn sometime(&self) -> Timestamp {
        let whole = u64::try_from(self.until.since(START).as_millis()).unwrap_or(1);
        START.plus(Duration::from_millis(self.dice.roll() % whole.max(1)))
    }

    /// A random span.
    fn span(&self, least_s: u64, most_s: u64) -> Duration {
        self.dice.span(Span(least_s * 1000, most_s * 1000))
    }

    fn one_in(&self, n: usize) -> bool {
        self.dice.below(n) == 0
    }
}

/// The actors of a run.
#[derive(Debug)]
pub struct Actors(Rc<Cell<usize>>);

impl Actors {
    /// Whether none of them has anything left to do.
    #[must_use]
    pub fn are_done(&self) -> bool {
        self.0.get() == 0
    }
}

/// Starts them.
#[must_use]
pub fn start(world: &Rc<World>, temper: &Temper, options: &Options) -> Actors {
    let weather = world.shared.weather.clone();
    let way = Way::new(world.time.clone(), world.dice.fork(), Span(1, 8), Part::Reservations, weather);
    let (eyes, lot) = (world.eyes.clone(), world.lot.clone());
    let catalog = Catalog::new(world.time.clone(), world.dice.fork(), way, eyes, lot);
    let until = START.plus(Duration::from_secs_f64(options.hours * 3600.0));
    let at_work = Rc::new(Cell::new(0));
    let stage = Stage { world: Rc::clone(world), dice: world.dice.fork(), temper: *temper, catalog, until, at_work };
    let destinations = receivers::start(&stage, options.destinations);
    producers::start(&stage, &destinations, options.events);
    misfortune::start(&stage);
    operators::start(&stage, &destinations);
    Actors(stage.at_work)
}
