//! The ledger, the limiter's store and the destinations' rows in memory.
//!
//! Owns: what a store does with a write, and how it can fail. Must not: know rules; conditions are those of the ports.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use lapse_policy::clock::{self, Clocks, Write};
use lapse_policy::ledger::Record;
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{ClockAnswer, Destinations, Ledger, LedgerWrite, Limits, Unavailable, Written};
use serde_json::{Map, Value};

use super::journal::Journal;

/// How one call of a store goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is carried out, and its reply is lost.
    LostReply,
    /// It never arrives.
    Unavailable,
    /// It is refused for now.
    Throttled,
    /// It takes this long.
    Slow(Duration),
    /// It never ends.
    Hangs,
    /// It breaks the adapter.
    Panics,
}

/// The faults of the next calls, in order; then those of all others.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    next: RefCell<VecDeque<Option<Fault>>>,
    rest: Cell<Option<Fault>>,
}

impl Faults {
    /// The next call goes well (`None`) or wrong.
    pub(crate) fn then(&self, fault: impl Into<Option<Fault>>) -> &Self {
        self.next.borrow_mut().push_back(fault.into());
        self
    }

    /// All calls after those go well (`None`) or wrong.
    pub(crate) fn always(&self, fault: impl Into<Option<Fault>>) {
        self.rest.set(fault.into());
    }

    pub(super) async fn now(&self, journal: &Journal) -> Option<Fault> {
        let fault = self.next.borrow_mut().pop_front().unwrap_or(self.rest.get());
        match fault {
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Slow(span)) => journal.takes(span).await,
            Some(Fault::Panics) => panic!("the adapter was told to"),
            Some(Fault::LostReply | Fault::Unavailable | Fault::Throttled) | None => {}
        }
        fault
    }
}

pub(super) fn down(operation: &'static str) -> Unavailable {
    Unavailable { operation, cause: "told to".to_owned() }
}

#[derive(Debug)]
pub(crate) struct MemoryLedger {
    pub(crate) records: RefCell<HashMap<DeliveryKey, Record>>,
    pub(crate) reads: Faults,
    pub(crate) writes: Faults,
    journal: Journal,
}

impl MemoryLedger {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { records: RefCell::default(), reads: Faults::default(), writes: Faults::default(), journal }
    }

    fn store(&self, key: &DeliveryKey, write: &LedgerWrite) -> Written {
        let mut records = self.records.borrow_mut();
        let stored = records.get(key).map_or(0, |record| record.version);
        let (allowed, record) = match write {
            LedgerWrite::Insert(record) => (stored == 0, record),
            LedgerWrite::Swap(record) => (stored > 0 && stored + 1 == record.version, record),
        };
        if !allowed {
            return Written::Refused;
        }
        records.insert(key.clone(), record.clone());
        Written::Stored
    }
}

impl Ledger for MemoryLedger {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        self.journal.note(format!("ledger read {}", keys.len()));
        match self.reads.now(&self.journal).await {
            Some(Fault::LostReply | Fault::Unavailable | Fault::Throttled) => Err(down("BatchGetItem deliveries")),
            Some(Fault::Slow(_) | Fault::Hangs | Fault::Panics) | None => {
                let records = self.records.borrow();
                Ok(keys.iter().filter_map(|key| Some((key.clone(), records.get(key)?.clone()))).collect())
            }
        }
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        let states: Vec<_> = writes
            .iter()
            .map(|(_, LedgerWrite::Insert(record) | LedgerWrite::Swap(record))| record.state.name())
            .collect();
        self.journal.note(format!("ledger write {}", states.join(" ")));
        let keys: BTreeSet<_> = writes.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), writes.len(), "LED-9: two statements for one key in a call");
        assert!(writes.len() <= 25, "LED-9: at most 25 statements");
        let store = || writes.iter().map(|(key, write)| self.store(key, write)).collect();
        match self.writes.now(&self.journal).await {
            Some(Fault::Throttled) => Ok(vec![Written::NotStored; writes.len()]),
            Some(Fault::Unavailable) => Err(down("BatchExecuteStatement deliveries")),
            Some(Fault::LostReply) => {
                let _: Vec<Written> = store();
                Err(down("BatchExecuteStatement deliveries"))
            }
            Some(Fault::Slow(_) | Fault::Hangs | Fault::Panics) | None => Ok(store()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct MemoryLimits {
    pub(crate) items: RefCell<HashMap<DestinationName, Clocks>>,
    pub(crate) faults: Faults,
    journal: Journal,
}

impl MemoryLimits {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { items: RefCell::default(), faults: Faults::default(), journal }
    }
}

impl Limits for MemoryLimits {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        let item = self.items.borrow().get(destination).copied().unwrap_or_default();
        let what = match write {
            Write::Busy { clock: clock::Clock::Plan, .. } | Write::Idle { clock: clock::Clock::Plan, .. } => "plan",
            Write::Busy { clock: clock::Clock::Gate, .. } | Write::Idle { clock: clock::Clock::Gate, .. } => "gate",
            Write::BothIdle { .. } => "plan and gate",
            Write::Pause { .. } => "pause",
        };
        let after = write.apply(&item);
        self.journal.note(format!("{what}{}", if after.is_some() { "" } else { ", refused" }));
        let fault = self.faults.now(&self.journal).await;
        if let Some(Fault::Unavailable | Fault::Throttled) = fault {
            return Err(down("UpdateItem limits"));
        }
        if let Some(after) = after {
            self.items.borrow_mut().insert(destination.clone(), after);
        }
        match (fault, after) {
            (Some(Fault::LostReply), _) => Err(down("UpdateItem limits")),
            (_, Some(after)) => Ok(ClockAnswer::Done(after)),
            (_, None) => Ok(ClockAnswer::Refused(item)),
        }
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        self.journal.note("pause read".to_owned());
        match self.faults.now(&self.journal).await {
            Some(Fault::LostReply | Fault::Unavailable | Fault::Throttled) => Err(down("GetItem limits")),
            Some(Fault::Slow(_) | Fault::Hangs | Fault::Panics) | None => {
                Ok(self.items.borrow().get(destination).copied().unwrap_or_default())
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct MemoryDestinations {
    pub(crate) rows: RefCell<HashMap<String, Value>>,
    pub(crate) faults: Faults,
    journal: Journal,
}

impl MemoryDestinations {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { rows: RefCell::default(), faults: Faults::default(), journal }
    }
}

impl Destinations for MemoryDestinations {
    async fn read(&self, destination: &DestinationName) -> Result<Option<Map<String, Value>>, Unavailable> {
        self.journal.note(format!("destination {destination}"));
        match self.faults.now(&self.journal).await {
            Some(Fault::LostReply | Fault::Unavailable | Fault::Throttled) => Err(down("GetItem destinations")),
            Some(Fault::Slow(_) | Fault::Hangs | Fault::Panics) | None => {
                let row = self.rows.borrow().get(destination.as_str()).cloned();
                Ok(row.and_then(|row| row.as_object().cloned()))
            }
        }
    }
}
