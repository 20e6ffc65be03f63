//! LAN-1: no more requests at once than a destination takes, and a lane is never left behind.

#[path = "../../../../shared/aws/tests/suites/lanes.rs"]
mod suite;

use std::time::Duration;

use lapse_policy::classifier::Failure;
use lapse_policy::clock::Clocks;
use lapse_policy::lanes::Lane;
use lapse_policy::ledger::{Record, State};
use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::world::{Fault, Fleet, NOW, Reply, World, at, event, firsts, name};

/// A destination without a rate.
pub(crate) fn lanes(count: u32) -> World {
    World::with(&json!({"max_in_flight": count}))
}

pub(crate) fn count(calls: &[String], what: &str) -> usize {
    calls.iter().filter(|call| call.starts_with(what)).count()
}

/// Someone else holds these lanes of `catalog` until then.
pub(crate) fn hold(world: &World, numbers: impl IntoIterator<Item = u32>, until: Timestamp) {
    let theirs = |number| (number, Lane { number, owner: "theirs".to_owned(), until });
    world.lanes.items.borrow_mut().entry(name("catalog")).or_default().extend(numbers.into_iter().map(theirs));
}

pub(crate) fn held(world: &World) -> Vec<u32> {
    world.lanes.items.borrow().get(&name("catalog")).map(|lanes| lanes.keys().copied().collect()).unwrap_or_default()
}

#[test]
fn lan_1_the_fake_keeps_the_ports_promise() {
    let world = World::new();
    world.time.run(suite::keeps_the_ports_promise(&world.lanes));
}

#[test]
fn lan_1_twenty_sandboxes_send_no_more_at_once_than_there_are_lanes() {
    let limits: [(u32, Value); 4] = [
        (1, json!({"max_in_flight": 1})),
        (4, json!({"max_in_flight": 4})),
        (1, json!({"max_in_flight": 1, "rate": {"limit": 50}})),
        (4, json!({"max_in_flight": 4, "rate": {"limit": 50}})),
    ];
    for (most, members) in limits {
        let world = World::with(&members);
        world.luck.step.set(0.618_034);
        for event in 1..=150 {
            world.receivers.reply(&format!("a:{event}"), &[Reply::Slow(200, Duration::from_millis(700))]);
        }
        let fleet = Fleet::new(&world, firsts(150));
        fleet.drain(20);
        assert_eq!(world.receivers.crowd("catalog").most.get(), most as usize, "{members}: never more, and all used");
        let records = world.ledger.records.borrow();
        assert_eq!(records.values().filter(|record| record.state == State::Delivered).count(), 150, "{members}");
        assert_eq!((world.sent().len(), held(&world)), (150, vec![]), "{members}: each once");
        assert!(fleet.most_receives.get() < 100, "{members}: {} receives", fleet.most_receives.get());
    }
}

#[test]
fn lan_1_a_killed_workers_lane_frees_itself_when_its_lease_is_over() {
    let world = lanes(1);
    world.receivers.reply("a:1", &[Reply::Hangs]);
    world.deliver_and_die(&[event("a:1").first()], Duration::from_secs(3));
    assert_eq!((held(&world), world.time.now()), (vec![0], at(3000)));
    for (ms, sent) in [(3_000, false), (35_000, false), (35_001, true)] {
        world.time.pass(at(ms).since(world.time.now()));
        world.deliver(&[event(format!("b:{ms}")).first()]);
        assert_eq!(world.sent().len() == 2, sent, "{ms} ms: the invocation's end and 5 s");
    }
    assert_eq!(held(&world), [0_u32; 0], "it is taken over and given back");
    assert_eq!(world.receivers.crowd("catalog").most.get(), 1);
}

/// After one batch no lane is held; at least one was.
#[track_caller]
fn check_given_back(label: &str, world: &World, batch: usize) {
    world.deliver(&firsts(batch));
    let calls = world.calls();
    assert_eq!((count(&calls, "lane 0 taken"), count(&calls, "lane 0 given back")), (1, 1), "{label}: {calls:?}");
    assert_eq!(held(world), [0_u32; 0], "{label}");
    assert!(world.time.now() <= at(29_500), "{label}: ACK-6");
}

#[test]
fn lan_1_a_lane_is_given_back_whatever_the_answer() {
    let answers = [
        ("delivered", Reply::Status(200)),
        ("undecided", Reply::Status(202)),
        ("throttled", Reply::Later(429, 30)),
        ("transient", Reply::Status(500)),
        ("permanent", Reply::Status(400)),
        ("gone", Reply::Status(410)),
        ("not connected", Reply::Fails(Failure::Refused)),
        ("no answer", Reply::Fails(Failure::NoAnswer)),
        ("the record panics", Reply::Panics),
        ("the invocation is cut off", Reply::Hangs),
    ];
    for (label, reply) in answers {
        for members in [json!({"max_in_flight": 1}), json!({"max_in_flight": 1, "rate": {"limit": 50}})] {
            let world = World::with(&members);
            world.receivers.reply("a:2", &[reply]);
            check_given_back(label, &world, 3);
        }
    }
}

