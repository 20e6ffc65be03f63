//! DLQ-3, DLQ-5: a redrive starts a new epoch; an ordinary copy does not.

use std::time::Duration;

use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::reason::Reason;

use crate::world::{NOW, Reply, World, at, event, slow};

const DAY: u64 = 86_400_000;

fn dead(epoch: u32) -> impl FnOnce(Record) -> Record {
    move |record| Record {
        state: State::Dead,
        version: 7,
        epoch,
        attempts: 12,
        crashes: 3,
        unknown_outcome: true,
        reason: Some(Reason::AttemptsExhausted),
        triaged_epoch: Some(epoch),
        ..record
    }
}

#[test]
fn dlq_3_a_mark_of_the_dead_epoch_starts_the_next_one() {
    let world = World::new();
    world.put("a:1", dead(1));
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    let past = event("a:1").by(NOW.minus(Duration::from_hours(1)));
    let delivered = world.deliver(&[past.marked(1).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.epoch, record.attempts, record.crashes), (State::Waiting, 2, 1, 0));
    assert_eq!(record.redrive_until, Some(at(DAY)), "the event's own deadline is past; this one holds");
    assert!(record.unknown_outcome, "an earlier attempt may have reached the receiver");
    assert_eq!(delivered.tally.sum().epochs_started, 1);
    assert_eq!(world.receivers.requests.borrow()[0].number, 1, "a new epoch's first request");
}

#[test]
fn dlq_3_the_new_epoch_is_worked_on_to_its_end_like_any_other() {
    let world = World::new();
    world.put("a:1", dead(1));
    world.receivers.reply("a:1", &[Reply::Status(500), Reply::Status(400)]);
    let message = event("a:1").marked(1);
    world.deliver(&[message.first()]);
    world.time.pass(Duration::from_secs(2));
    let delivered = world.deliver(&[message.again(2)]);
    assert_eq!(delivered.tally.sum().epochs_started, 0, "counted once");
    assert_eq!((world.state("a:1"), world.record("a:1").epoch), (State::Dead, 2));
    assert!(world.letters()[0].contains(r#""dead":{"epoch":2"#), "{:?}", world.letters());
    world.deliver(&[message.again(3)]);
    assert_eq!((world.record("a:1").epoch, world.letters().len()), (2, 2), "its old mark is an ordinary copy now");
}

#[test]
fn dlq_3_a_mark_of_an_older_epoch_is_an_ordinary_copy() {
    for (label, mark) in [("older", Some(1)), ("none", None), ("ahead", Some(9))] {
        let world = World::new();
        world.put("a:1", dead(2));
        let message = mark.map_or_else(|| event("a:1"), |epoch| event("a:1").marked(epoch));
        assert_eq!(world.deliver(&[message.again(2)]).remaining, [0_usize; 0], "{label}");
        assert_eq!((world.state("a:1"), world.record("a:1").epoch), (State::Dead, 2), "{label}");
        assert_eq!(world.sent().len(), 0, "{label}");
    }
}

#[test]
fn dlq_3_a_redriven_delivery_that_must_wait_is_stored_waiting_in_its_new_epoch() {
    let world = World::with(&slow());
    world.put("a:1", dead(1));
    world.set_clocks(Clocks { plan: Some(at(20_000).micros()), ..Clocks::default() });
    world.deliver(&[event("a:1").marked(1).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.epoch, record.attempts), (State::Waiting, 2, 0));
    assert_eq!((record.next_at, record.planned_at), (Some(at(20_000)), Some(at(20_000).micros())));
    assert_eq!((world.hidden(), world.sent().len()), (vec![20], 0));
}

#[test]
fn dlq_3_a_redrive_where_the_limiter_is_down_starts_no_epoch() {
    let world = World::with(&slow());
    world.put("a:1", dead(1));
    world.limits.faults.always(crate::world::Fault::Unavailable);
    assert_eq!(world.deliver(&[event("a:1").marked(1).first()]).remaining, [0]);
    assert_eq!((world.state("a:1"), world.record("a:1").epoch), (State::Dead, 1));
}

#[test]
fn dlq_3_a_redrive_to_a_destination_that_is_missing_dies_in_the_new_epoch() {
    let world = World::new();
    world.put("a:1", dead(1));
    world.destinations.rows.borrow_mut().clear();
    world.deliver(&[event("a:1").marked(1).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.epoch, record.reason), (State::Dead, 2, Some(Reason::UnknownDestination)));
    assert!(world.letters()[0].contains(r#""dead":{"epoch":2"#), "{:?}", world.letters());
}

#[test]
fn dlq_3_two_copies_of_a_redriven_letter_start_one_epoch() {
    let world = World::new();
    world.put("a:1", dead(1));
    let message = event("a:1").marked(1);
    world.deliver(&[message.first(), message.first()]);
    world.deliver(&[message.first()]);
    assert_eq!((world.record("a:1").epoch, world.sent().len()), (2, 1));
}

#[test]
fn dlq_3_a_redrive_whose_record_is_gone_keeps_its_epochs_number() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Status(400)]);
    world.deliver(&[event("a:1").marked(3).first()]);
    assert_eq!(world.record("a:1").epoch, 3);
}

#[test]
fn dlq_5_what_sqs_itself_moved_is_an_ordinary_receive_of_whatever_its_record_says() {
    let world = World::new();
    world.put("a:1", |record| Record { attempts: 4, ..record });
    world.deliver(&[event("a:1").again(1000)]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.attempts, record.epoch), (State::Delivered, 5, 1), "receives are never attempts");
}
