//! The lanes' store: one for all sandboxes, each call with a way there and back.
//!
//! Owns: what a store does with a lane. Must not: choose lanes.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::lanes::Lane;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Lanes, Unavailable};
use lapse_policy::timestamp::Timestamp;

use super::bugs::Bug;
use super::chance::Way;
use super::steps::{Eyes, LaneStep, Step};

/// Of the planted bug.
const SECOND: Duration = Duration::from_secs(1);

type Items = HashMap<DestinationName, BTreeMap<u32, Lane>>;

/// A handle to the lanes.
#[derive(Debug, Clone)]
pub struct LanesTable {
    way: Way,
    eyes: Eyes,
    items: Rc<RefCell<Items>>,
}

impl LanesTable {
    /// No lanes are held.
    #[must_use]
    pub fn new(way: Way, eyes: Eyes) -> Self {
        Self { way, eyes, items: Rc::default() }
    }

    async fn call<T>(
        &self,
        destination: &DestinationName,
        mut change: impl FnMut(&mut BTreeMap<u32, Lane>) -> T,
    ) -> Result<T, Unavailable> {
        self.way.call(|| change(self.items.borrow_mut().entry(destination.clone()).or_default())).await
    }
}

impl Lanes for LanesTable {
    async fn read(&self, destination: &DestinationName) -> Result<Vec<Lane>, Unavailable> {
        let lanes = self.call(destination, |lanes| lanes.values().cloned().collect::<Vec<_>>()).await?;
        if !lanes.is_empty() {
            self.eyes.see(self.way.now(), || Step::LaneHeld(destination.clone()));
        }
        Ok(lanes)
    }

    async fn take(&self, destination: &DestinationName, lane: &Lane, now: Timestamp) -> Result<bool, Unavailable> {
        let take = |lanes: &mut BTreeMap<u32, Lane>| {
            let free = lanes.get(&lane.number).is_none_or(|stored| stored.yields_to(&lane.owner, now));
            let free = free || self.way.has(Bug::LanesFree);
            if free {
                let most = if self.way.has(Bug::LaneLeaseShort) { now.plus(SECOND) } else { lane.until };
                lanes.insert(lane.number, Lane { until: lane.until.min(most), ..lane.clone() });
            }
            let step = if free { LaneStep::Taken } else { LaneStep::Refused };
            self.eyes.see(self.way.now(), || Step::Lane(destination.clone(), lane.number, step));
            free
        };
        self.call(destination, take).await
    }

    async fn release(&self, destination: &DestinationName, lane: &Lane) -> Result<(), Unavailable> {
        let release = |lanes: &mut BTreeMap<u32, Lane>| {
            let theirs = lanes.get(&lane.number).is_some_and(|stored| stored.owner == lane.owner);
            if theirs {
                lanes.remove(&lane.number);
            }
            let step = if theirs { LaneStep::GivenBack } else { LaneStep::Refused };
            self.eyes.see(self.way.now(), || Step::Lane(destination.clone(), lane.number, step));
        };
        self.call(destination, release).await
    }
}