#[test]
fn lan_1_a_lane_is_given_back_whatever_fails() {
    type Arrange = fn(&World);
    let paths: [(&str, Arrange); 12] = [
        ("the group panics", |world| world.limits.faults.always(Fault::Panics)),
        ("the limiter is down", |world| world.limits.faults.always(Fault::Unavailable)),
        ("the limiter hangs", |world| world.limits.faults.always(Fault::Hangs)),
        ("the gate is down", |world| world.limits.faults.then(None).always(Fault::Unavailable)),
        ("the ledger is down", |world| world.ledger.writes.always(Fault::Unavailable)),
        ("the ledger panics", |world| world.ledger.writes.always(Fault::Panics)),
        ("the ledger hangs", |world| world.ledger.writes.always(Fault::Hangs)),
        ("the completion hangs", |world| world.ledger.writes.then(None).always(Fault::Hangs)),
        ("claims take all the time", |world| world.ledger.writes.always(Fault::Slow(Duration::from_secs(16)))),
        ("the queue panics", |world| world.deliveries.panics.set(true)),
        ("a claim is lost", |world| world.put("a:1", |record| Record { state: State::Delivered, ..record })),
        ("all must wait", |world| {
            world.set_clocks(Clocks { pause: Pause::default().raised(at(20_000), NOW), ..Clocks::default() });
        }),
    ];
    for (label, arrange) in paths {
        let world = World::with(&json!({"max_in_flight": 1, "rate": {"limit": 50}}));
        arrange(&world);
        check_given_back(label, &world, 3);
    }
}

#[test]
fn lan_1_a_lane_is_given_back_as_soon_as_its_own_share_is_done_or_has_panicked() {
    for fault in [None, Some(Fault::Panics)] {
        let world = lanes(1);
        world.destination("other", &json!({}));
        world.receivers.reply("o:1", &[Reply::Slow(200, Duration::from_secs(8))]);
        // What may panic is the first look at a pause: that of the share in the lane.
        world.limits.faults.then(fault);
        let delivered = world.deliver_while(&[event("a:1").first(), event("o:1").to("other").first()], async {
            world.sleep(1000).await;
            assert_eq!((count(&world.calls(), "lane 0 taken"), held(&world)), (1, vec![]), "{fault:?}");
        });
        let remaining: &[usize] = if fault.is_some() { &[0] } else { &[] };
        assert_eq!((&delivered.remaining[..], world.time.now() >= at(8000)), (remaining, true), "{fault:?}");
    }
}

#[test]
fn lan_1_a_lane_that_may_have_been_taken_is_given_back() {
    for (fault, ends) in [(Fault::LostReply, 0), (Fault::Hangs, 29_000)] {
        let world = lanes(1);
        world.lanes.takes.then(fault);
        let delivered = world.deliver(&firsts(2));
        assert_eq!((delivered.remaining, world.sent().len()), (vec![0, 1], 0), "{fault:?}: nothing is sent");
        let calls = world.calls();
        assert_eq!((held(&world), count(&calls, "lane 0 given back")), (vec![], 1), "{fault:?}: {calls:?}");
        assert!(world.time.now() >= at(ends), "{fault:?}");
    }
}

#[test]
fn lan_1_at_the_end_of_an_invocation_giving_back_may_take_half_a_second() {
    let world = lanes(1);
    world.receivers.reply("a:1", &[Reply::Hangs]);
    world.lanes.releases.always(Fault::Hangs);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    assert_eq!((world.time.now(), held(&world)), (at(29_500), vec![0]), "its lease frees it");
}

#[test]
fn lan_1_a_lane_that_cannot_be_given_back_costs_its_batch_nothing() {
    for fault in [Fault::Unavailable, Fault::Panics] {
        let world = lanes(1);
        world.lanes.releases.always(fault);
        assert_eq!(world.deliver(&firsts(2)).remaining, [0_usize; 0], "{fault:?}");
        assert_eq!(held(&world), [0], "{fault:?}: its lease frees it");
    }
}

#[test]
fn lan_1_at_most_two_free_lanes_are_tried() {
    let world = lanes(3);
    world.lanes.takes.then(Fault::Slow(Duration::from_millis(100)));
    let batch = firsts(2);
    // Between the look and the tries others take the two that were chosen.
    let delivered = world.deliver_while(&batch, async {
        world.sleep(50).await;
        hold(&world, [0, 2], at(60_000));
    });
    assert_eq!((delivered.remaining, world.sent().len()), (vec![0, 1], 0));
    let calls = world.calls();
    assert_eq!((count(&calls, "lanes read"), count(&calls, "lane ")), (1, 2), "{calls:?}");
}

#[test]
fn lan_1_a_lowered_limit_waits_for_those_beyond_it() {
    let world = lanes(1);
    hold(&world, [3], at(9_999));
    world.deliver(&[event("a:1").first()]);
    assert_eq!(world.sent().len(), 0, "lane 3 is one in flight");
    world.time.pass(Duration::from_secs(10));
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0]);
}
