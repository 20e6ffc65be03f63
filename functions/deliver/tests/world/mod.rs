//! The world of `deliver` in memory, on a virtual clock.
//!
//! Owns: all fakes of one sandbox, and the questions that scenarios ask of them. Must not: assert rules.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use lapse_aws::sqs_event::Received;
use lapse_deliver::batch::{Delivered, deliver};
use lapse_deliver::run::Memory;
use lapse_deliver::world::World as Ports;
use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{Chance, Clock as _};
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

mod event;
mod fleet;
mod journal;
mod lanes;
mod logs;
mod queues;
mod sender;
mod stores;
mod time;

pub(crate) use event::{event, events, firsts, received};
pub(crate) use fleet::Fleet;
use journal::Journal;
use lanes::MemoryLanes;
pub(crate) use logs::logged;
use queues::{MemoryQueue, MemorySchedule};
pub(crate) use sender::{Receivers, Reply};
pub(crate) use stores::Fault;
use stores::{MemoryDestinations, MemoryLedger, MemoryLimits};
pub(crate) use time::{NOW, Time, at};

/// The function's timeout (DESIGN 7).
pub(crate) const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Chance that always draws the same number, or one that moves on by a step.
#[derive(Debug, Default)]
pub(crate) struct Luck {
    pub(crate) draws: Cell<f64>,
    pub(crate) step: Cell<f64>,
    tokens: Cell<u32>,
}

impl Chance for Luck {
    fn draw(&self) -> f64 {
        let drawn = self.draws.get();
        let next = drawn + self.step.get();
        self.draws.set(if next > 1.0 { next - 1.0 } else { next });
        drawn
    }

    fn token(&self) -> String {
        self.tokens.set(self.tokens.get() + 1);
        format!("token-{}", self.tokens.get())
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) time: Time,
    pub(crate) luck: Luck,
    pub(crate) ledger: MemoryLedger,
    pub(crate) limits: MemoryLimits,
    pub(crate) lanes: MemoryLanes,
    pub(crate) destinations: MemoryDestinations,
    pub(crate) receivers: Receivers,
    pub(crate) deliveries: MemoryQueue,
    pub(crate) failures: MemoryQueue,
    pub(crate) schedule: MemorySchedule,
    pub(crate) memory: RefCell<Memory>,
    pub(crate) function_timeout: Cell<Duration>,
    journal: Journal,
}

/// 100/s and a burst that ten messages never use up: a batch is sent at once.
pub(crate) fn fast() -> Value {
    json!({"rate": {"limit": 100, "burst": 300}})
}

/// One in ten seconds, and no allowance for the network: places are 10 s apart, planned times 10.204082 s.
pub(crate) fn slow() -> Value {
    json!({"rate": {"limit": 1, "per_seconds": 10, "burst": 1}, "jitter_ms": 0})
}

/// Ten in a second, one at a time: places are 100 ms apart, planned times 102.041 ms.
pub(crate) fn steady() -> Value {
    json!({"rate": {"limit": 10, "burst": 1}, "jitter_ms": 0})
}

impl World {
    /// With the destination `catalog` as [`fast`] has it.
    pub(crate) fn new() -> Self {
        Self::with(&fast())
    }

    /// With the destination `catalog`.
    pub(crate) fn with(catalog: &Value) -> Self {
        logs::listen();
        let time = Time::new();
        let journal = Journal::new(time.clone());
        let world = Self {
            luck: Luck::default(),
            ledger: MemoryLedger::new(journal.clone()),
            limits: MemoryLimits::new(journal.clone()),
            lanes: MemoryLanes::new(journal.clone()),
            destinations: MemoryDestinations::new(journal.clone()),
            receivers: Receivers::new(time.clone(), journal.clone()),
            deliveries: MemoryQueue::new("deliveries", journal.clone()),
            failures: MemoryQueue::new("failures", journal.clone()),
            schedule: MemorySchedule::new(journal.clone()),
            memory: RefCell::default(),
            function_timeout: Cell::new(FUNCTION_TIMEOUT),
            journal,
            time,
        };
        world.destination("catalog", catalog);
        world
    }

