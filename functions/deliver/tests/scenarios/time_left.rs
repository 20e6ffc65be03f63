//! ACK-4 to ACK-6, LED-7: what an invocation does with the time that it has.

use std::time::Duration;

use lapse_policy::clock::Clocks;
use lapse_policy::ledger::State;
use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use serde_json::json;

use crate::world::{Fault, NOW, Reply, World, at, event, firsts, logged};

const SIX_SECONDS: Fault = Fault::Slow(Duration::from_secs(6));

fn patient() -> World {
    World::with(&json!({"timeout_ms": 20_000, "rate": {"limit": 100, "burst": 300}}))
}

#[test]
fn ack_4_what_no_longer_fits_comes_back_after_a_second_unclaimed() {
    let world = patient();
    world.destinations.faults.then(SIX_SECONDS);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    assert_eq!(world.hidden(), [1]);
    assert_eq!((world.record_or_none("a:1"), world.sent().len()), (None, 0));
}

#[test]
fn ack_4_what_no_longer_fits_once_it_is_claimed_has_its_claim_undone() {
    let world = patient();
    world.ledger.writes.then(SIX_SECONDS);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.attempts, record.crashes, record.lease), (State::Waiting, 0, 0, None));
    assert_eq!((world.hidden(), world.sent().len()), (vec![1], 0));
    world.time.pass(Duration::from_secs(1));
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0], "it is sent when it comes back");
}

#[test]
fn ack_5_a_hanging_destination_delays_no_others_sends() {
    let world = World::new();
    world.destination("hanging", &json!({}));
    world.receivers.reply("h:1", &[Reply::Hangs]);
    world.receivers.reply("h:2", &[Reply::Hangs]);
    let hanging = |id: &str| event(id).to("hanging").first();
    let delivered = world.deliver(&[hanging("h:1"), event("a:1").first(), hanging("h:2"), event("a:2").first()]);
    assert_eq!(delivered.remaining, [0, 2]);
    assert_eq!(world.starts(), [at(0); 4]);
    assert_eq!((world.state("a:1"), world.state("a:2")), (State::Delivered, State::Delivered));
}

#[test]
fn ack_5_a_configuration_that_does_not_load_delays_no_others_sends() {
    let world = World::new();
    world.destinations.faults.then(Fault::Hangs);
    let delivered = world.deliver(&[event("h:1").to("hanging").first(), event("a:1").first()]);
    assert_eq!(delivered.remaining, [0]);
    assert!(world.starts()[0] <= at(20), "no more than a linger: {:?}", world.starts());
}

#[test]
fn ack_6_the_handler_answers_a_second_before_its_deadline_whatever_still_runs() {
    let world = World::new();
    world.receivers.reply("a:3", &[Reply::Hangs]);
    world.receivers.reply("a:7", &[Reply::Hangs]);
    let batch = firsts(10);
    let delivered = world.deliver(&batch);
    assert_eq!(world.time.now(), at(29_000));
    assert_eq!(delivered.remaining, [2, 6]);
    assert_eq!(delivered.tally.sum().delivered, 8);
}

#[test]
fn led_7_a_2xx_that_cannot_be_recorded_is_acknowledged_all_the_same() {
    for fault in [Fault::Unavailable, Fault::Throttled, Fault::Hangs] {
        let world = World::new();
        world.ledger.writes.then(None).always(fault);
        world.ledger.reads.always(Fault::Unavailable);
        let (delivered, log) = logged(|| world.deliver(&[event("a:1").first()]));
        assert_eq!(delivered.remaining, [0_usize; 0], "{fault:?}");
        assert_eq!(log.matches("delivered_unrecorded").count(), 1, "{fault:?}: {log}");
        assert_eq!(world.state("a:1"), State::Sending, "{fault:?}");
        assert!(world.time.now() <= at(29_000), "{fault:?}");
    }
}

#[test]
fn led_7_a_2xx_is_recorded_as_soon_as_the_ledger_answers_again() {
    let world = World::new();
    world.ledger.writes.then(None).then(Fault::Unavailable).then(Fault::Unavailable).then(Fault::Throttled);
    let (delivered, log) = logged(|| world.deliver(&[event("a:1").first()]));
    assert_eq!((delivered.remaining.len(), world.state("a:1")), (0, State::Delivered));
    assert!(!log.contains("delivered_unrecorded"), "{log}");
    assert_eq!(world.sent().len(), 1);
}

#[test]
fn led_7_a_2xx_is_acknowledged_although_the_limiter_hangs_after_it() {
    let world = World::new();
    let pause = Pause { from: Some(NOW.minus(Duration::from_secs(10))), streak: 1, ..Pause::default() };
    world.set_clocks(Clocks { pause, ..Clocks::default() });
    // What hangs is the write that ends the streak.
    world.limits.faults.then(None).always(Fault::Hangs);
    let (delivered, log) = logged(|| world.deliver(&[event("a:1").first()]));
    assert_eq!((delivered.remaining.len(), world.sent().len()), (0, 1));
    assert!(log.contains("delivered_unrecorded"), "{log}");
}

#[test]
fn ack_4_an_attempt_that_takes_its_whole_timeout_is_still_recorded() {
    let world = patient();
    world.receivers.reply("a:1", &[Reply::Slow(200, Duration::from_secs(20))]);
    world.ledger.writes.then(Fault::Slow(Duration::from_secs(5)));
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0_usize; 0]);
    assert_eq!((world.state("a:1"), world.time.now()), (State::Delivered, at(25_000)));
}
