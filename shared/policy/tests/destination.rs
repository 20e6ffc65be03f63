//! DST-1, SEC-4: the last value of a destination's fields that is accepted, and what of it may be printed.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests fails the test it is called from")]

use lapse_policy::config_fields::InvalidDestination;
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use serde_json::{Value, json};

/// A row that is valid but for what `change` makes of it.
fn parse(change: &Value) -> Result<Destination, InvalidDestination> {
    let mut row = json!({"url": "https://hooks.example.com/x", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]});
    let (Value::Object(row), Value::Object(change)) = (&mut row, change.clone()) else { panic!("objects") };
    row.extend(change);
    Destination::parse(&DestinationName::parse("partner").expect("valid"), row)
}

/// The one is accepted, and the other is refused by that field's name.
#[track_caller]
fn check(field: &str, accepted: &Value, refused: &Value) {
    assert_eq!(parse(accepted).err(), None, "{field}: {accepted}");
    let error = parse(refused).expect_err(field);
    assert_eq!(error.field, field, "{refused}: {error}");
}

#[test]
fn dst_1_each_range_ends_where_it_says() {
    let rate = |limit: u64, per_seconds: u64| json!({"rate": {"limit": limit, "per_seconds": per_seconds}});
    check("rate.limit", &rate(10_000, 1), &rate(10_001, 1));
    check("rate.limit", &rate(20_000, 2), &rate(20_001, 2));
    check("rate.per_seconds", &rate(1, 604_800), &rate(1, 604_801));
    let exponential = |initial: u64, cap: u64| json!({"policy": {"initial_ms": initial, "cap_ms": cap}});
    check("policy.cap_ms", &exponential(10, 10), &exponential(10, 9));
    check("policy.cap_ms", &exponential(1, 604_800_000), &exponential(1, 604_800_001));
    let statuses = |status: u64| json!({"statuses": {"transient": [status]}});
    check("statuses.transient", &statuses(100), &statuses(99));
    check("statuses.transient", &statuses(999), &statuses(1000));
}

#[test]
fn ret_9_a_decision_is_made_from_the_rows_own_rules() {
    let row = json!({
        "policy": {"max_attempts": 3}, "statuses": {"transient": [404]}, "require_decision": true, "timeout_ms": 2500,
    });
    let destination = parse(&row).expect("valid");
    let rules = destination.rules();
    assert!(rules.require_decision && rules.statuses.transient.contains(&404));
    assert_eq!((rules.retry.max_attempts.get(), rules.timeout.as_millis()), (3, 2500));
}

#[test]
fn sec_4_a_header_of_its_own_is_printed_by_its_name_alone() {
    let destination = parse(&json!({"headers": {"X-Team": "studio 7"}})).expect("valid");
    let printed = format!("{destination:?}");
    assert!(printed.contains("x-team: ***") && !printed.contains("studio"), "{printed}");
}
