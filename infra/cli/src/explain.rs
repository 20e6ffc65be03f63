//! `lapse explain --jsonl`: what would be done after an outcome, decided by the code that decides in `deliver`.
//!
//! Owns: reading an outcome with its context, and writing a decision. Must not: decide.

use lapse_policy::classifier::{Answer, Effect, Failure, Outcome, StatusLists};
use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::decision::{Action, Attempt, Counting, Decision, Rules, decide};
use lapse_policy::destination::{MAX_TIMEOUT, TIMEOUT, retry, statuses};
use lapse_policy::retry_after::asked;
use lapse_policy::retry_policy::RetryPolicy;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::jsonl::{self, BadLine};

/// Answers one line.
pub fn answer_line(line: &str) -> Result<String, BadLine> {
    jsonl::answer(line, |row| decision_of(&row).map(|decision| told(&decision)))
}

fn decision_of(row: &Fields<'_>) -> Result<Decision, InvalidDestination> {
    let now = instant(row, "now")?;
    let destination = row.nested("destination")?;
    let part = |name| destination.map_or(Ok(None), |fields| fields.nested(name));
    let flag = |name| destination.map_or(Ok(false), |fields| fields.flag(name));
    let most = u64::try_from(MAX_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    let timeout = destination.map_or(Ok(None), |fields| fields.millis("timeout_ms", 1, most))?;
    let retry = part("retry")?.map_or_else(|| Ok(RetryPolicy::default()), |fields| retry(&fields))?;
    let statuses = part("statuses")?.map_or_else(|| Ok(StatusLists::default()), |fields| statuses(&fields))?;
    let rules = Rules {
        statuses: &statuses,
        require_decision: flag("require_decision")?,
        retry: &retry,
        timeout: timeout.unwrap_or(TIMEOUT),
    };
    let attempt = Attempt {
        attempts: count(row, "attempts")?,
        streak: count(row, "streak")?,
        unknown_before: row.flag("unknown_before")?,
        deadline: instant(row, "deadline")?,
        now,
        draw: row.number("jitter", 0.0, 1.0)?.unwrap_or(0.0),
    };
    let outcome = row.nested("outcome")?.ok_or_else(|| row.invalid("outcome", "is missing; must be an object"))?;
    Ok(decide(&outcome_of(&outcome, now)?, rules, attempt))
}

fn outcome_of(fields: &Fields<'_>, now: Timestamp) -> Result<Outcome, InvalidDestination> {
    let status = fields.whole("status", 0, u64::from(u16::MAX))?.and_then(|s| u16::try_from(s).ok());
    let error = fields.optional("error", "a string", Value::as_str)?;
    match (status, error) {
        // The head decides: a body that fails to read changes nothing (CLS-1).
        (Some(status), None | Some("body_read")) => {
            let headers = fields.list("headers", "[name, value] pairs of strings", pair)?.unwrap_or_default();
            let asked = asked(headers.iter().map(|(name, value)| (*name, value.as_bytes())), now);
            Ok(Outcome::Answered(Answer { status, asked, location_host: None }))
        }
        (Some(_), Some(_)) => Err(fields.invalid("error", "beside a status must be body_read")),
        (None, Some(error)) => failure(error).map(Outcome::Failed).ok_or_else(|| {
            let known = "dns, refused, reset, tls, connect_timeout, timeout, blocked or invalid_url";
            fields.invalid("error", &format!("must be {known}, or body_read beside a status"))
        }),
        (None, None) => Err(fields.invalid("status", "is missing, and so is error; one of them must be given")),
    }
}

fn pair(value: &Value) -> Option<(&str, &str)> {
    match value.as_array()?.as_slice() {
        [name, value] => Some((name.as_str()?, value.as_str()?)),
        _ => None,
    }
}

fn failure(name: &str) -> Option<Failure> {
    Some(match name {
        "dns" => Failure::Dns,
        "refused" => Failure::Refused,
        "reset" => Failure::Reset,
        "tls" => Failure::Tls,
        "connect_timeout" => Failure::ConnectTimeout,
        "timeout" => Failure::NoAnswer,
        "blocked" => Failure::Blocked,
        "invalid_url" => Failure::InvalidUrl,
        _ => return None,
    })
}

fn instant(row: &Fields<'_>, name: &str) -> Result<Timestamp, InvalidDestination> {
    row.required(name, "an RFC 3339 date-time such as 2026-11-30T12:00:00Z", |value| {
        Timestamp::parse(value.as_str()?).ok()
    })
}

fn count(row: &Fields<'_>, name: &str) -> Result<u32, InvalidDestination> {
    let most = u64::from(u32::MAX);
    Ok(row.whole(name, 0, most)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0))
}

/// A decision as an object: what does not apply is left out.
fn told(decision: &Decision) -> Map<String, Value> {
    let (action, retry_at, reason) = match decision.action {
        Action::Acknowledge => ("ack", None, None),
        Action::RetryAt(at) => ("retry", Some(at), None),
        Action::Dead(reason) => ("dead", None, Some(reason)),
    };
    let fields = [
        ("class", Some(json!(decision.class))),
        ("action", Some(json!(action))),
        ("retry_at", retry_at.map(|at| json!(at))),
        ("pause_until", decision.pause_until.map(|until| json!(until))),
        ("reason", reason.map(|reason| json!(reason))),
        ("advice", reason.map(|reason| json!(reason.advice()))),
        ("counted", Some(json!(decision.counting == Counting::Counted))),
        ("outcome_unknown", Some(json!(decision.effect == Effect::Unknown))),
        ("rule", Some(json!(decision.rule))),
        ("chosen_by", Some(json!(decision.chosen_by))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
