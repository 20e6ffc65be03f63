//! The message, schema version 1: what is in every body on `deliveries`, in `schedule`, and in a letter.
//!
//! Owns: reading a body into a [`Message`] or a [`Malformed`] that names the field; the `dead` mark (DLQ-1, DLQ-4).
//! Must not: change a byte of the payload; know about queues.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::members::{Members, quoted};
use crate::names::{DeliveryKey, DestinationName, EventId};
use crate::timestamp::Timestamp;

/// The longest message in bytes: 256 KiB. Queues take 1 MiB, so that a letter fits.
pub const MAX_MESSAGE_BYTES: usize = 262_144;
/// The longest body that SQS takes (`MaximumMessageSize` of all three queues).
pub const MAX_SQS_BYTES: usize = 1_048_576;

/// One event for one destination, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The delivery: destination and event id.
    pub key: DeliveryKey,
    /// The event's type, such as `reservation.expired`.
    pub kind: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The instant after which an attempt must not start, where the producer set one.
    pub deadline: Option<Timestamp>,
    /// The payload's own bytes.
    pub payload: Arc<str>,
    /// The mark that a letter carries, in a message that came back.
    pub mark: Option<Mark>,
    /// The whole body as it was received, for sending it on.
    pub body: Arc<str>,
}

/// The member `dead` of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The epoch in which the delivery died; absent for a malformed body, which has no record.
    pub epoch: Option<u32>,
    /// When it died: a letter sent much later was redriven (DLQ-2).
    pub at: Timestamp,
}

/// Why a body is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Malformed {
    /// The field, or `body`.
    pub field: &'static str,
    /// What is wrong with it and what is accepted.
    pub problem: String,
}

impl Malformed {
    #[expect(clippy::needless_pass_by_value, reason = "a text as well as an error")]
    fn new(field: &'static str, problem: impl ToString) -> Self {
        Self { field, problem: problem.to_string() }
    }
}

impl Message {
    /// Reads a body; a wrapped one that came back from `dead-letters` is unwrapped first (DLQ-4).
    pub fn parse(body: &str) -> Result<Self, Malformed> {
        match unwrapped(body) {
            Some(inner) => Self::parse_plain(&inner),
            None => Self::parse_plain(body),
        }
    }

    fn parse_plain(body: &str) -> Result<Self, Malformed> {
        if body.len() > MAX_MESSAGE_BYTES && !fits_without_mark(body) {
            let problem = format!("is {} bytes; at most {MAX_MESSAGE_BYTES} are accepted", body.len());
            return Err(Malformed::new("body", problem));
        }
        let members =
            Members::parse(body).map_err(|e| Malformed::new("body", format!("must be one JSON object: {e}")))?;
        let version: u64 = required(&members, "v", "the number 1")?;
        if version != 1 {
            return Err(Malformed::new("v", format!("is {version}; only 1 is understood")));
        }
        let id: String = required(&members, "id", "a string")?;
        let destination: String = required(&members, "destination", "a string")?;
        let kind: String = required(&members, "type", "a string")?;
        if kind.is_empty() {
            return Err(Malformed::new("type", "must not be empty"));
        }
        Ok(Self {
            key: DeliveryKey {
                destination: DestinationName::parse(&destination).map_err(|e| Malformed::new("destination", e))?,
                id: EventId::parse(&id).map_err(|e| Malformed::new("id", e))?,
            },
            kind,
            occurred_at: required(&members, "occurred_at", INSTANT)?,
            deadline: optional(&members, "deadline", INSTANT)?,
            payload: value(&members, "payload")?
                .ok_or_else(|| Malformed::new("payload", "is missing; any JSON value is accepted"))?
                .get()
                .into(),
            mark: mark(&members)?,
            body: body.into(),
        })
    }

    /// The deadline that holds: the event's own, else `occurred_at` and the destination's `max_age`.
    #[must_use]
    pub fn deadline(&self, max_age: Duration) -> Timestamp {
        self.deadline.unwrap_or_else(|| self.occurred_at.plus(max_age))
    }

