//! The figures of one destination after a scenario.
//!
//! Owns: quotients of counts. Must not: count; the parts of the fleet do.

use lapse_policy::timestamp::Timestamp;
use serde::Serialize;

use super::time::START;
use super::traffic::seconds;
use super::{Fleet, name};

/// The figures. All that is "per delivery" is per event offered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Events offered.
    pub offered: u64,
    /// Events delivered.
    pub delivered: u64,
    /// Events that are dead.
    pub dead: u64,
    /// Of those, for want of a place before the deadline.
    pub no_place_before_deadline: u64,
    /// Requests that the receiver saw.
    pub requests: usize,
    /// Of those, answered with 429.
    pub answered_429: usize,
    /// The most requests in any second.
    pub max_in_1s: usize,
    /// Seconds from the scenario's start to the last delivery.
    pub drained_s: f64,
    /// Messages received per delivery.
    pub receives_per_delivery: f64,
    /// Conditional writes of the limiter per delivery.
    pub limiter_writes_per_delivery: f64,
    /// Of those, refused.
    pub limiter_refused_per_delivery: f64,
    /// Records written per delivery.
    pub ledger_writes_per_delivery: f64,
    /// Records read per delivery.
    pub ledger_reads_per_delivery: f64,
    /// Planned times that took the place of others, per delivery.
    pub replans_per_delivery: f64,
    /// Lateness of the median delivery, in seconds.
    pub late_p50_s: f64,
    /// The 95th percentile.
    pub late_p95_s: f64,
    /// The 99th percentile.
    pub late_p99_s: f64,
    /// The most messages of the whole queue in flight at any time.
    pub most_in_flight: usize,
    /// The most invocations at any time.
    pub most_invocations: usize,
}

impl Fleet {
    /// The figures of a destination as they are now.
    #[must_use]
    pub fn figures(&self, destination: &str) -> Figures {
        let (traffic, destination, offered) = (self.traffic(destination), name(destination), self.offered(destination));
        let entries = self.world.ledger.entries(&destination);
        let bookings = self.world.limits.bookings(&destination);
        let queue = self.world.deliveries.counts();
        let per_delivery = |count: u64| ratio(count, offered);
        let [p50, p95, p99] = traffic.lateness([50, 95, 99]).map(seconds);
        let last: Timestamp = traffic.last_delivered().unwrap_or(START);
        Figures {
            offered,
            delivered: entries.delivered,
            dead: entries.dead,
            no_place_before_deadline: entries.no_place,
            requests: traffic.requests.len(),
            answered_429: traffic.answered(429),
            max_in_1s: traffic.most_within(std::time::Duration::from_secs(1)),
            drained_s: seconds(last.since(START)),
            receives_per_delivery: per_delivery(self.world.deliveries.receives_of(&destination)),
            limiter_writes_per_delivery: per_delivery(bookings.writes),
            limiter_refused_per_delivery: per_delivery(bookings.refused),
            ledger_writes_per_delivery: per_delivery(entries.writes),
            ledger_reads_per_delivery: per_delivery(entries.reads),
            replans_per_delivery: per_delivery(entries.replans),
            late_p50_s: p50,
            late_p95_s: p95,
            late_p99_s: p99,
            most_in_flight: queue.most_in_flight,
            most_invocations: self.mapping.counts().most_at_once,
        }
    }
}

/// A quotient to three decimals.
#[must_use]
pub fn ratio(count: u64, of: u64) -> f64 {
    let thousandths = count.saturating_mul(1000).checked_div(of).unwrap_or(0);
    f64::from(u32::try_from(thousandths).unwrap_or(u32::MAX)) / 1000.0
}
