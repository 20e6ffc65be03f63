//! The event: the payload that Lapse delivers when a hold has ended.
//!
//! Owns: reading a body into an [`Event`] or a [`Malformed`] that names the field, and RCV-5's question of time.
//! Must not: decide anything about the slot.

use std::time::Duration;

use lapse_policy::members::Members;
use lapse_policy::message::Malformed;
use lapse_policy::names::EventId;
use lapse_policy::timestamp::Timestamp;
use serde::de::DeserializeOwned;

/// The longest reservation id.
const LONGEST_RESERVATION: usize = 128;
/// The longest name of a resource.
const LONGEST_RESOURCE: usize = 256;

/// A hold on a slot has ended, at this version of the reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `reservation_id:event_version`, as it came in `webhook-id`.
    pub id: EventId,
    /// Whose hold it was.
    pub reservation: String,
    /// The reservation's version that held the slot.
    pub version: u64,
    /// The slot's resource.
    pub resource: String,
    /// When the hold ends.
    pub hold_expires_at: Timestamp,
}

impl Event {
    /// Reads a body whose `webhook-id` was `id`.
    pub fn parse(id: EventId, body: &[u8]) -> Result<Self, Malformed> {
        let body = std::str::from_utf8(body).map_err(|_| malformed("body", "must be UTF-8"))?;
        let members = Members::parse(body).map_err(|e| malformed("body", format!("must be one JSON object: {e}")))?;
        let event = Self {
            id,
            reservation: required(&members, "reservation_id", "a string")?,
            version: required(&members, "event_version", "a whole number from 0 to 2^64-1")?,
            resource: required(&members, "resource", "a string")?,
            hold_expires_at: required(&members, "hold_expires_at", "an RFC 3339 date-time")?,
        };
        if !named(&event.reservation) {
            return Err(malformed("reservation_id", "must be 1 to 128 characters of [A-Za-z0-9_-]"));
        }
        if !(1..=LONGEST_RESOURCE).contains(&event.resource.len()) {
            return Err(malformed("resource", "must be 1 to 256 bytes"));
        }
        // The id is what makes a repeat a repeat, and it is not the body that was signed for it alone.
        if event.id.as_str() != format!("{}:{}", event.reservation, event.version) {
            return Err(malformed("webhook-id", "must be reservation_id:event_version of the body"));
        }
        Ok(event)
    }

    /// How long the hold still lasts by this clock, if it does (RCV-5).
    #[must_use]
    pub fn early_by(&self, now: Timestamp) -> Option<Duration> {
        (now < self.hold_expires_at).then(|| self.hold_expires_at.since(now))
    }
}

fn named(reservation: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=LONGEST_RESERVATION).contains(&reservation.len()) && reservation.bytes().all(allowed)
}

/// A field and what is wrong with it.
pub(crate) fn malformed(field: &'static str, problem: impl Into<String>) -> Malformed {
    Malformed { field, problem: problem.into() }
}

fn required<T: DeserializeOwned>(members: &Members<'_>, name: &'static str, accepted: &str) -> Result<T, Malformed> {
    let raw = members
        .get(name)
        .map_err(|_| malformed(name, "is given more than once"))?
        .ok_or_else(|| malformed(name, format!("is missing; must be {accepted}")))?;
    serde_json::from_str(raw.get()).map_err(|_| malformed(name, format!("must be {accepted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"reservation_id":"res_8472","event_version":3,"resource":"studio-7",
        "hold_expires_at":"2026-11-30T12:00:00Z","note":null}"#;

    fn parse(id: &str, body: &str) -> Result<Event, Malformed> {
        Event::parse(EventId::parse(id).expect("an event id"), body.as_bytes())
    }

    #[track_caller]
    fn check(label: &str, from: &str, to: &str, field: &str) {
        assert!(BODY.contains(from), "{label}: {from}");
        let error = parse("res_8472:3", &BODY.replace(from, to)).expect_err(label);
        assert_eq!(error.field, field, "{label}: {error}");
    }

    #[test]
    fn an_event_is_read_and_unknown_members_are_ignored() {
        let event = parse("res_8472:3", BODY).expect("valid");
        assert_eq!((event.reservation.as_str(), event.version), ("res_8472", 3));
        assert_eq!(event.resource, "studio-7");
        assert_eq!(event.hold_expires_at.to_string(), "2026-11-30T12:00:00.000Z");
        let last = BODY.replace('3', "18446744073709551615").replace("-18446744073709551615", "-3");
        assert_eq!(parse("res_8472:18446744073709551615", &last).expect("the last version").version, u64::MAX);
    }

    #[test]
    fn rcv_1_a_malformed_event_names_its_field() {
        check("no object", BODY, "[1]", "body");
        check("text after it", "null}", "null} more", "body");
        check("no reservation", r#""reservation_id":"res_8472","#, "", "reservation_id");
        check("a dot", "res_8472", "res.8472", "reservation_id");
        check("our own key", "res_8472", "event#res_8472", "reservation_id");
        check("empty", "res_8472", "", "reservation_id");
        check("129 characters", "res_8472", &"r".repeat(129), "reservation_id");
        check("version as text", ":3", r#":"3""#, "event_version");
        check("negative version", ":3", ":-3", "event_version");
        check("fraction", ":3", ":3.0", "event_version");
        check("beyond u64", ":3", ":18446744073709551616", "event_version");
        check("version twice", ":3", r#":3,"event_version":3"#, "event_version");
        check("no resource", "studio-7", "", "resource");
        check("resource is null", r#""studio-7""#, "null", "resource");
        check("a resource too long", "studio-7", &"s".repeat(257), "resource");
        check("no instant", "2026-11-30T12:00:00Z", "noon", "hold_expires_at");
    }

    #[test]
    fn rcv_2_the_id_is_that_of_the_body() {
        check("other version", ":3", ":4", "webhook-id");
        check("other reservation", "res_8472", "res_8473", "webhook-id");
        let padded = parse("res_8472:03", BODY).expect_err("one event has one id");
        assert_eq!(padded.field, "webhook-id");
        let bytes = Event::parse(EventId::parse("a:1").expect("valid"), b"\xff{}").expect_err("no text");
        assert_eq!(bytes.field, "body");
    }

    #[test]
    fn rcv_5_an_event_is_early_until_the_hold_has_ended() {
        let event = parse("res_8472:3", BODY).expect("valid");
        let ends = event.hold_expires_at;
        let ms = Duration::from_millis(1);
        assert_eq!(event.early_by(ends.minus(ms)), Some(ms));
        assert_eq!(event.early_by(ends), None);
        assert_eq!(event.early_by(ends.plus(ms)), None);
    }
}