    /// The letter of this delivery: the same message with the mark of its epoch (DLQ-1).
    #[must_use]
    pub fn letter(&self, epoch: u32, now: Timestamp) -> String {
        let dead = format!(r#"{{"epoch":{epoch},"at":"{now}"}}"#);
        marked(&self.body, &dead)
    }
}

const INSTANT: &str = "an RFC 3339 date-time such as 2026-11-30T12:00:00Z";

/// The letter of a body that is no message: an object keeps its members, all else is wrapped (DLQ-4).
/// `None` where the body leaves no room for a mark in SQS: it then goes on as it is.
#[must_use]
pub fn malformed_letter(body: &str, error: &Malformed, now: Timestamp) -> Option<String> {
    let body = unwrapped(body).map_or(std::borrow::Cow::Borrowed(body), Into::into);
    let error = quoted(&error.to_string());
    let dead = format!(r#"{{"at":"{now}","reason":"malformed_message","error":{error}}}"#);
    let letter = marked(&body, &dead);
    (letter.len() <= MAX_SQS_BYTES).then_some(letter)
}

fn marked(body: &str, dead: &str) -> String {
    Members::parse(body).map_or_else(
        |_| format!(r#"{{"malformed":{},"dead":{dead}}}"#, quoted(body)),
        |members| members.with("dead", dead),
    )
}

fn unwrapped(body: &str) -> Option<String> {
    let members = Members::parse(body).ok()?;
    if !members.only(&["malformed", "dead"]) {
        return None;
    }
    serde_json::from_str(members.get("malformed").ok()??.get()).ok()
}

/// A mark may take a message over the limit that holds for producers.
fn fits_without_mark(body: &str) -> bool {
    Members::parse(body).is_ok_and(|members| match members.get("dead") {
        Ok(Some(dead)) => body.len() - dead.get().len() <= MAX_MESSAGE_BYTES + r#","dead":"#.len(),
        Ok(None) | Err(_) => false,
    })
}

/// What `triage` must know of a letter before it reads anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letter {
    /// It carries the mark of its death; the delivery is absent for a malformed body.
    Marked {
        /// The mark.
        mark: Mark,
        /// The delivery, where the body is a message.
        key: Option<DeliveryKey>,
    },
    /// A message that SQS itself moved: no mark.
    Unmarked(DeliveryKey),
    /// Neither.
    Unreadable,
}

impl Letter {
    /// Reads the body of a message on `failures`.
    #[must_use]
    pub fn parse(body: &str) -> Self {
        let mark_of = |body: &str| Members::parse(body).ok().and_then(|m| mark(&m).ok().flatten());
        match (Message::parse(body), mark_of(body)) {
            (Ok(message), Some(mark)) => Self::Marked { mark, key: Some(message.key) },
            (Ok(message), None) => Self::Unmarked(message.key),
            (Err(_), Some(mark)) => Self::Marked { mark, key: None },
            (Err(_), None) => Self::Unreadable,
        }
    }
}

fn mark(members: &Members<'_>) -> Result<Option<Mark>, Malformed> {
    let Some(dead) = value(members, "dead")? else { return Ok(None) };
    let bad = |e: serde_json::Error| Malformed::new("dead", format!("is not a mark of ours: {e}"));
    let dead = Members::parse(dead.get()).map_err(bad)?;
    Ok(Some(Mark { epoch: optional(&dead, "epoch", "a number")?, at: required(&dead, "at", INSTANT)? }))
}

fn value<'a>(members: &Members<'a>, name: &'static str) -> Result<Option<&'a RawValue>, Malformed> {
    members.get(name).map_err(|_| Malformed::new(name, "is given more than once"))
}

fn optional<T: serde::de::DeserializeOwned>(
    members: &Members<'_>,
    name: &'static str,
    accepted: &str,
) -> Result<Option<T>, Malformed> {
    let Some(raw) = value(members, name)? else { return Ok(None) };
    if raw.get() == "null" {
        return Ok(None);
    }
    serde_json::from_str(raw.get()).map(Some).map_err(|_| Malformed::new(name, format!("must be {accepted}")))
}

fn required<T: serde::de::DeserializeOwned>(
    members: &Members<'_>,
    name: &'static str,
    accepted: &str,
) -> Result<T, Malformed> {
    optional(members, name, accepted)?.ok_or_else(|| Malformed::new(name, format!("is missing; must be {accepted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"v":1, "id":"res_1:3", "destination":"catalog", "type":"reservation.expired",
        "occurred_at":"2026-11-30T12:00:00Z", "deadline":"2026-11-30T12:30:00Z", "payload":{ "n" : 1.0e2 } }"#;

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-30T12:40:00Z").expect("valid")
    }

    fn replaced(from: &str, to: &str) -> String {
        assert!(BODY.contains(from), "{from}");
        BODY.replace(from, to)
    }

    #[track_caller]
    fn check_malformed(label: &str, body: &str, field: &str) {
        let error = Message::parse(body).expect_err(label);
        assert_eq!(error.field, field, "{label}: {error}");
    }

    #[test]
    fn a_message_is_read_and_its_payload_keeps_its_bytes() {
        let message = Message::parse(BODY).expect("valid");
        assert_eq!(message.key.to_string(), "catalog#res_1:3");
        assert_eq!(&*message.payload, r#"{ "n" : 1.0e2 }"#);
        assert_eq!(message.deadline(Duration::ZERO).to_string(), "2026-11-30T12:30:00.000Z");
        assert_eq!(message.mark, None);
        let open = Message::parse(&replaced(r#""deadline":"2026-11-30T12:30:00Z","#, "")).expect("valid");
        assert_eq!(open.deadline(Duration::from_mins(1)).to_string(), "2026-11-30T12:01:00.000Z");
        let null = Message::parse(&replaced(r#""deadline":"2026-11-30T12:30:00Z""#, r#""deadline":null"#));
        assert_eq!(null.expect("valid").deadline, None, "null is absent");
        assert!(Message::parse(&replaced(r#""v":1"#, r#""v":1,"extra":[1]"#)).is_ok(), "unknown fields");
    }

    #[test]
    fn bad_input_names_its_field() {
        check_malformed("not JSON", "hello", "body");
        check_malformed("no object", "[1]", "body");
        check_malformed("version 2", &replaced(r#""v":1"#, r#""v":2"#), "v");
        check_malformed("version as text", &replaced(r#""v":1"#, r#""v":"1""#), "v");
        check_malformed("no version", &replaced(r#""v":1,"#, ""), "v");
        check_malformed("bad id", &replaced("res_1:3", "res.1"), "id");
        check_malformed("id as number", &replaced(r#""res_1:3""#, "7"), "id");
        check_malformed("bad destination", &replaced("catalog", "cat#log"), "destination");
        check_malformed("empty type", &replaced("reservation.expired", ""), "type");
        check_malformed("bad instant", &replaced("2026-11-30T12:00:00Z", "noon"), "occurred_at");
        check_malformed("bad deadline", &replaced("2026-11-30T12:30:00Z", "later"), "deadline");
        check_malformed(
            "no payload",
            r#"{"v":1,"id":"a:1","destination":"c","type":"t","occurred_at":"2026-11-30T12:00:00Z"}"#,
            "payload",
        );
        check_malformed("twice", &replaced(r#""v":1"#, r#""v":1,"v":1"#), "v");
        let large = replaced("1.0e2", &format!("\"{}\"", "x".repeat(MAX_MESSAGE_BYTES)));
        check_malformed("too large", &large, "body");
    }

    #[test]
    fn the_limit_of_size_is_exact_and_a_mark_does_not_count() {
        let room = MAX_MESSAGE_BYTES - replaced("1.0e2", "\"\"").len();
        let fits = replaced("1.0e2", &format!("\"{}\"", "x".repeat(room)));
        assert_eq!(fits.len(), MAX_MESSAGE_BYTES);
        let message = Message::parse(&fits).expect("exactly at the limit");
        let letter = message.letter(1, now());
        assert!(Message::parse(&letter).is_ok(), "its letter can come back");
        check_malformed("a mark makes room for itself alone", &letter.replacen('x', &"x".repeat(100), 1), "body");
        check_malformed("one more", &replaced("1.0e2", &format!("\"{}\"", "x".repeat(room + 1))), "body");
    }

    #[test]
    fn dlq_1_a_letter_is_the_message_with_a_mark_and_replaces_an_older_one() {
        let message = Message::parse(BODY).expect("valid");
        let letter = Message::parse(&message.letter(1, now())).expect("a message still");
        assert_eq!(letter.mark, Some(Mark { epoch: Some(1), at: now() }));
        assert_eq!(letter.payload, message.payload);
        let second = letter.letter(2, now());
        assert_eq!(second.matches("\"dead\"").count(), 1);
        assert_eq!(Message::parse(&second).expect("still").mark.and_then(|m| m.epoch), Some(2));
    }

    #[test]
    fn dlq_4_a_malformed_body_keeps_what_it_was() {
        let error = Message::parse("hello").expect_err("no message");
        let letter = malformed_letter("hello", &error, now()).expect("fits");
        assert_eq!(Letter::parse(&letter), Letter::Marked { mark: Mark { epoch: None, at: now() }, key: None });
        let again = Message::parse(&letter).expect_err("unwrapped and parsed again");
        assert_eq!(again, error);
        assert_eq!(malformed_letter(&letter, &again, now()), Some(letter), "wrapped once, not twice");
        let own = format!(r#"{{"malformed":{},"more":1}}"#, quoted(BODY));
        check_malformed("a producer's own member of that name", &own, "v");

        let newer = replaced(r#""v":1"#, r#""v":2"#);
        let error = Message::parse(&newer).expect_err("version 2");
        let letter = malformed_letter(&newer, &error, now()).expect("fits");
        assert!(letter.contains(r#""payload":{ "n" : 1.0e2 }"#), "an object keeps its members");
        let understood = letter.replace(r#""v":2"#, r#""v":1"#);
        assert!(Message::parse(&understood).is_ok(), "a newer version may understand it");
    }

    #[test]
    fn dlq_4_a_body_without_room_for_a_mark_gets_none() {
        let body = "x".repeat(MAX_SQS_BYTES);
        let error = Message::parse(&body).expect_err("no message");
        assert_eq!(malformed_letter(&body, &error, now()), None);
    }

    #[test]
    fn dlq_2_what_a_letter_is() {
        let message = Message::parse(BODY).expect("valid");
        let mark = Mark { epoch: Some(4), at: now() };
        let key = Some(message.key.clone());
        assert_eq!(Letter::parse(&message.letter(4, now())), Letter::Marked { mark, key });
        assert_eq!(Letter::parse(BODY), Letter::Unmarked(message.key));
        assert_eq!(Letter::parse("hello"), Letter::Unreadable);
        assert_eq!(Letter::parse(r#"{"dead":7}"#), Letter::Unreadable);
    }
}
