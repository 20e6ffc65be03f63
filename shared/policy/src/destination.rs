//! DST-1: a destination's configuration, read once into checked types.
//!
//! Owns: [`Destination`], its limits and defaults, and the error that names the field.
//! Must not: know the table it came from, nor show a secret (SEC-4).

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::classifier::StatusLists;
use crate::config_fields::{Fields, InvalidDestination};
use crate::decision::Rules;
use crate::guard::{AllowList, Refusal, Scheme, judge_url};
use crate::headers::{self, CustomHeader};
use crate::lanes::MAX_IN_FLIGHT;
use crate::names::DestinationName;
use crate::retry_policy::RetryPolicy;
use crate::secret::Secret;

/// The default time for one attempt.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for one attempt.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(20);
/// What a function needs beside an attempt: its timeout must exceed the attempt's by this (ACK-4).
pub const AROUND_ATTEMPT: Duration = Duration::from_secs(8);
/// The default age at which an event without a deadline ends.
pub const MAX_AGE: Duration = Duration::from_hours(24);
/// The longest such age: 7 days.
pub const LONGEST_MAX_AGE: Duration = Duration::from_hours(168);
/// What the network is assumed to add to the distance between requests (LIM-5).
pub const JITTER: Duration = Duration::from_millis(150);
/// Live secrets: one, two while rotating, and room for a second rotation at once.
pub const MAX_SECRETS: usize = 4;

/// How many requests in how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests ..
    pub limit: NonZeroU32,
    /// .. per this many seconds.
    pub per_seconds: NonZeroU32,
    /// Requests at once after a quiet time.
    pub burst: NonZeroU32,
}

/// A receiver's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// Its name.
    pub name: DestinationName,
    /// Where to POST: a well-formed URL. Whether its address may be called is judged when it is (CLS-9).
    pub url: String,
    /// Whether plain http will do (SEC-1); for local use.
    pub allow_http: bool,
    /// The limit; without one, nothing is booked (LIM-9).
    pub rate: Option<Rate>,
    /// What the network adds to the distance between requests (LIM-5).
    pub jitter: Duration,
    /// How many requests at once; without it, any number (LAN-1).
    pub max_in_flight: Option<NonZeroU32>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// The schedule of retries.
    pub retry: RetryPolicy,
    /// Its own reading of statuses.
    pub statuses: StatusLists,
    /// Whether a 202 is not yet a decision (CLS-2).
    pub require_decision: bool,
    /// Live secrets, newest first; each signs.
    pub secrets: Vec<Secret>,
    /// Headers of its own.
    pub headers: Vec<CustomHeader>,
    /// The age at which an event without a deadline ends; also the time a redrive gives (DLQ-3).
    pub max_age: Duration,
    /// Whether its events are refused.
    pub disabled: bool,
}

impl Destination {
    /// Reads a row of `destinations`. Unknown fields are ignored; a known one must be right.
    pub fn parse(name: &DestinationName, row: &Map<String, Value>) -> Result<Self, InvalidDestination> {
        let row = Fields::of(row, "");
        Ok(Self {
            name: name.clone(),
            url: url(&row)?,
            allow_http: row.flag("allow_http")?,
            rate: row.nested("rate")?.map(|fields| rate(&fields)).transpose()?,
            jitter: row.millis("jitter_ms", 0, 10_000)?.unwrap_or(JITTER),
            max_in_flight: row.nonzero("max_in_flight", MAX_IN_FLIGHT)?,
            timeout: row.millis("timeout_ms", 1, millis(MAX_TIMEOUT))?.unwrap_or(TIMEOUT),
            retry: row.nested("policy")?.map_or_else(|| Ok(RetryPolicy::default()), |f| retry(&f))?,
            statuses: row.nested("statuses")?.map_or_else(|| Ok(StatusLists::default()), |f| statuses(&f))?,
            require_decision: row.flag("require_decision")?,
            secrets: secrets(&row)?,
            headers: headers::parse(&row)?,
            max_age: row.whole("max_age", 1, LONGEST_MAX_AGE.as_secs())?.map_or(MAX_AGE, Duration::from_secs),
            disabled: row.flag("disabled")?,
        })
    }

