//! ACK-8, LED-9, OBS-2: the order of a batch, what it costs, and what it counts.

use std::collections::BTreeMap;

use lapse_deliver::tally::Counts;
use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::reason::Reason;
use serde_json::json;

use crate::world::{Reply, World, at, event, events, firsts, slow};

fn done(calls: Vec<String>) -> Vec<String> {
    calls.into_iter().filter(|call| !call.ends_with("refused")).collect()
}

#[test]
fn ack_8_read_then_plan_then_claim_then_gate_then_send_then_complete() {
    let world = World::new();
    world.set_clocks(Clocks { gate: Some(at(100).micros()), ..Clocks::default() });
    world.deliver(&[event("a:1").again(2)]);
    let expected = [
        "ledger read 1",
        "destination catalog",
        "plan",
        "ledger write sending",
        "gate",
        "send a:1",
        "ledger write delivered",
    ];
    assert_eq!(done(world.calls()), expected);
}

#[test]
fn ack_8_a_first_receive_that_must_wait_is_inserted_as_waiting() {
    let world = World::with(&slow());
    world.set_clocks(Clocks { plan: Some(at(20_000).micros()), ..Clocks::default() });
    world.deliver(&[event("a:1").first()]);
    let expected = ["destination catalog", "plan", "ledger write waiting", "deliveries: hide 1"];
    assert_eq!(done(world.calls()), expected);
}

#[test]
fn ack_8_a_deadline_that_is_past_comes_before_a_destination_that_is_missing() {
    let world = World::new();
    let nowhere = |id: &str| event(id).to("nowhere");
    let past = at(0).minus(std::time::Duration::from_millis(1));
    let delivered = world.deliver(&[nowhere("n:1").first(), nowhere("n:2").by(past).first()]);
    let dead = BTreeMap::from([(Reason::UnknownDestination, 1), (Reason::DeadlinePassed, 1)]);
    assert_eq!(delivered.tally.sum().dead, dead);
}

#[test]
fn led_9_a_batch_of_ten_costs_one_limiter_write_two_ledger_calls_and_no_queue_call() {
    let world = World::new();
    let batch = firsts(10);
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    let calls = world.calls();
    let count = |start: &str| calls.iter().filter(|call| call.starts_with(start)).count();
    assert_eq!(count("plan and gate"), 1, "{calls:?}");
    assert_eq!(count("ledger write"), 2, "{calls:?}");
    assert_eq!(calls.len(), 1 + 1 + 2 + 10, "a destination, a booking, two writes, ten requests: {calls:?}");
    world.calls();
    let batch: Vec<_> = events(10).iter().map(|event| event.again(2)).collect();
    world.deliver(&batch);
    assert_eq!(world.calls(), ["ledger read 10"], "run twice: one read, and all are acknowledged");
}

#[test]
fn led_9_destinations_share_the_ledgers_calls() {
    let world = World::new();
    world.destination("other", &json!({}));
    world.deliver(&[event("a:1").first(), event("o:1").to("other").first()]);
    let calls = world.calls();
    let writes: Vec<_> = calls.iter().filter(|call| call.starts_with("ledger write")).collect();
    assert_eq!(writes, ["ledger write sending sending", "ledger write delivered delivered"]);
}

#[test]
fn obs_2_a_batch_is_counted_by_what_became_of_it() {
    let world = World::new();
    world.receivers.reply("a:2", &[Reply::Status(429)]);
    world.receivers.reply("a:3", &[Reply::Status(500)]);
    world.receivers.reply("a:4", &[Reply::Status(400)]);
    world.put("a:5", |record| Record { state: State::Delivered, ..record });
    let mut batch = firsts(4);
    batch.extend([event("a:5").again(2), event("a:6").first(), event("a:6").first()]);
    let delivered = world.deliver(&batch);
    let expected = Counts {
        received: 7,
        attempts: 5,
        delivered: 2,
        throttled: 1,
        transient: 1,
        dead: BTreeMap::from([(Reason::PermanentStatus, 1)]),
        deferred: 2,
        duplicates: 2,
        delivery_age_ms: 50,
        ..Counts::default()
    };
    assert_eq!(delivered.tally.sum(), expected);
    assert_eq!(delivered.remaining, [1, 2]);
    let by_name: Vec<_> = delivered.tally.destinations().map(|(name, _)| name.to_string()).collect();
    assert_eq!(by_name, ["catalog"]);
}

#[test]
fn obs_2_waits_deaths_and_places_are_counted() {
    let world = World::with(&slow());
    world.set_clocks(Clocks { gate: Some(at(900).micros()), ..Clocks::default() });
    let sum = world.deliver(&[event("a:1").first()]).tally.sum();
    assert_eq!((sum.delivered, sum.place_wait_ms, sum.delivery_age_ms), (1, 900, 950));
    for (lead, deferred, republished, parked) in [(20_000, 1, 0, 0), (60_000, 0, 1, 0), (1_000_000, 0, 0, 1)] {
        let world = World::with(&slow());
        world.set_clocks(Clocks { plan: Some(at(lead).micros()), ..Clocks::default() });
        let sum = world.deliver(&[event("a:1").first()]).tally.sum();
        assert_eq!((sum.deferred, sum.republished, sum.parked), (deferred, republished, parked), "{lead}");
    }
}
