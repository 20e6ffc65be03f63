//! The ledger, the limiter's store and the destinations' rows: one set for all sandboxes, each call with a way there
//! and back.
//!
//! Owns: what a store does with a write, and counting. Must not: know rules; conditions are those of the ports.
//! Reads are strongly consistent, as every read of the ports is; TTL takes records days late.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use lapse_policy::clock::{self, Clocks, Guard, Write};
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{ClockAnswer, Destinations, Ledger, LedgerWrite, Limits, Unavailable, Written};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use lapse_triage::triage::Dispositions;
use serde_json::{Map, Value};

use super::bugs::Bug;
use super::chance::Way;
use super::steps::{Eyes, Step};
use super::weather::{Fate, Fault};

/// Statements of one BatchExecuteStatement (DynamoDB quota).
const MOST_STATEMENTS: usize = 25;
/// Of the planted bug.
const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// A handle to the ledger.
#[derive(Debug, Clone)]
pub struct LedgerTable {
    way: Way,
    eyes: Eyes,
    records: Rc<RefCell<HashMap<DeliveryKey, Record>>>,
    entries: Rc<RefCell<HashMap<DestinationName, Entries>>>,
}

/// What the ledger has counted of one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entries {
    /// Writes, refused ones too.
    pub writes: u64,
    /// Records read.
    pub reads: u64,
    /// Planned times that took the place of others.
    pub replans: u64,
    /// Records that say Delivered.
    pub delivered: u64,
    /// Records that say Dead.
    pub dead: u64,
    /// Of those, for want of a place before the deadline.
    pub no_place: u64,
}

impl LedgerTable {
    /// An empty ledger.
    #[must_use]
    pub fn new(way: Way, eyes: Eyes) -> Self {
        Self { way, eyes, records: Rc::default(), entries: Rc::default() }
    }

    /// The counts of a destination.
    #[must_use]
    pub fn entries(&self, destination: &DestinationName) -> Entries {
        self.entries.borrow().get(destination).copied().unwrap_or_default()
    }

    /// The counts of all.
    #[must_use]
    pub fn all_entries(&self) -> Vec<Entries> {
        self.entries.borrow().values().copied().collect()
    }

    /// A delivery's record.
    #[must_use]
    pub fn record(&self, key: &DeliveryKey) -> Option<Record> {
        self.records.borrow().get(key).cloned()
    }

    /// Takes away what TTL may take at this instant, the earliest that may be late by so much (LED-8).
    pub fn expire(&self, now: Timestamp, late: std::time::Duration) {
        let expired = |record: &Record| Timestamp::from_millis(record.ttl.saturating_mul(1000)).plus(late) <= now;
        let mut records = self.records.borrow_mut();
        let mut gone: Vec<_> = records.iter().filter(|(_, r)| expired(r)).map(|(key, _)| key.clone()).collect();
        // A map keeps no order, and a course must.
        gone.sort();
        for key in gone {
            records.remove(&key);
            self.way.weather().count(Fault::Expired);
            self.eyes.see(self.way.now(), || Step::Expired(key.clone()));
        }
    }

    /// One statement with what may go wrong with it alone.
    fn statement(&self, key: &DeliveryKey, write: &LedgerWrite) -> Written {
        match self.way.fate_of_entry() {
            Fate::Fine | Fate::ReplyLost => self.store(key, write),
            Fate::Lost | Fate::Fails => Written::NotStored,
            Fate::FailsDone => {
                self.store(key, write);
                Written::Unknown
            }
        }
    }

