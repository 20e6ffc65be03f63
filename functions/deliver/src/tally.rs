//! OBS-2: what a batch came to, in numbers.
//!
//! Owns: the counts per destination and their sum. Must not: name metrics; `report` does.

use std::collections::BTreeMap;

use lapse_policy::names::DestinationName;
use lapse_policy::reason::Reason;
use serde::Serialize;

/// The counts of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bodies that were no messages.
    pub malformed: u32,
    by_destination: BTreeMap<DestinationName, Counts>,
}

/// The counts of one destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages received.
    pub received: u32,
    /// Requests made.
    pub attempts: u32,
    /// 2xx.
    pub delivered: u32,
    /// Throttled answers.
    pub throttled: u32,
    /// Transient outcomes.
    pub transient: u32,
    /// Deaths by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead: BTreeMap<Reason, u32>,
    /// Messages hidden.
    pub deferred: u32,
    /// Deliveries that found no lane (LAN-3).
    pub lane_waits: u32,
    /// Deliveries sent again with a delay.
    pub republished: u32,
    /// Deliveries put into the schedule.
    pub parked: u32,
    /// Epochs that redrives began (SEC-6).
    pub epochs_started: u32,
    /// Copies and repeats that were acknowledged without a request.
    pub duplicates: u32,
    /// The oldest delivered event's age since `occurred_at`, in ms.
    pub delivery_age_ms: i64,
    /// The longest time from the first receive to a request that had to have a place, in ms.
    pub place_wait_ms: i64,
}

impl Tally {
    /// A destination's counts.
    pub fn of(&mut self, destination: &DestinationName) -> &mut Counts {
        self.by_destination.entry(destination.clone()).or_default()
    }

    /// All destinations' counts by name.
    pub fn destinations(&self) -> impl Iterator<Item = (&DestinationName, &Counts)> {
        self.by_destination.iter()
    }

    /// The sum over all destinations; of spans, the longest.
    #[must_use]
    pub fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.by_destination.values() {
            sum.received += counts.received;
            sum.attempts += counts.attempts;
            sum.delivered += counts.delivered;
            sum.throttled += counts.throttled;
            sum.transient += counts.transient;
            for (reason, count) in &counts.dead {
                *sum.dead.entry(*reason).or_default() += count;
            }
            sum.deferred += counts.deferred;
            sum.lane_waits += counts.lane_waits;
            sum.republished += counts.republished;
            sum.parked += counts.parked;
            sum.epochs_started += counts.epochs_started;
            sum.duplicates += counts.duplicates;
            sum.delivery_age_ms = sum.delivery_age_ms.max(counts.delivery_age_ms);
            sum.place_wait_ms = sum.place_wait_ms.max(counts.place_wait_ms);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obs_2_the_sum_is_over_all_destinations() {
        let mut tally = Tally::default();
        for (name, age) in [("a", 5), ("b", 9)] {
            let counts = tally.of(&DestinationName::parse(name).expect("valid"));
            counts.attempts = 2;
            counts.dead.insert(Reason::Gone, 1);
            counts.delivery_age_ms = age;
        }
        let sum = tally.sum();
        assert_eq!((sum.attempts, sum.dead[&Reason::Gone], sum.delivery_age_ms), (4, 2, 9));
    }
}
