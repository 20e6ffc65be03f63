//! LIM-4, LED-10, ACK-7: by which means a message waits.
//!
//! Owns: the choice between waiting here, defer, republish and park. Must not: carry it out.

use std::time::Duration;

use crate::booking::INLINE;
use crate::timestamp::{Micros, Timestamp, millis};

/// The longest wait by `ChangeMessageVisibility`: a deferred message is in flight all that time.
pub const DEFER_MOST: Duration = Duration::from_secs(30);
/// The longest wait by `DelaySeconds` (SQS quota: 15 min).
pub const REPUBLISH_MOST: Duration = Duration::from_mins(15);
/// A parked row is due this much before its time: emission has a delay of its own (LIM-4).
pub const PARK_EARLY: Duration = Duration::from_secs(1);
/// Receives at which a message is republished rather than deferred (ACK-7).
pub const FRESHEN_AT: u32 = 100;

/// How a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// In this invocation.
    Here(Timestamp),
    /// Hidden for so many seconds.
    Defer(i32),
    /// Sent again with a delay of so many seconds.
    Republish(i32),
    /// Stored in the schedule until then.
    Park(Timestamp),
}

/// When a message with a planned place wakes: at the place, or just before it where it must be parked.
#[must_use]
pub fn wake_for(place: Micros, now: Timestamp) -> Timestamp {
    let place = place.timestamp();
    if place.since(now) > REPUBLISH_MOST { place.minus(PARK_EARLY) } else { place }
}

/// How to wait until `next_at`: to its floor second, so that the rest is waited for with the gate at hand.
#[must_use]
pub fn wait(next_at: Timestamp, now: Timestamp, receives: u32) -> Wait {
    let left = next_at.since(now);
    let seconds = i32::try_from(millis(left) / 1000).unwrap_or(i32::MAX);
    if left <= INLINE {
        Wait::Here(next_at)
    } else if left <= DEFER_MOST && receives < FRESHEN_AT {
        Wait::Defer(seconds)
    } else if left <= REPUBLISH_MOST {
        Wait::Republish(seconds)
    } else {
        Wait::Park(next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);

    fn at(ms: u64) -> Timestamp {
        NOW.plus(Duration::from_millis(ms))
    }

    #[track_caller]
    fn check(label: &str, ms: u64, receives: u32, expected: Wait) {
        assert_eq!(wait(at(ms), NOW, receives), expected, "{label}");
    }

    #[test]
    fn lim_4_the_means_follows_the_length() {
        check("past", 0, 1, Wait::Here(NOW));
        check("1.0 s", 1000, 1, Wait::Here(at(1000)));
        check("just over", 1001, 1, Wait::Defer(1));
        check("floor second", 12_999, 1, Wait::Defer(12));
        check("30 s", 30_000, 1, Wait::Defer(30));
        check("just over 30 s", 30_001, 1, Wait::Republish(30));
        check("15 min", 900_000, 1, Wait::Republish(900));
        check("just over 15 min", 900_001, 1, Wait::Park(at(900_001)));
        check("7 days", 604_800_000, 1, Wait::Park(at(604_800_000)));
    }

    #[test]
    fn ack_7_at_100_receives_it_is_republished() {
        check("99", 5000, 99, Wait::Defer(5));
        check("100", 5000, 100, Wait::Republish(5));
        check("1.0 s is waited for here all the same", 1000, 100, Wait::Here(at(1000)));
    }

    #[test]
    fn led_10_a_parked_row_is_due_before_its_place() {
        let place = |ms| at(ms).micros();
        assert_eq!(wake_for(place(900_000), NOW), at(900_000));
        assert_eq!(wake_for(place(1_000_000), NOW), at(999_000));
    }
}