    fn store(&self, key: &DeliveryKey, write: &LedgerWrite) -> Written {
        let mut records = self.records.borrow_mut();
        let mut entries = self.entries.borrow_mut();
        let entries = entries.entry(key.destination.clone()).or_default();
        entries.writes += 1;
        let stored = records.get(key);
        let version = stored.map_or(0, |record| record.version);
        let (allowed, record) = match write {
            LedgerWrite::Insert(record) => (version == 0, record),
            LedgerWrite::Swap(record) => (version > 0 && version + 1 == record.version, record),
        };
        // What `triage` wrote is no one else's to write.
        let triaged_epoch = stored.and_then(|stored| stored.triaged_epoch);
        let mut record = Record { triaged_epoch, ..record.clone() };
        if self.way.has(Bug::LeaseShort) {
            record.lease = record.lease.map(|lease| lease.min(record.last_at.plus(SECOND)));
        }
        if self.way.has(Bug::JitterSubtracts) {
            record.next_at = record.next_at.map(|at| record.last_at.plus(at.since(record.last_at).mul_f64(0.75)));
        }
        if self.way.has(Bug::Uncounted) {
            record.attempts = 0;
        }
        if !allowed && !self.way.has(Bug::WrittenBlindly) {
            return Written::Refused;
        }
        let planned = stored.and_then(|stored| stored.planned_at).zip(record.planned_at);
        entries.replans += u64::from(planned.is_some_and(|(before, now)| before != now));
        entries.delivered += u64::from(record.state == State::Delivered);
        entries.dead += u64::from(record.state == State::Dead);
        entries.no_place += u64::from(record.reason == Some(Reason::NoPlaceBeforeDeadline));
        let now = self.way.now();
        self.eyes.see(now, || Step::Commit(key.clone(), stored.cloned().map(Box::new), Box::new(record.clone())));
        records.insert(key.clone(), record);
        Written::Stored
    }
}

impl Dispositions for LedgerTable {
    async fn write(&self, key: &DeliveryKey, record: &Record) -> Result<(), Unavailable> {
        let write = || {
            let mut records = self.records.borrow_mut();
            let same = |stored: &&mut Record| stored.state == State::Dead && stored.epoch == record.epoch;
            if let Some(stored) = records.get_mut(key).filter(same) {
                stored.triaged_epoch = Some(record.epoch);
            }
        };
        self.way.call(write).await
    }
}

impl Ledger for LedgerTable {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        let find = || {
            let records = self.records.borrow();
            let mut entries = self.entries.borrow_mut();
            for key in keys {
                entries.entry(key.destination.clone()).or_default().reads += 1;
            }
            keys.iter().filter_map(|key| Some((key.clone(), records.get(key)?.clone()))).collect()
        };
        self.way.call(find).await
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        assert!(writes.len() <= MOST_STATEMENTS, "LED-9: {} statements", writes.len());
        self.way.call(|| writes.iter().map(|(key, write)| self.statement(key, write)).collect()).await
    }
}

/// A handle to the limiter's store.
#[derive(Debug, Clone)]
pub struct LimitsTable {
    way: Way,
    eyes: Eyes,
    items: Rc<RefCell<HashMap<DestinationName, (Clocks, Bookings)>>>,
}

/// What the limiter's store has counted of one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bookings {
    /// Conditional writes, refused ones too.
    pub writes: u64,
    /// Of those, refused.
    pub refused: u64,
    /// Writes of the plan alone that were done.
    pub plans: u64,
    /// Writes of the gate that were done, with the plan or alone.
    pub gates: u64,
    /// Writes of the pause that were done.
    pub pauses: u64,
    /// Reads.
    pub reads: u64,
}

impl LimitsTable {
    /// An empty store.
    #[must_use]
    pub fn new(way: Way, eyes: Eyes) -> Self {
        Self { way, eyes, items: Rc::default() }
    }

    /// The item of a destination.
    #[must_use]
    pub fn clocks(&self, destination: &DestinationName) -> Clocks {
        self.items.borrow().get(destination).map(|(clocks, _)| *clocks).unwrap_or_default()
    }

    /// The counts of a destination.
    #[must_use]
    pub fn bookings(&self, destination: &DestinationName) -> Bookings {
        self.items.borrow().get(destination).map(|(_, bookings)| *bookings).unwrap_or_default()
    }

    /// The counts of all.
    #[must_use]
    pub fn all_bookings(&self) -> Vec<Bookings> {
        self.items.borrow().values().map(|(_, bookings)| *bookings).collect()
    }

