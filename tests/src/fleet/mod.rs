//! A fleet in virtual time: many sandboxes that run the real `deliver`, and the real `expiry` each minute, over one
//! queue, one set of stores, and receivers of any temper.
//!
//! Owns: setting a fleet up, offering events, driving time, and the questions that scenarios ask. Must not: assert
//! rules, nor let anything but the seed decide the course.
//!
//! What is simulated: queue and mapping as documented (see `queue` and `mapping`), stores that answer after a few
//! milliseconds by the policy's own model, clocks that may differ. Faults are there for `sim`, which makes the weather;
//! here it is fair.

#![expect(clippy::expect_used, clippy::panic, reason = "a fleet is set up by tests, which fail as it does")]

pub mod bugs;
pub mod chance;
pub mod lanes;
pub mod lot;
pub mod mapping;
pub mod moods;
pub mod queue;
pub mod receivers;
pub mod report;
pub mod sandbox;
pub mod schedule;
pub mod steps;
pub mod stores;
pub mod time;
pub mod traffic;
pub mod weather;
pub mod world;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_policy::names::{DeliveryKey, DestinationName, EventId};
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use chance::{Dice, Span};
use mapping::Mapping;
use queue::Queue;
use receivers::Behaviour;
use sandbox::Shared;
use steps::Eyes;
use time::Time;
use traffic::Traffic;
use world::World;

/// How a fleet is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Decides all that chance decides.
    pub seed: u64,
    /// `MaximumConcurrency`.
    pub workers: usize,
    /// How far a sandbox's clock may be from true time, in ms.
    pub skew_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, workers: 50, skew_ms: 0 }
    }
}

/// A fleet.
#[derive(Debug)]
pub struct Fleet {
    /// The clock.
    pub time: Time,
    /// What the sandboxes share.
    pub world: Shared,
    /// The event source.
    pub mapping: Mapping,
    /// Through these it can be watched.
    pub eyes: Eyes,
    dice: Dice,
    producers: Rc<Cell<usize>>,
    offered: Rc<RefCell<BTreeMap<DestinationName, u64>>>,
}

/// Events at a steady rate.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    /// How many a second.
    pub per_second: u32,
    /// For how long.
    pub lasting: Duration,
    /// The deadline after the event, if it has one of its own.
    pub deadline: Option<Duration>,
}

impl Fleet {
    /// A fleet that polls from the start.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let World { time, dice, shared, mapping, eyes, .. } = World::new(world::Settings {
            seed: settings.seed,
            workers: settings.workers,
            skew_ms: settings.skew_ms,
            ..world::Settings::default()
        });
        Self { time, world: shared, mapping, eyes, dice, producers: Rc::default(), offered: Rc::default() }
    }

    /// A destination: what every row has and these members; and a receiver that takes 20 to 80 ms.
    pub fn destination(&self, destination: &str, members: &Value, behaviour: Behaviour) {
        self.configure(destination, members);
        self.world.receivers.add(&name(destination), behaviour, Span(20, 80));
    }

    /// Puts the row of a destination anew.
    pub fn configure(&self, destination: &str, members: &Value) {
        let mut row = Map::new();
        row.insert("url".to_owned(), json!("https://receiver.example/"));
        row.insert("secrets".to_owned(), json!(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]));
        row.extend(members.as_object().expect("an object").clone());
        self.world.destinations.put(&name(destination), row);
    }

    /// So many events at once.
    pub fn offer(&self, destination: &str, count: u32) {
        let destination = name(destination);
        for _ in 0..count {
            self.put(&destination, None);
        }
    }

    /// Events at a steady rate, each at a random instant of its turn.
    pub fn offer_steadily(&self, destination: &str, stream: Stream) {
        let (destination, start) = (name(destination), self.time.now());
        let turn = 1_000_000 / u64::from(stream.per_second);
        let count = u64::try_from(stream.lasting.as_micros()).unwrap_or(0) / turn;
        let (time, dice) = (self.time.clone(), self.dice.fork());
        let producer = self.producer();
        self.busy(async move {
            for n in 0..count {
                let chance = dice.roll() % turn;
                time.sleep_until(start.plus(Duration::from_micros(n * turn + chance))).await;
                producer.put(&destination, stream.deadline);
            }
        });
    }

    /// Starts something that a drain waits for.
    pub fn busy(&self, work: impl Future<Output = ()> + 'static) {
        let producers = Rc::clone(&self.producers);
        producers.set(producers.get() + 1);
        self.time.spawn(async move {
            work.await;
            producers.set(producers.get() - 1);
        });
    }

    /// Drives time to an instant.
    pub fn run_until(&self, at: Timestamp) {
        self.time.drive(at, || false);
    }

    /// Drives time until nothing is left to do, and tells whether that came before `latest`.
    #[must_use]
    pub fn drain(&self, latest: Timestamp) -> bool {
        let world = &self.world;
        let quiet = || {
            self.producers.get() == 0
                && world.deliveries.is_empty()
                && world.schedule.is_empty()
                && self.mapping.at_work() == 0
        };
        self.time.drive(latest, quiet)
    }

    /// What a destination's receiver saw.
    #[must_use]
    pub fn traffic(&self, destination: &str) -> Traffic {
        self.world.receivers.traffic(&name(destination))
    }

    /// How many events were offered.
    #[must_use]
    pub fn offered(&self, destination: &str) -> u64 {
        self.offered.borrow().get(&name(destination)).copied().unwrap_or_default()
    }

    fn put(&self, destination: &DestinationName, deadline: Option<Duration>) {
        self.producer().put(destination, deadline);
    }

    /// Someone who offers events.
    #[must_use]
    pub fn producer(&self) -> Producer {
        Producer { time: self.time.clone(), queue: self.world.deliveries.clone(), offered: Rc::clone(&self.offered) }
    }
}

/// Puts events into the queue; their payload says when.
#[derive(Debug)]
pub struct Producer {
    time: Time,
    queue: Queue,
    offered: Rc<RefCell<BTreeMap<DestinationName, u64>>>,
}

impl Producer {
    /// An event for now.
    pub fn put(&self, destination: &DestinationName, deadline: Option<Duration>) {
        let (_, body) = self.event(destination, self.time.now(), deadline);
        self.queue.put(body, destination);
    }

    /// A new event of that time, and its body.
    #[must_use]
    pub fn event(
        &self,
        destination: &DestinationName,
        now: Timestamp,
        deadline: Option<Duration>,
    ) -> (DeliveryKey, Arc<str>) {
        let number = {
            let mut offered = self.offered.borrow_mut();
            let number = offered.entry(destination.clone()).or_default();
            *number += 1;
            *number
        };
        let deadline = deadline.map(|after| format!(r#","deadline":"{}""#, now.plus(after))).unwrap_or_default();
        let body = format!(
            r#"{{"v":1,"id":"e:{number}","destination":"{destination}","type":"t","occurred_at":"{now}"{deadline},"payload":{}}}"#,
            now.millis()
        );
        let id = EventId::parse(&format!("e:{number}")).expect("an event id");
        (DeliveryKey { destination: destination.clone(), id }, body.into())
    }
}

/// A destination's name.
#[must_use]
pub fn name(name: &str) -> DestinationName {
    DestinationName::parse(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}
