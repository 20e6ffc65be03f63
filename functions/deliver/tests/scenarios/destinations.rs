//! DST-1: destinations as a sandbox knows them.

use std::time::Duration;

use lapse_policy::ledger::State;
use lapse_policy::reason::Reason;
use serde_json::{Value, json};

use crate::world::{Fault, World, event, fast};

#[test]
fn dst_1_configuration_is_cached_for_at_most_30_s() {
    let world = World::new();
    let mut n = 0;
    let mut reads = || {
        n += 1;
        world.deliver(&[event(format!("b:{n}")).first()]);
        world.calls().iter().filter(|call| call.starts_with("destination")).count()
    };
    assert_eq!(reads(), 1);
    assert_eq!(reads(), 0, "at once");
    world.time.pass(Duration::from_millis(29_800));
    assert_eq!(reads(), 0, "within 30 s");
    world.time.pass(Duration::from_millis(200));
    assert_eq!(reads(), 1, "after 30 s");
}

#[track_caller]
fn check_dead(label: &str, arrange: impl FnOnce(&World), reason: Reason, names: &str) {
    let world = World::new();
    arrange(&world);
    let delivered = world.deliver(&[event("a:1").first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.reason), (State::Dead, Some(reason)), "{label}");
    let error = record.last_error.expect("an error for the operator");
    assert!(error.contains(names), "{label}: {error}");
    assert_eq!((delivered.remaining.len(), world.letters().len(), world.sent().len()), (0, 1, 0), "{label}");
    assert_eq!(delivered.tally.sum().dead[&reason], 1, "{label}");
}

#[test]
fn dst_1_a_destination_that_cannot_be_used_is_the_end_and_the_error_names_the_field() {
    let row = |members: Value| move |world: &World| world.destination("catalog", &members);
    let missing = |world: &World| world.destinations.rows.borrow_mut().clear();
    check_dead("missing", missing, Reason::UnknownDestination, "catalog");
    check_dead("invalid", row(json!({"rate": {"limit": "many"}})), Reason::InvalidDestination, "rate.limit");
    check_dead("disabled", row(json!({"disabled": true})), Reason::DisabledDestination, "disabled");
    // 8 s around the attempt, and 2 s that clocks may differ by.
    let short = |world: &World| {
        world.destination("catalog", &json!({"timeout_ms": 14_001}));
        world.function_timeout.set(Duration::from_secs(20));
    };
    check_dead("a timeout that the function never fits", short, Reason::InvalidDestination, "timeout_ms");
}

#[test]
fn dst_1_a_row_that_is_put_later_is_seen_at_once() {
    let world = World::new();
    world.destinations.rows.borrow_mut().clear();
    world.deliver(&[event("a:1").first()]);
    world.destination("catalog", &fast());
    world.deliver(&[event("a:2").first()]);
    assert_eq!((world.state("a:1"), world.state("a:2")), (State::Dead, State::Delivered));
}

#[test]
fn dst_1_a_table_that_does_not_answer_kills_nothing() {
    let world = World::new();
    world.destinations.faults.always(Fault::Unavailable);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    assert_eq!((world.record_or_none("a:1"), world.hidden()), (None, vec![1]));
}

#[test]
fn ack_4_a_timeout_that_just_fits_the_function_is_used() {
    let world = World::with(&json!({"timeout_ms": 12_000}));
    world.function_timeout.set(Duration::from_secs(20));
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0_usize; 0]);
    assert_eq!(world.sent().len(), 1);
}