    /// What an operator does to an item.
    pub fn change(&self, destination: &DestinationName, change: impl FnOnce(Clocks) -> Clocks) {
        let mut items = self.items.borrow_mut();
        let item = items.entry(destination.clone()).or_default();
        item.0 = change(item.0);
    }

    fn apply(&self, destination: &DestinationName, write: &Write) -> ClockAnswer {
        let mut items = self.items.borrow_mut();
        let (item, bookings) = items.entry(destination.clone()).or_default();
        bookings.writes += 1;
        let Some(after) = self.outcome(write, item) else {
            bookings.refused += 1;
            return ClockAnswer::Refused(*item);
        };
        match write {
            Write::Busy { clock: clock::Clock::Plan, .. } | Write::Idle { clock: clock::Clock::Plan, .. } => {
                bookings.plans += 1;
            }
            Write::Busy { clock: clock::Clock::Gate, .. }
            | Write::Idle { clock: clock::Clock::Gate, .. }
            | Write::BothIdle { .. } => bookings.gates += 1,
            Write::Pause { .. } => bookings.pauses += 1,
        }
        self.eyes.see(self.way.now(), || Step::Clock(destination.clone(), *write, Box::new([*item, after])));
        *item = after;
        ClockAnswer::Done(after)
    }

    /// The model's own outcome, unless a bug is planted.
    fn outcome(&self, write: &Write, item: &Clocks) -> Option<Clocks> {
        let at_gate = !matches!(
            write,
            Write::Pause { .. }
                | Write::Busy { clock: clock::Clock::Plan, .. }
                | Write::Idle { clock: clock::Clock::Plan, .. }
        );
        if self.way.has(Bug::GateOpen) && at_gate {
            return write.apply(item).or(Some(*item));
        }
        if self.way.has(Bug::PauseUnseen) {
            let mut blind = *write;
            match &mut blind {
                Write::Busy { guard, .. } | Write::Idle { guard, .. } if at_gate => {
                    *guard = Guard::NotPaused(Timestamp::FAR_FUTURE);
                }
                Write::BothIdle { at, .. } => *at = Timestamp::FAR_FUTURE,
                Write::Busy { .. } | Write::Idle { .. } | Write::Pause { .. } => {}
            }
            return blind.apply(item);
        }
        write.apply(item)
    }
}

impl Limits for LimitsTable {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        self.way.call(|| self.apply(destination, write)).await
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        let read = || {
            let mut items = self.items.borrow_mut();
            let (clocks, bookings) = items.entry(destination.clone()).or_default();
            bookings.reads += 1;
            *clocks
        };
        self.way.call(read).await
    }
}

/// A handle to the destinations' rows.
#[derive(Debug, Clone)]
pub struct DestinationsTable {
    way: Way,
    reads: Rc<Cell<u64>>,
    rows: Rc<RefCell<HashMap<DestinationName, Map<String, Value>>>>,
}

impl DestinationsTable {
    /// Without rows.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self { way, reads: Rc::default(), rows: Rc::default() }
    }

    /// Puts a row, or replaces it.
    pub fn put(&self, destination: &DestinationName, row: Map<String, Value>) {
        self.rows.borrow_mut().insert(destination.clone(), row);
    }

    /// How often rows were read.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// A row as it is.
    #[must_use]
    pub fn row(&self, destination: &DestinationName) -> Option<Map<String, Value>> {
        self.rows.borrow().get(destination).cloned()
    }

    /// Takes a row away.
    #[must_use]
    pub fn remove(&self, destination: &DestinationName) -> Option<Map<String, Value>> {
        self.rows.borrow_mut().remove(destination)
    }
}

impl Destinations for DestinationsTable {
    async fn read(&self, destination: &DestinationName) -> Result<Option<Map<String, Value>>, Unavailable> {
        self.reads.set(self.reads.get() + 1);
        self.way.call(|| self.rows.borrow().get(destination).cloned()).await
    }
}
