//! The lanes' store in memory.
//!
//! Owns: what a store does with a lane, and how it can fail. Must not: choose lanes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use lapse_policy::lanes::Lane;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Lanes, Unavailable};
use lapse_policy::timestamp::Timestamp;

use super::journal::Journal;
use super::stores::{Fault, Faults, down};

#[derive(Debug)]
pub(crate) struct MemoryLanes {
    pub(crate) items: RefCell<HashMap<DestinationName, BTreeMap<u32, Lane>>>,
    pub(crate) reads: Faults,
    pub(crate) takes: Faults,
    pub(crate) releases: Faults,
    journal: Journal,
}

impl MemoryLanes {
    pub(crate) fn new(journal: Journal) -> Self {
        Self {
            items: RefCell::default(),
            reads: Faults::default(),
            takes: Faults::default(),
            releases: Faults::default(),
            journal,
        }
    }

    /// The call, as `change` does it, with what goes wrong.
    async fn call<T>(
        &self,
        operation: &'static str,
        faults: &Faults,
        change: impl FnOnce(&mut BTreeMap<u32, Lane>) -> T,
        destination: &DestinationName,
    ) -> Result<T, Unavailable> {
        let fault = faults.now(&self.journal).await;
        if let Some(Fault::Unavailable | Fault::Throttled) = fault {
            return Err(down(operation));
        }
        let answer = change(self.items.borrow_mut().entry(destination.clone()).or_default());
        if fault == Some(Fault::LostReply) { Err(down(operation)) } else { Ok(answer) }
    }
}

impl Lanes for MemoryLanes {
    async fn read(&self, destination: &DestinationName) -> Result<Vec<Lane>, Unavailable> {
        self.journal.note("lanes read".to_owned());
        self.call("Query limits", &self.reads, |items| items.values().cloned().collect(), destination).await
    }

    async fn take(&self, destination: &DestinationName, lane: &Lane, now: Timestamp) -> Result<bool, Unavailable> {
        let take = |items: &mut BTreeMap<u32, Lane>| {
            let free = items.get(&lane.number).is_none_or(|stored| stored.yields_to(&lane.owner, now));
            if free {
                items.insert(lane.number, lane.clone());
            }
            self.journal.note(format!("lane {} {}", lane.number, if free { "taken" } else { "not taken" }));
            free
        };
        self.call("UpdateItem limits", &self.takes, take, destination).await
    }

    async fn release(&self, destination: &DestinationName, lane: &Lane) -> Result<(), Unavailable> {
        self.journal.note(format!("lane {} given back", lane.number));
        let release = |items: &mut BTreeMap<u32, Lane>| {
            if items.get(&lane.number).is_some_and(|stored| stored.owner == lane.owner) {
                items.remove(&lane.number);
            }
        };
        self.call("DeleteItem limits", &self.releases, release, destination).await
    }
}
