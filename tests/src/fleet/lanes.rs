//! The lanes' store: one for all sandboxes, each call with a way there and back.
//!
//! Owns: what a store does with a lane. Must not: choose lanes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use lapse_policy::lanes::Lane;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Lanes, Unavailable};
use lapse_policy::timestamp::Timestamp;

use super::chance::Way;

type Items = HashMap<DestinationName, BTreeMap<u32, Lane>>;

/// A handle to the lanes.
#[derive(Debug, Clone)]
pub struct LanesTable {
    way: Way,
    items: Rc<RefCell<Items>>,
}

impl LanesTable {
    /// No lanes are held.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self { way, items: Rc::default() }
    }

    async fn call<T>(&self, destination: &DestinationName, change: impl FnOnce(&mut BTreeMap<u32, Lane>) -> T) -> T {
        self.way.go().await;
        let answer = change(self.items.borrow_mut().entry(destination.clone()).or_default());
        self.way.go().await;
        answer
    }
}

impl Lanes for LanesTable {
    async fn read(&self, destination: &DestinationName) -> Result<Vec<Lane>, Unavailable> {
        Ok(self.call(destination, |lanes| lanes.values().cloned().collect()).await)
    }

    async fn take(&self, destination: &DestinationName, lane: &Lane, now: Timestamp) -> Result<bool, Unavailable> {
        let take = |lanes: &mut BTreeMap<u32, Lane>| {
            let free = lanes.get(&lane.number).is_none_or(|stored| stored.yields_to(&lane.owner, now));
            if free {
                lanes.insert(lane.number, lane.clone());
            }
            free
        };
        Ok(self.call(destination, take).await)
    }

    async fn release(&self, destination: &DestinationName, lane: &Lane) -> Result<(), Unavailable> {
        let release = |lanes: &mut BTreeMap<u32, Lane>| {
            if lanes.get(&lane.number).is_some_and(|stored| stored.owner == lane.owner) {
                lanes.remove(&lane.number);
            }
        };
        self.call(destination, release).await;
        Ok(())
    }
}
