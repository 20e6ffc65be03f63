//! What a decision is made from: an outcome, the destination's policy, and what the record of the delivery says.
//!
//! Owns: [`Context`], the one value that both forms of `lapse explain` build, and its form as a vector.
//! Must not: decide.

use clap::ValueEnum;
use lapse_policy::classifier::{Answer, Failure, Outcome};
use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::decision::{Attempt, Decision, decide};
use lapse_policy::retry_after::asked;
use lapse_policy::timestamp::Timestamp;
use serde_json::Value;

use super::policy::Policy;

/// Why there was no answer, by the names of the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ErrorName {
    /// The name did not resolve.
    Dns,
    /// The connection was refused.
    Refused,
    /// The connection broke before the request was written.
    Reset,
    /// The TLS handshake failed.
    Tls,
    /// There was no connection in time.
    ConnectTimeout,
    /// The request was sent, and no answer came.
    Timeout,
    /// The address may not be called.
    Blocked,
    /// The URL may not be called.
    InvalidUrl,
}

impl From<ErrorName> for Outcome {
    fn from(name: ErrorName) -> Self {
        Self::Failed(match name {
            ErrorName::Dns => Failure::Dns,
            ErrorName::Refused => Failure::Refused,
            ErrorName::Reset => Failure::Reset,
            ErrorName::Tls => Failure::Tls,
            ErrorName::ConnectTimeout => Failure::ConnectTimeout,
            ErrorName::Timeout => Failure::NoAnswer,
            ErrorName::Blocked => Failure::Blocked,
            ErrorName::InvalidUrl => Failure::InvalidUrl,
        })
    }
}

/// All that a decision depends on.
#[derive(Debug, Clone)]
pub struct Context {
    /// How the attempt ended.
    pub outcome: Outcome,
    /// The destination's part.
    pub policy: Policy,
    /// The delivery's part.
    pub attempt: Attempt,
}

impl Context {
    /// Reads a vector.
    pub fn of(row: &Fields<'_>) -> Result<Self, InvalidDestination> {
        let now = instant(row, "now")?;
        let policy = row.nested("destination")?.map_or_else(|| Ok(Policy::default()), |f| Policy::of(&f, "retry"))?;
        let attempt = Attempt {
            attempts: count(row, "attempts")?,
            streak: count(row, "streak")?,
            unknown_before: row.flag("unknown_before")?,
            deadline: instant(row, "deadline")?,
            now,
            draw: row.number("jitter", 0.0, 1.0)?.unwrap_or(0.0),
        };
        let outcome = row.nested("outcome")?.ok_or_else(|| row.invalid("outcome", "is missing; must be an object"))?;
        Ok(Self { outcome: outcome_of(&outcome, now)?, policy, attempt })
    }

    /// What `deliver` would decide.
    #[must_use]
    pub fn decide(&self) -> Decision {
        decide(&self.outcome, self.policy.rules(), self.attempt)
    }
}

/// An answer with these headers, received at `now`.
pub fn answered<'a>(status: u16, headers: impl Iterator<Item = (&'a str, &'a str)> + Clone, now: Timestamp) -> Outcome {
    let asked = asked(headers.map(|(name, value)| (name, value.as_bytes())), now);
    Outcome::Answered(Answer { status, asked, location_host: None })
}

fn outcome_of(fields: &Fields<'_>, now: Timestamp) -> Result<Outcome, InvalidDestination> {
    let status = fields.whole("status", 0, u64::from(u16::MAX))?.and_then(|s| u16::try_from(s).ok());
    let error = fields.optional("error", "a string", Value::as_str)?;
    match (status, error) {
        // The head decides: a body that fails to read changes nothing (CLS-1).
        (Some(status), None | Some("body_read")) => {
            let headers = fields.list("headers", "[name, value] pairs of strings", pair)?.unwrap_or_default();
            Ok(answered(status, headers.into_iter(), now))
        }
        (Some(_), Some(_)) => Err(fields.invalid("error", "beside a status must be body_read")),
        (None, Some(name)) => ErrorName::from_str(name, false).map(Outcome::from).map_err(|_| {
            let known = ErrorName::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
            fields.invalid("error", &format!("must be one of {}, or body_read beside a status", known.join(", ")))
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

fn instant(row: &Fields<'_>, name: &str) -> Result<Timestamp, InvalidDestination> {
    row.required(name, "an RFC 3339 date-time such as 2026-11-30T12:00:00Z", |value| {
        Timestamp::parse(value.as_str()?).ok()
    })
}

fn count(row: &Fields<'_>, name: &str) -> Result<u32, InvalidDestination> {
    let most = u64::from(u32::MAX);
    Ok(row.whole(name, 0, most)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(0))
}