    /// Puts a destination's row: what every row has, and these members.
    pub(crate) fn destination(&self, name: &str, members: &Value) {
        let mut row =
            json!({"url": "https://receiver.example/", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]});
        if let (Value::Object(row), Value::Object(members)) = (&mut row, members) {
            row.extend(members.clone());
        }
        self.destinations.rows.borrow_mut().insert(name.to_owned(), row);
    }

    /// One invocation of 30 s, to its answer.
    pub(crate) fn deliver(&self, batch: &[Received]) -> Delivered {
        self.time.run(self.invoke(batch))
    }

    /// The same beside something else that happens.
    pub(crate) fn deliver_while(&self, batch: &[Received], other: impl Future<Output = ()>) -> Delivered {
        self.time.run(async { futures::future::join(self.invoke(batch), other).await.0 })
    }

    /// One invocation whose sandbox is killed after so long.
    pub(crate) fn deliver_and_die(&self, batch: &[Received], after: Duration) {
        let killed = self.time.sleep_until(self.time.now().plus(after));
        let (invocation, killed) = (pin!(self.invoke(batch)), pin!(killed));
        let ended = self.time.run(select(invocation, killed));
        assert!(matches!(ended, Either::Right(_)), "it had answered already");
    }

    #[expect(clippy::await_holding_refcell_ref, reason = "one sandbox runs one invocation at a time")]
    async fn invoke(&self, batch: &[Received]) -> Delivered {
        let named = |(index, received): (usize, &Received)| Received {
            message_id: format!("m{index}"),
            receipt_handle: format!("r{index}"),
            ..received.clone()
        };
        let batch: Vec<_> = batch.iter().enumerate().map(named).collect();
        deliver(self, &self.memory.borrow(), &batch, self.time.now().plus(self.function_timeout.get())).await
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        self.time.sleep_until(self.time.now().plus(Duration::from_millis(ms))).await;
    }

    /// What was asked of the world since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.journal.take()
    }

    /// The record of an event for `catalog`.
    #[track_caller]
    pub(crate) fn record(&self, id: &str) -> Record {
        self.record_or_none(id).unwrap_or_else(|| panic!("no record of {id}"))
    }

    pub(crate) fn record_or_none(&self, id: &str) -> Option<Record> {
        self.ledger.records.borrow().get(&key(id)).cloned()
    }

    /// Puts a record of an event for `catalog`: that of a first receive, changed.
    pub(crate) fn put(&self, id: &str, change: impl FnOnce(Record) -> Record) {
        let moment = Moment { now: self.time.now(), deadline: at(86_400_000) };
        let record = change(Record { version: 1, ..Record::first("theirs", 1, moment) });
        self.ledger.records.borrow_mut().insert(key(id), record);
    }

    pub(crate) fn state(&self, id: &str) -> State {
        self.record(id).state
    }

    /// The clock item of `catalog`.
    pub(crate) fn clocks(&self) -> Clocks {
        self.limits.items.borrow().get(&name("catalog")).copied().unwrap_or_default()
    }

    pub(crate) fn set_clocks(&self, clocks: Clocks) {
        self.limits.items.borrow_mut().insert(name("catalog"), clocks);
    }

    /// The events of all requests, in the order of their start.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.receivers.requests.borrow().iter().map(|request| request.id.clone()).collect()
    }

    /// When the requests started.
    pub(crate) fn starts(&self) -> Vec<Timestamp> {
        self.receivers.requests.borrow().iter().map(|request| request.at).collect()
    }

    /// The delays of republished messages.
    pub(crate) fn republished(&self) -> Vec<i32> {
        self.deliveries.sent.borrow().iter().map(|message| message.delay_seconds).collect()
    }

    /// For how long messages were hidden, in the order of the calls.
    pub(crate) fn hidden(&self) -> Vec<i32> {
        self.deliveries.hidden.borrow().iter().map(|(_, seconds)| *seconds).collect()
    }

    /// When parked rows are due.
    pub(crate) fn parked(&self) -> Vec<Timestamp> {
        self.schedule.rows.borrow().iter().map(|row| row.key.due).collect()
    }

    /// The bodies of letters.
    pub(crate) fn letters(&self) -> Vec<String> {
        self.failures.sent.borrow().iter().map(|letter| letter.body.to_string()).collect()
    }

    /// Another sandbox: it has seen nothing.
    pub(crate) fn new_sandbox(&self) {
        self.memory.replace(Memory::default());
    }
}

pub(crate) fn key(id: &str) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#{id}")).expect("a key")
}

pub(crate) fn name(name: &str) -> DestinationName {
    DestinationName::parse(name).expect("a name")
}

impl Ports for World {
    type Clock = Time;
    type Chance = Luck;
    type Ledger = MemoryLedger;
    type Limits = MemoryLimits;
    type Lanes = MemoryLanes;
    type Destinations = MemoryDestinations;
    type Sender = Receivers;
    type Deliveries = MemoryQueue;
    type Failures = MemoryQueue;
    type Parking = MemorySchedule;

    fn clock(&self) -> &Time {
        &self.time
    }
    fn chance(&self) -> &Luck {
        &self.luck
    }
    fn ledger(&self) -> &MemoryLedger {
        &self.ledger
    }
    fn limits(&self) -> &MemoryLimits {
        &self.limits
    }
    fn lanes(&self) -> &MemoryLanes {
        &self.lanes
    }
    fn destinations(&self) -> &MemoryDestinations {
        &self.destinations
    }
    fn sender(&self) -> &Receivers {
        &self.receivers
    }
    fn deliveries(&self) -> &MemoryQueue {
        &self.deliveries
    }
    fn failures(&self) -> &MemoryQueue {
        &self.failures
    }
    fn parking(&self) -> &MemorySchedule {
        &self.schedule
    }
}
