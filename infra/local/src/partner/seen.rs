//! What a destination saw, and what that says about its caller.
//!
//! Owns: [`Seen`] and the [`Checks`] over it. Must not: forgive: there is no tolerance in any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// One request that was read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The destination: the first segment of the path.
    pub name: String,
    /// `webhook-id`; empty if there was none.
    pub event: String,
    /// `idempotency-key`.
    pub idempotency_key: Option<String>,
    /// `webhook-attempt`, where it is a number.
    pub attempt: Option<u32>,
    /// When it was there, in epoch milliseconds, rounded down.
    pub arrived_ms: u64,
    /// When it was there, since the partner started: finer, and no one sets this clock.
    pub arrived: Duration,
    /// Requests of this destination without an answer at that time, this one included.
    pub in_flight: usize,
    /// SHA-256 of the body.
    pub body_sha256: [u8; 32],
    /// The body, if it is small enough and there was room.
    pub body: Option<Arc<[u8]>>,
    /// The instant before which this event was asked not to come again, as of its arrival (epoch ms).
    pub event_not_before_ms: Option<u64>,
    /// The instant before which any answer of this destination asked not to be called, as of its arrival (epoch ms).
    pub destination_not_before_ms: Option<u64>,
    /// What became of it.
    pub ending: Ending,
    /// The `Retry-After` that it was answered with, in seconds.
    pub retry_after: Option<u64>,
    /// The instant before which this answer asked not to be called: when it was given, and `retry_after` more (epoch ms).
    pub not_before_ms: Option<u64>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is still worked on.
    Open,
    /// It was answered with this status.
    Answered(u16),
    /// It was answered with this status by the server behind, and the answer was lost.
    Lost(u16),
    /// Its connection was reset.
    Reset,
    /// The client went first.
    Left,
}

impl Seen {
    /// The status that the caller got.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self.ending {
            Ending::Answered(status) => Some(status),
            Ending::Open | Ending::Lost(_) | Ending::Reset | Ending::Left => None,
        }
    }

    /// Whether it came before it was asked to.
    #[must_use]
    pub fn early(&self) -> bool {
        self.event_not_before_ms.is_some_and(|asked| self.arrived_ms < asked)
    }
}

/// What the requests of one destination say about its caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checks {
    /// Requests.
    pub requests: usize,
    /// Different events.
    pub events: usize,
    /// Requests by the status that the caller got.
    pub statuses: BTreeMap<u16, usize>,
    /// The most requests that arrived within any one second.
    pub most_in_a_second: usize,
    /// The most that were without an answer at once. A client that leaves is noticed a little late.
    pub most_in_flight: usize,
    /// Requests that came before their event was asked to. The caller may round the time of an answer down to the
    /// millisecond, as this does: it got the answer later than it was given, so none of its requests is unjustly here.
    pub early: Vec<Seen>,
    /// Events whose attempts differed in their body, or in an `idempotency-key` that is not the event's id.
    pub changed: BTreeSet<String>,
}

impl Checks {
    /// Of requests in the order of their arrival.
    #[must_use]
    pub fn of(seen: &[Seen]) -> Self {
        let mut checks = Self { requests: seen.len(), most_in_a_second: densest(seen), ..Self::default() };
        let mut bodies = BTreeMap::new();
        for one in seen {
            if let Some(status) = one.status() {
                *checks.statuses.entry(status).or_default() += 1;
            }
            checks.most_in_flight = checks.most_in_flight.max(one.in_flight);
            if one.early() {
                checks.early.push(one.clone());
            }
            let same_body = *bodies.entry(&one.event).or_insert(one.body_sha256) == one.body_sha256;
            let same_key = one.idempotency_key.as_ref().is_none_or(|key| *key == one.event);
            if !(same_body && same_key) {
                checks.changed.insert(one.event.clone());
            }
        }
        checks.events = bodies.len();
        checks
    }
}

/// The most arrivals in any `[t, t + 1 s)`.
fn densest(seen: &[Seen]) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (last, one) in seen.iter().enumerate() {
        while one.arrived.saturating_sub(seen[first].arrived) >= Duration::from_secs(1) {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(event: &str, ms: u64) -> Seen {
        Seen {
            name: "catalog".to_owned(),
            event: event.to_owned(),
            idempotency_key: Some(event.to_owned()),
            attempt: Some(1),
            arrived_ms: ms,
            arrived: Duration::from_millis(ms),
            in_flight: 1,
            body_sha256: [0; 32],
            body: None,
            event_not_before_ms: None,
            destination_not_before_ms: None,
            ending: Ending::Answered(200),
            retry_after: None,
            not_before_ms: None,
        }
    }

    #[track_caller]
    fn check_densest(label: &str, arrivals_ms: &[u64], expected: usize) {
        let seen: Vec<_> = arrivals_ms.iter().map(|ms| seen("a:1", *ms)).collect();
        assert_eq!(Checks::of(&seen).most_in_a_second, expected, "{label}");
    }

    #[test]
    fn the_densest_second_begins_anywhere() {
        check_densest("none", &[], 0);
        check_densest("one", &[5], 1);
        check_densest("999 ms apart", &[0, 999], 2);
        check_densest("1000 ms apart", &[0, 1000], 1);
        check_densest("across a full second", &[0, 900, 950, 1050, 1100, 2500], 4);
        check_densest("at once", &[7, 7, 7], 3);
    }

    #[test]
    fn i7_one_millisecond_early_is_early() {
        let asked = |ms| Seen { event_not_before_ms: Some(2000), ..seen("a:1", ms) };
        let checks = Checks::of(&[asked(1999), asked(2000), seen("a:1", 0)]);
        assert_eq!(checks.early, [asked(1999)]);
    }

    #[test]
    fn i2_an_event_keeps_its_bytes_and_its_key() {
        let other_body = Seen { body_sha256: [1; 32], ..seen("a:1", 1) };
        let other_key = Seen { idempotency_key: Some("x".to_owned()), ..seen("b:1", 1) };
        let no_key = Seen { idempotency_key: None, ..seen("c:1", 1) };
        let checks = Checks::of(&[seen("a:1", 0), other_body, seen("b:1", 0), other_key, seen("c:1", 0), no_key]);
        assert_eq!(checks.changed, ["a:1", "b:1"].map(str::to_owned).into());
        assert_eq!((checks.requests, checks.events), (6, 3));
    }

    #[test]
    fn statuses_are_those_that_the_caller_got() {
        let ended = |ending| Seen { ending, in_flight: 2, ..seen("a:1", 0) };
        let checks = Checks::of(&[
            ended(Ending::Answered(200)),
            ended(Ending::Answered(429)),
            ended(Ending::Lost(200)),
            ended(Ending::Reset),
            ended(Ending::Left),
            ended(Ending::Open),
        ]);
        assert_eq!(checks.statuses, [(200, 1), (429, 1)].into());
        assert_eq!(checks.most_in_flight, 2);
    }
}
