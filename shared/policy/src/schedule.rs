//! EMT-1, EMT-4: rows of the schedule, their shard and key, and how long a message is still delayed.
//!
//! Owns: the schedule's key format and its arithmetic. Must not: query.

use std::time::Duration;

use crate::names::DeliveryKey;
use crate::timestamp::{Timestamp, millis};

/// Shards of the schedule: a tick queries each.
pub const SHARDS: u32 = 16;
/// Where rows go that cannot be sent (EMT-4).
pub const UNSENDABLE: i32 = -1;
/// How far ahead a tick looks: ticks may be 119 s apart, and a message may wait in the queue (EMT-1).
pub const LOOK_AHEAD: Duration = Duration::from_secs(150);
/// Digits of the due time in a key, so that keys sort by time until the year 2286.
const DUE_DIGITS: usize = 13;
const LATEST_DUE: i64 = 9_999_999_999_999;

/// Whether a row is a producer's or came back from `deliver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A producer put it.
    New,
    /// `deliver` parked it: there is a record to read first (LED-10).
    Resumed,
}

/// A row's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey {
    /// When it is due.
    pub due: Timestamp,
    /// The delivery.
    pub delivery: DeliveryKey,
}

/// A sort key that is not `<13 digits>#<destination>#<event id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("due must be 13 digits of epoch milliseconds, '#', the destination, '#' and the event id")]
pub struct BadRowKey;

impl RowKey {
    /// The key of a delivery that is due then.
    #[must_use]
    pub fn new(due: Timestamp, delivery: DeliveryKey) -> Self {
        Self { due, delivery }
    }

    /// CRC-32 of `destination#id` modulo [`SHARDS`].
    #[must_use]
    pub fn shard(&self) -> u32 {
        self.delivery.crc32() % SHARDS
    }

    /// The sort key.
    #[must_use]
    pub fn sort_key(&self) -> String {
        format!("{:0DUE_DIGITS$}#{}", self.due.millis().min(LATEST_DUE), self.delivery)
    }

    /// Reads a sort key.
    pub fn parse(sort_key: &str) -> Result<Self, BadRowKey> {
        let (due, delivery) = sort_key.split_once('#').ok_or(BadRowKey)?;
        if due.len() != DUE_DIGITS || !due.bytes().all(|b| b.is_ascii_digit()) {
            return Err(BadRowKey);
        }
        let due = due.parse().map_err(|_| BadRowKey)?;
        let delivery = DeliveryKey::parse(delivery).map_err(|_| BadRowKey)?;
        Ok(Self { due: Timestamp::from_millis(due), delivery })
    }
}

/// The sort key before which rows are due for a tick at `now`: everything up to the look-ahead.
#[must_use]
pub fn due_until(now: Timestamp) -> String {
    // '$' follows '#': every delivery of that very millisecond is in.
    format!("{:0DUE_DIGITS$}$", now.plus(LOOK_AHEAD).millis())
}

/// `DelaySeconds` of a row's message: a new event is never early, a resumed one wakes before its time (EMT-1).
#[must_use]
pub fn delay_seconds(due: Timestamp, now: Timestamp, origin: Origin) -> i32 {
    let left = millis(due.since(now));
    let seconds = match origin {
        Origin::New => left.div_euclid(1000) + i64::from(left.rem_euclid(1000) > 0),
        Origin::Resumed => left / 1000,
    };
    i32::try_from(seconds.min(900)).unwrap_or(900)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> DeliveryKey {
        DeliveryKey::parse("catalog#res_1:3").expect("valid")
    }

    #[test]
    fn emt_1_a_key_sorts_by_its_time_and_reads_back() {
        let row = RowKey::new(Timestamp::from_millis(1_764_504_000_123), key());
        assert_eq!(row.sort_key(), "1764504000123#catalog#res_1:3");
        assert_eq!(RowKey::parse(&row.sort_key()), Ok(row.clone()));
        let early = RowKey::new(Timestamp::from_millis(5), key());
        assert_eq!(early.sort_key(), "0000000000005#catalog#res_1:3");
        assert!(early.sort_key() < row.sort_key());
        assert_eq!(row.shard(), crc32fast::hash(b"catalog#res_1:3") % 16);
    }

    #[test]
    fn emt_4_a_malformed_key_is_told() {
        for bad in ["", "5#catalog#a:1", "176450400012x#c#a:1", "1764504000123#c", "1764504000123", "1764504000123#c#"]
        {
            assert_eq!(RowKey::parse(bad), Err(BadRowKey), "{bad}");
        }
    }

    #[test]
    fn emt_1_the_look_ahead_is_inclusive() {
        let now = Timestamp::from_millis(1_764_504_000_000);
        let due = |ms| RowKey::new(now.plus(Duration::from_millis(ms)), key()).sort_key();
        assert!(due(150_000) < due_until(now));
        assert!(due(150_001) > due_until(now));
    }

    #[track_caller]
    fn check(label: &str, left_ms: i64, new: i32, resumed: i32) {
        let now = Timestamp::from_millis(1_000_000);
        let due = Timestamp::from_millis(1_000_000 + left_ms);
        assert_eq!(delay_seconds(due, now, Origin::New), new, "{label}: new");
        assert_eq!(delay_seconds(due, now, Origin::Resumed), resumed, "{label}: resumed");
    }

    #[test]
    fn emt_1_delays_round_up_for_new_events_and_down_for_resumed_ones() {
        check("overdue", -5000, 0, 0);
        check("now", 0, 0, 0);
        check("a part of a second", 1, 1, 0);
        check("whole seconds", 2000, 2, 2);
        check("between", 2001, 3, 2);
        check("SQS takes 900 at most", 2_000_000, 900, 900);
    }
}
