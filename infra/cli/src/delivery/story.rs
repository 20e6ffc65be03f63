//! What a delivery's record says, in words.
//!
//! Owns: the lines and the object of `lapse delivery show`. Must not: read tables or a clock, nor decide what a record
//! means for a message; the policy's `standing` does.

use lapse_policy::ledger::{Record, Standing, State, standing};
use lapse_policy::names::DeliveryKey;
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use super::{Around, Parked};
use crate::columns::aligned;
use crate::span;

/// An instant, and how far it is from now: `2026-11-30T12:00:00Z (in 3 min 20 s)`.
fn when(at: Timestamp, now: Timestamp) -> String {
    let far = if at > now {
        format!("in {}", span::rough(at.since(now)))
    } else {
        format!("{} ago", span::rough(now.since(at)))
    };
    format!("{at} ({far})")
}

/// What happens next.
#[must_use]
pub fn next(record: &Record, now: Timestamp) -> String {
    match standing(Some(record), None, now) {
        Standing::Absent => "nothing is known yet".to_owned(),
        Standing::Due => "its time has come: it is tried when its message is received".to_owned(),
        Standing::NotYet(at) => format!("it is tried again at {}", when(at, now)),
        Standing::Busy(lease) => format!("a worker is sending it, until {} at most", when(lease, now)),
        Standing::Crashed => "its worker's lease is over: the next receive counts a crash and tries again".to_owned(),
        Standing::Delivered => "nothing: the receiver has decided".to_owned(),
        Standing::LetterMissing => {
            "its letter is not seen by triage yet; after that, nothing until a redrive".to_owned()
        }
        Standing::LetterThere | Standing::Redriven => "nothing until a redrive".to_owned(),
    }
}

/// The record for a person.
#[must_use]
pub fn lines(key: &DeliveryKey, record: &Record, around: &Around, now: Timestamp) -> Vec<String> {
    let most = around.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
    let mut facts = vec![
        ("delivery", key.to_string()),
        ("state", record.state.name().to_owned()),
        ("epoch", record.epoch.to_string()),
        ("attempts", format!("{}{most}", record.attempts)),
        ("throttles", record.throttles.to_string()),
        ("crashes", record.crashes.to_string()),
        ("first", when(record.first_at, now)),
        ("last", when(record.last_at, now)),
    ];
    facts.extend(record.last_status.map(|status| ("last status", status.to_string())));
    facts.extend(record.last_error.clone().map(|error| ("last error", error)));
    facts.extend(record.redrive_until.map(|until| ("redrive until", when(until, now))));
    if record.unknown_outcome {
        facts.push(("outcome", "unknown: it may have arrived; the key is kept".to_owned()));
    }
    facts.extend(record.reason.map(|reason| ("reason", reason.to_string())));
    facts.push(("next", next(record, now)));
    if let Some(until) = around.paused_until {
        let until = if until >= Timestamp::FAR_FUTURE { "it is resumed".to_owned() } else { when(until, now) };
        facts.push(("but", format!("the destination is paused until {until}")));
    }
    let rows: Vec<_> = facts.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    let mut lines = aligned(&rows, 2);
    if let (State::Dead, Some(reason)) = (record.state, record.reason) {
        lines.extend([String::new(), reason.advice().to_owned(), format!("RUNBOOK.md has a section `{reason}`.")]);
    }
    lines
}

/// The record and what follows from it. The token is left out: it belongs to the worker.
#[must_use]
pub fn object(key: &DeliveryKey, record: &Record, around: &Around, now: Timestamp) -> Value {
    json!({
        "delivery": key.to_string(), "found": "record", "state": record.state.name(), "version": record.version,
        "epoch": record.epoch, "attempts": record.attempts, "throttles": record.throttles, "crashes": record.crashes,
        "first_at": record.first_at, "last_at": record.last_at, "lease": record.lease, "next_at": record.next_at,
        "planned_at": record.planned_at.map(|planned| planned.0), "unknown_outcome": record.unknown_outcome,
        "reason": record.reason, "advice": record.reason.map(Reason::advice),
        "last_status": record.last_status, "last_error": record.last_error, "redrive_until": record.redrive_until,
        "triaged_epoch": record.triaged_epoch, "next": next(record, now),
        "max_attempts": around.max_attempts, "paused_until": around.paused_until,
    })
}

/// A delivery without a record, for a person.
#[must_use]
pub fn absent(key: &DeliveryKey, parked: &Parked, now: Timestamp) -> Vec<String> {
    let rest = "It waits in the queue deliveries for its first receive, or its record has expired, or it never came.";
    match parked {
        Parked::Until(due) => vec![format!("{key} has no record; it is in the schedule, due {}", when(*due, now))],
        Parked::Aside(reason) => vec![
            format!("{key} has no record. Its row was set aside, and nothing sends it: {reason}"),
            "RUNBOOK.md, \"A row in shard -1\".".to_owned(),
        ],
        Parked::Nowhere => vec![format!("{key} has no record, and no row in the schedule."), rest.to_owned()],
        Parked::NotSeen => vec![
            format!("{key} has no record. Its shard of the schedule is long; the first pages do not have it."),
            format!("It may be due later. Or: {rest}"),
        ],
    }
}

/// A delivery without a record.
#[must_use]
pub fn absent_object(key: &DeliveryKey, parked: &Parked) -> Value {
    let (found, due) = match parked {
        Parked::Until(due) => ("schedule", Some(*due)),
        Parked::Aside(_) => ("set aside", None),
        Parked::Nowhere => ("nothing", None),
        Parked::NotSeen => ("unknown", None),
    };
    json!({ "delivery": key.to_string(), "found": found, "due": due })
}
