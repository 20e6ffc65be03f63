//! The ledger, the limiter's store and the destinations' rows: one set for all sandboxes, each call with a way there
//! and back.
//!
//! Owns: what a store does with a write, and counting. Must not: know rules; conditions are those of the ports.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use lapse_policy::clock::{self, Clocks, Write};
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{ClockAnswer, Destinations, Ledger, LedgerWrite, Limits, Unavailable, Written};
use lapse_policy::reason::Reason;
use serde_json::{Map, Value};

use super::chance::Way;

/// Statements of one BatchExecuteStatement (DynamoDB quota).
const MOST_STATEMENTS: usize = 25;

/// A handle to the ledger.
#[derive(Debug, Clone)]
pub struct LedgerTable {
    way: Way,
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
    pub fn new(way: Way) -> Self {
        Self { way, records: Rc::default(), entries: Rc::default() }
    }

    /// The counts of a destination.
    #[must_use]
    pub fn entries(&self, destination: &DestinationName) -> Entries {
        self.entries.borrow().get(destination).copied().unwrap_or_default()
    }

    /// A delivery's record.
    #[must_use]
    pub fn record(&self, key: &DeliveryKey) -> Option<Record> {
        self.records.borrow().get(key).cloned()
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
        if !allowed {
            return Written::Refused;
        }
        let planned = stored.and_then(|stored| stored.planned_at).zip(record.planned_at);
        entries.replans += u64::from(planned.is_some_and(|(before, now)| before != now));
        entries.delivered += u64::from(record.state == State::Delivered);
        entries.dead += u64::from(record.state == State::Dead);
        entries.no_place += u64::from(record.reason == Some(Reason::NoPlaceBeforeDeadline));
        records.insert(key.clone(), record.clone());
        Written::Stored
    }
}

impl Ledger for LedgerTable {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        self.way.go().await;
        let found = {
            let records = self.records.borrow();
            let mut entries = self.entries.borrow_mut();
            for key in keys {
                entries.entry(key.destination.clone()).or_default().reads += 1;
            }
            keys.iter().filter_map(|key| Some((key.clone(), records.get(key)?.clone()))).collect()
        };
        self.way.go().await;
        Ok(found)
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        assert!(writes.len() <= MOST_STATEMENTS, "LED-9: {} statements", writes.len());
        self.way.go().await;
        let written = writes.iter().map(|(key, write)| self.store(key, write)).collect();
        self.way.go().await;
        Ok(written)
    }
}

/// A handle to the limiter's store.
#[derive(Debug, Clone)]
pub struct LimitsTable {
    way: Way,
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
    pub fn new(way: Way) -> Self {
        Self { way, items: Rc::default() }
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
        let Some(after) = write.apply(item) else {
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
        *item = after;
        ClockAnswer::Done(after)
    }
}

impl Limits for LimitsTable {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        self.way.go().await;
        let answer = self.apply(destination, write);
        self.way.go().await;
        Ok(answer)
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        self.way.go().await;
        let clocks = {
            let mut items = self.items.borrow_mut();
            let (clocks, bookings) = items.entry(destination.clone()).or_default();
            bookings.reads += 1;
            *clocks
        };
        self.way.go().await;
        Ok(clocks)
    }
}

/// A handle to the destinations' rows.
#[derive(Debug, Clone)]
pub struct DestinationsTable {
    way: Way,
    rows: Rc<RefCell<HashMap<DestinationName, Map<String, Value>>>>,
}

impl DestinationsTable {
    /// Without rows.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self { way, rows: Rc::default() }
    }

    /// Puts a row, or replaces it.
    pub fn put(&self, destination: &DestinationName, row: Map<String, Value>) {
        self.rows.borrow_mut().insert(destination.clone(), row);
    }
}

impl Destinations for DestinationsTable {
    async fn read(&self, destination: &DestinationName) -> Result<Option<Map<String, Value>>, Unavailable> {
        self.way.go().await;
        let row = self.rows.borrow().get(destination).cloned();
        self.way.go().await;
        Ok(row)
    }
}
