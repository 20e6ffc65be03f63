//! LED-5, LED-9, LED-10: copies of a delivery, and deliveries that must wait.

use std::time::Duration;

use lapse_policy::ledger::{Record, State};
use lapse_policy::timestamp::Micros;

use crate::world::{Reply, World, at, event};

#[test]
fn led_5_what_is_delivered_is_acknowledged_and_not_sent_again() {
    let world = World::new();
    for receives in [1, 2] {
        world.deliver(&[event("a:1").again(receives)]);
    }
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0_usize; 0], "a producer's own repeat");
    assert_eq!(world.sent(), ["a:1"]);
}

#[test]
fn led_9_two_copies_in_a_batch_are_one_request() {
    let world = World::new();
    let delivered = world.deliver(&[event("a:1").first(), event("a:1").first(), event("a:1").again(3)]);
    assert_eq!((delivered.remaining.len(), world.sent().len()), (0, 1));
    assert_eq!(delivered.tally.sum().duplicates, 2);
}

#[test]
fn led_9_copies_share_a_deferral() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    let delivered = world.deliver(&[event("a:1").first(), event("a:2").first(), event("a:1").first()]);
    assert_eq!(delivered.remaining, [0, 2]);
    let hidden = world.deliveries.hidden.borrow();
    assert_eq!(*hidden, [("r0".to_owned(), 2), ("r2".to_owned(), 2)]);
}

#[test]
fn led_9_copies_share_a_republished_message_and_a_letter() {
    let waiting = |record| Record { next_at: Some(at(60_000)), ..record };
    let dead = |record| Record { state: State::Dead, ..record };
    let world = World::new();
    world.put("a:1", waiting);
    world.put("a:2", dead);
    let copies = ["a:1", "a:2", "a:1", "a:2"].map(|id| event(id).again(2));
    assert_eq!(world.deliver(&copies).remaining, [0_usize; 0]);
    assert_eq!((world.republished(), world.letters().len()), (vec![60], 1));
}

#[test]
fn led_10_what_is_not_yet_due_waits_by_its_record_which_is_not_written() {
    for (label, next_at, hidden, republished, parked) in [
        ("floor second", 20_999, vec![20], vec![], vec![]),
        ("30 s", 30_000, vec![30], vec![], vec![]),
        ("over 30 s", 60_000, vec![], vec![60], vec![]),
        ("15 min", 900_000, vec![], vec![900], vec![]),
        ("longer", 900_001, vec![], vec![], vec![at(900_001)]),
    ] {
        let world = World::new();
        world.put("a:1", |record| Record { next_at: Some(at(next_at)), planned_at: Some(Micros(77)), ..record });
        let before = world.record("a:1");
        world.deliver(&[event("a:1").again(2)]);
        assert_eq!((world.hidden(), world.republished(), world.parked()), (hidden, republished, parked), "{label}");
        assert_eq!(world.record("a:1"), before, "{label}: not written");
        assert!(!world.calls().iter().any(|call| call.starts_with("ledger write")), "{label}");
    }
}

#[test]
fn led_10_all_copies_of_a_parked_delivery_put_the_same_row() {
    let world = World::new();
    world.put("a:1", |record| Record { next_at: Some(at(5_000_000)), ..record });
    world.deliver(&[event("a:1").again(2)]);
    world.time.pass(Duration::from_secs(1234));
    world.deliver(&[event("a:1").resumed()]);
    world.deliver(&[event("a:1").first(), event("a:1").again(9)]);
    assert_eq!(world.parked(), [at(5_000_000)]);
    assert_eq!(world.schedule.rows.borrow()[0].origin, lapse_policy::schedule::Origin::Resumed);
}

#[test]
fn led_10_a_message_that_waits_goes_on_with_the_same_bytes() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Later(500, 60), Reply::Later(500, 2000)]);
    world.deliver(&[event("a:1").first()]);
    let republished = world.deliveries.sent.borrow()[0].body.clone();
    assert_eq!(*republished, event("a:1").body());
    world.time.pass(Duration::from_secs(61));
    world.deliver(&[event("a:1").resumed()]);
    let row = world.schedule.rows.borrow()[0].clone();
    assert_eq!(*row.body, event("a:1").body());
    assert_eq!(Some(row.key.due), world.record("a:1").next_at, "due is the record's next_at");
    let requests = world.receivers.requests.borrow();
    assert_eq!(requests[0].payload, r#"{ "of" : "a:1" }"#, "the payload's own bytes");
    assert_eq!(requests[1].payload, requests[0].payload);
    assert_eq!((requests[0].number, requests[1].number), (1, 2));
}
