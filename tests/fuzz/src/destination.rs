//! Any JSON object as a row of `destinations`: what is accepted is in its ranges, and no secret is ever shown.
//!
//! Owns: what must hold of [`Destination::parse`] for one row (DST-1, SEC-4), and a destination written as a row.
//! Must not: say which rows are valid; tables beside the parser do.
#![expect(clippy::expect_used, reason = "a broken promise is a panic here")]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lapse_policy::destination::{AROUND_ATTEMPT, Destination, LONGEST_MAX_AGE, MAX_TIMEOUT, Rate};
use lapse_policy::names::DestinationName;
use lapse_policy::retry_policy::{RetryPolicy, Schedule};
use lapse_policy::secret::Secret;
use serde_json::{Map, Value, json};

const OTHER_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Reads the bytes as a row.
pub fn check(data: &[u8]) {
    let Ok(row) = serde_json::from_slice::<Map<String, Value>>(data) else { return };
    let name = DestinationName::parse("partner").expect("a name");
    let read = Destination::parse(&name, &row);
    assert_eq!(Destination::parse(&name, &row), read, "the same row is read in two ways");
    let veiled = Destination::parse(&name, &with_other_secrets(row));
    assert_eq!(format!("{veiled:?}"), format!("{read:?}"), "SEC-4: what is shown depends on a secret");
    if let Ok(mut destination) = read {
        is_in_its_ranges(&destination);
        // A row's keys are in order as they are written, a destination's names in lower case; none is there twice.
        destination.headers.sort_by(|one, other| one.name().cmp(other.name()));
        let again = Destination::parse(&name, &written(&destination));
        assert_eq!(again, Ok(destination), "what was accepted is not accepted again");
    }
}

/// The same row with every secret and every header's value another of the same kind and length.
fn with_other_secrets(mut row: Map<String, Value>) -> Map<String, Value> {
    for secret in row.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::String(text) = secret {
            let other = if Secret::parse(text).is_ok() { OTHER_SECRET } else { "none" };
            other.clone_into(text);
        }
    }
    for value in row.get_mut("headers").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        if let Value::String(text) = value {
            let sendable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            *text = if sendable { "a" } else { "\n" }.repeat(text.len());
        }
    }
    row
}

fn is_in_its_ranges(destination: &Destination) {
    assert!((Duration::from_millis(1)..=MAX_TIMEOUT).contains(&destination.timeout));
    assert!((Duration::from_secs(1)..=LONGEST_MAX_AGE).contains(&destination.max_age));
    assert!(destination.clone().fits(MAX_TIMEOUT + AROUND_ATTEMPT).is_ok());
    assert!(destination.retry.waits().all(|wait| wait <= LONGEST_MAX_AGE), "a wait of more than a week");
    assert!(
        destination.retry.longest() >= destination.retry.waits().sum::<Duration>(),
        "the worst case is not the worst"
    );
}

/// The row that says all that a destination holds.
fn written(destination: &Destination) -> Map<String, Value> {
    let secret = |secret: &Secret| format!("whsec_{}", STANDARD.encode(secret.bytes()));
    let headers = destination.headers.iter().map(|header| (header.name().to_owned(), header.value().into()));
    let row = json!({
        "url": destination.url,
        "allow_http": destination.allow_http,
        "rate": destination.rate.map(rate),
        "jitter_ms": millis(destination.jitter),
        "max_in_flight": destination.max_in_flight,
        "timeout_ms": millis(destination.timeout),
        "policy": policy(&destination.retry),
        "statuses": {
            "delivered": destination.statuses.delivered,
            "transient": destination.statuses.transient,
            "permanent": destination.statuses.permanent,
        },
        "require_decision": destination.require_decision,
        "secrets": destination.secrets.iter().map(secret).collect::<Vec<_>>(),
        "headers": Value::Object(headers.collect()),
        "max_age": destination.max_age.as_secs(),
        "disabled": destination.disabled,
    });
    let Value::Object(row) = row else { unreachable!("an object") };
    row
}

fn rate(rate: Rate) -> Value {
    json!({ "limit": rate.limit, "per_seconds": rate.per_seconds, "burst": rate.burst })
}

fn policy(policy: &RetryPolicy) -> Value {
    let (max_attempts, jitter) = (policy.max_attempts, policy.jitter);
    match &policy.schedule {
        Schedule::Steps(steps) => {
            let steps: Vec<_> = steps.iter().map(Duration::as_secs).collect();
            json!({ "max_attempts": max_attempts, "jitter": jitter, "schedule_s": steps })
        }
        Schedule::Exponential { initial, factor, cap } => json!({
            "max_attempts": max_attempts,
            "jitter": jitter,
            "initial_ms": millis(*initial),
            "factor": factor,
            "cap_ms": millis(*cap),
        }),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("in a destination's ranges")
}