    /// Refuses a timeout that this function could never fit (ACK-4).
    pub fn fits(self, function_timeout: Duration) -> Result<Self, InvalidDestination> {
        if self.timeout + AROUND_ATTEMPT <= function_timeout {
            return Ok(self);
        }
        let most = function_timeout.saturating_sub(AROUND_ATTEMPT).as_millis();
        Err(InvalidDestination {
            field: "timeout_ms".to_owned(),
            problem: format!("must be at most {most} with this function's timeout"),
        })
    }

    /// This destination's part in a decision.
    #[must_use]
    pub fn rules(&self) -> Rules<'_> {
        Rules {
            statuses: &self.statuses,
            require_decision: self.require_decision,
            retry: &self.retry,
            timeout: self.timeout,
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A URL of the right form. An address in it is not judged here: what may be called is the function's configuration.
fn url(row: &Fields<'_>) -> Result<String, InvalidDestination> {
    let url = row.required("url", "a URL", Value::as_str)?;
    let scheme = if row.flag("allow_http")? { Scheme::HttpToo } else { Scheme::Https };
    match judge_url(url, scheme, &AllowList::default()) {
        Ok(_) | Err(Refusal::Address(_)) => Ok(url.to_owned()),
        Err(refusal @ (Refusal::NotAUrl | Refusal::Scheme | Refusal::Credentials)) => {
            Err(row.invalid("url", &format!("cannot be used: {refusal}")))
        }
    }
}

fn rate(fields: &Fields<'_>) -> Result<Rate, InvalidDestination> {
    let number = |name| fields.nonzero(name, 1_000_000);
    let missing = |name| fields.invalid(name, "is missing; must be a whole number from 1");
    let limit = number("limit")?.ok_or_else(|| missing("limit"))?;
    let per_seconds = number("per_seconds")?.unwrap_or(NonZeroU32::MIN);
    if u64::from(limit.get()) > 10_000 * u64::from(per_seconds.get()) {
        return Err(fields.invalid("limit", "must be at most 10,000 per second"));
    }
    if per_seconds.get() > 604_800 {
        return Err(fields.invalid("per_seconds", "must be at most 604800"));
    }
    let one_second = NonZeroU32::new(limit.get() / per_seconds.get()).unwrap_or(NonZeroU32::MIN);
    Ok(Rate { limit, per_seconds, burst: number("burst")?.unwrap_or(one_second) })
}

/// Reads a retry policy; also that of `lapse explain`.
pub fn retry(fields: &Fields<'_>) -> Result<RetryPolicy, InvalidDestination> {
    use crate::retry_policy::Schedule;
    const WEEK_MS: u64 = 604_800_000;
    let mut policy = RetryPolicy::default();
    if let Some(attempts) = fields.nonzero("max_attempts", 1000)? {
        policy.max_attempts = attempts;
    }
    if let Some(jitter) = fields.number("jitter", 0.0, 1.0)? {
        policy.jitter = jitter;
    }
    let steps = fields.list("schedule_s", "whole numbers of seconds from 0 to 604800", |step| {
        step.as_u64().filter(|s| *s <= WEEK_MS / 1000).map(Duration::from_secs)
    })?;
    let exponential = ["initial_ms", "factor", "cap_ms"];
    if let Some(steps) = steps {
        if let Some(other) = exponential.iter().find(|name| fields.has(name)) {
            return Err(fields.invalid(other, "cannot be combined with schedule_s"));
        }
        if steps.is_empty() {
            return Err(fields.invalid("schedule_s", "must have at least one step"));
        }
        policy.schedule = Schedule::Steps(steps);
    } else if let Schedule::Exponential { initial, factor, cap } = &mut policy.schedule {
        *initial = fields.millis("initial_ms", 1, WEEK_MS)?.unwrap_or(*initial);
        *factor = fields.number("factor", 1.0, 100.0)?.unwrap_or(*factor);
        *cap = fields.millis("cap_ms", 1, WEEK_MS)?.unwrap_or(*cap);
        if cap < initial {
            return Err(fields.invalid("cap_ms", "must not be less than initial_ms"));
        }
    }
    Ok(policy)
}

/// Reads the lists of CLS-10; also those of `lapse explain`.
pub fn statuses(fields: &Fields<'_>) -> Result<StatusLists, InvalidDestination> {
    let list = |name| {
        let status = |v: &Value| v.as_u64().and_then(|s| u16::try_from(s).ok()).filter(|s| (100..=999).contains(s));
        fields.list(name, "statuses from 100 to 999", status).map(Option::unwrap_or_default)
    };
    let lists = StatusLists {
        delivered: list("delivered")?.into_iter().collect(),
        transient: list("transient")?.into_iter().collect(),
        permanent: list("permanent")?.into_iter().collect(),
    };
    let twice = lists
        .delivered
        .intersection(&lists.transient)
        .chain(lists.delivered.intersection(&lists.permanent))
        .chain(lists.transient.intersection(&lists.permanent))
        .next();
    match twice {
        Some(status) => Err(fields.invalid("delivered", &format!("{status} is in two lists"))),
        None => Ok(lists),
    }
}

fn secrets(row: &Fields<'_>) -> Result<Vec<Secret>, InvalidDestination> {
    let accepted = "secrets of the form whsec_<base64 of 24 to 64 bytes>";
    let secrets = row
        .list("secrets", accepted, |v| v.as_str().and_then(|text| Secret::parse(text).ok()))?
        .ok_or_else(|| row.invalid("secrets", &format!("is missing; must be a list of {accepted}")))?;
    if (1..=MAX_SECRETS).contains(&secrets.len()) {
        Ok(secrets)
    } else {
        Err(row.invalid("secrets", &format!("must have 1 to {MAX_SECRETS} entries")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn parse(change: &Value) -> Result<Destination, InvalidDestination> {
        let mut row = json!({"url": "https://hooks.example.com/x", "secrets": [SECRET]});
        let (Value::Object(row), Value::Object(change)) = (&mut row, change) else { panic!("objects") };
        row.extend(change.clone());
        row.retain(|_, v| !v.is_null());
        Destination::parse(&DestinationName::parse("partner").expect("valid"), row)
    }

    #[track_caller]
    fn check_invalid(field: &str, change: &Value) {
        let error = parse(change).expect_err(field);
        assert_eq!(error.field, field, "{change}: {error}");
        assert!(!error.to_string().contains("MfKQ"), "a secret in an error");
    }

    #[test]
    fn dst_1_defaults() {
        let destination = parse(&json!({})).expect("valid");
        assert_eq!(destination.timeout, TIMEOUT);
        assert_eq!(destination.max_age, MAX_AGE);
        assert_eq!(destination.retry, RetryPolicy::default());
        assert_eq!((destination.rate, destination.max_in_flight), (None, None));
        assert!(!destination.allow_http && !destination.disabled && !destination.require_decision);
        assert!(!format!("{destination:?}").contains("MfKQ"), "SEC-4: a secret is never printed");
    }

    #[test]
    fn dst_1_everything_given() {
        let row = json!({
            "rate": {"limit": 50, "per_seconds": 10, "burst": 7}, "jitter_ms": 0, "timeout_ms": 2500,
            "max_in_flight": 4,
            "policy": {"schedule_s": [5, 300], "max_attempts": 3, "jitter": 0.0}, "allow_http": true,
            "statuses": {"delivered": [404], "transient": [422]}, "require_decision": true,
            "headers": {"X-Team": "studio"}, "max_age": 60, "unknown": 1,
        });
        let destination = parse(&row).expect("valid");
        let rate = destination.rate.expect("a rate");
        assert_eq!((rate.limit.get(), rate.per_seconds.get(), rate.burst.get()), (50, 10, 7));
        assert_eq!(destination.timeout, Duration::from_millis(2500));
        assert_eq!(destination.max_in_flight.map(NonZeroU32::get), Some(4));
        assert_eq!(destination.retry.max_attempts.get(), 3);
        assert!(destination.statuses.transient.contains(&422));
        assert_eq!(destination.max_age, Duration::from_mins(1));
    }

    #[test]
    fn lim_5_without_a_burst_it_is_what_one_second_holds() {
        let burst = |limit, per| {
            let rate = json!({"rate": {"limit": limit, "per_seconds": per}});
            parse(&rate).expect("valid").rate.expect("a rate").burst.get()
        };
        assert_eq!((burst(50, 1), burst(50, 10), burst(1, 3600)), (50, 5, 1));
    }

    #[test]
    fn dst_1_an_invalid_row_names_the_field() {
        check_invalid("url", &json!({"url": null}));
        check_invalid("url", &json!({"url": 7}));
        check_invalid("url", &json!({"url": "hooks.example.com/x"}));
        check_invalid("url", &json!({"url": "http://hooks.example.com/x"}));
        check_invalid("url", &json!({"url": "https://u:p@hooks.example.com/x"}));
        check_invalid("rate", &json!({"rate": 5}));
        check_invalid("rate.limit", &json!({"rate": {}}));
        check_invalid("rate.limit", &json!({"rate": {"limit": 0}}));
        check_invalid("rate.limit", &json!({"rate": {"limit": -1}}));
        check_invalid("rate.limit", &json!({"rate": {"limit": 1.5}}));
        check_invalid("rate.limit", &json!({"rate": {"limit": 10_001}}));
        check_invalid("rate.per_seconds", &json!({"rate": {"limit": 1, "per_seconds": 0}}));
        check_invalid("rate.per_seconds", &json!({"rate": {"limit": 1, "per_seconds": 604_801}}));
        check_invalid("rate.burst", &json!({"rate": {"limit": 1, "burst": 0}}));
        check_invalid("timeout_ms", &json!({"timeout_ms": 20_001}));
        check_invalid("timeout_ms", &json!({"timeout_ms": 0}));
        check_invalid("max_age", &json!({"max_age": 604_801}));
        check_invalid("policy.schedule_s", &json!({"policy": {"schedule_s": []}}));
        check_invalid("policy.schedule_s", &json!({"policy": {"schedule_s": [604_801]}}));
        check_invalid("policy.factor", &json!({"policy": {"schedule_s": [1], "factor": 2}}));
        check_invalid("policy.factor", &json!({"policy": {"factor": 0.5}}));
        check_invalid("policy.cap_ms", &json!({"policy": {"initial_ms": 10, "cap_ms": 9}}));
        check_invalid("policy.max_attempts", &json!({"policy": {"max_attempts": 0}}));
        check_invalid("statuses.transient", &json!({"statuses": {"transient": [99]}}));
        check_invalid("statuses.delivered", &json!({"statuses": {"delivered": [404], "permanent": [404]}}));
        check_invalid("secrets", &json!({"secrets": null}));
        check_invalid("secrets", &json!({"secrets": []}));
        check_invalid("secrets", &json!({"secrets": ["whsec_c2hvcnQ="]}));
        check_invalid("headers", &json!({"headers": {"Webhook-Id": "x"}}));
        check_invalid("allow_http", &json!({"allow_http": "yes"}));
        check_invalid("disabled", &json!({"disabled": 1}));
        check_invalid("max_in_flight", &json!({"max_in_flight": 0}));
        check_invalid("max_in_flight", &json!({"max_in_flight": 1001}));
        check_invalid("max_in_flight", &json!({"max_in_flight": 1.5}));
        check_invalid("max_in_flight", &json!({"max_in_flight": "4"}));
    }

    #[test]
    fn ack_4_a_timeout_must_fit_the_function() {
        let destination = parse(&json!({"timeout_ms": 20_000})).expect("valid");
        assert!(destination.clone().fits(Duration::from_secs(28)).is_ok());
        let error = destination.fits(Duration::from_secs(27)).expect_err("too long");
        assert_eq!(error.field, "timeout_ms");
    }
}
