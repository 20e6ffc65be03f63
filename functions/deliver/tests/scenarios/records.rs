//! LED-2, LED-3, LED-6, LED-9: claims and completions against a ledger that fails, and against others.

use lapse_policy::classifier::Failure;
use lapse_policy::ledger::{Record, State};

use crate::world::{Fault, Reply, World, at, event};

#[test]
fn led_2_a_first_receive_reads_nothing_and_a_later_one_reads_first() {
    for (label, message, read) in [
        ("first", event("a:1").first(), false),
        ("second", event("a:1").again(2), true),
        ("resumed", event("a:1").resumed(), true),
        ("redriven", event("a:1").marked(1).first(), true),
    ] {
        let world = World::new();
        assert_eq!(world.deliver(&[message]).remaining, [0_usize; 0], "{label}");
        assert_eq!(world.calls()[0] == "ledger read 1", read, "{label}");
    }
}

#[test]
fn led_2_one_read_serves_all_of_a_batch_that_may_have_a_record() {
    let world = World::new();
    world.deliver(&[event("a:1").again(2), event("a:2").first(), event("a:3").resumed()]);
    let reads: Vec<_> = world.calls().into_iter().filter(|call| call.starts_with("ledger read")).collect();
    assert_eq!(reads, ["ledger read 2"]);
}

#[test]
fn led_2_without_the_ledger_only_first_receives_are_tried() {
    let world = World::new();
    world.ledger.reads.always(Fault::Unavailable);
    let delivered = world.deliver(&[event("a:1").again(2), event("a:2").first()]);
    assert_eq!((delivered.remaining, world.sent()), (vec![0], vec!["a:2".to_owned()]));
    assert_eq!(world.hidden(), [1]);
}

/// A ledger that fails once does no harm: one request, and the record says Delivered.
#[track_caller]
fn check_once(label: &str, faults: &[Option<Fault>]) {
    let world = World::new();
    for fault in faults {
        world.ledger.writes.then(*fault);
    }
    let delivered = world.deliver(&[event("a:1").first(), event("a:2").first()]);
    assert_eq!(delivered.remaining, [0_usize; 0], "{label}");
    assert_eq!(world.sent(), ["a:1", "a:2"], "{label}: each once");
    let record = world.record("a:1");
    assert_eq!((record.state, record.version, record.attempts), (State::Delivered, 2, 1), "{label}");
}

#[test]
fn led_3_a_write_whose_reply_was_lost_is_known_by_its_token() {
    check_once("claim", &[Some(Fault::LostReply)]);
    check_once("completion", &[None, Some(Fault::LostReply)]);
    check_once("both", &[Some(Fault::LostReply), Some(Fault::LostReply)]);
}

#[test]
fn led_9_a_write_that_was_not_stored_is_tried_once_more() {
    check_once("claim, throttled", &[Some(Fault::Throttled)]);
    check_once("claim, never arrived", &[Some(Fault::Unavailable)]);
    check_once("completion, throttled", &[None, Some(Fault::Throttled)]);
    check_once("completion, never arrived", &[None, Some(Fault::Unavailable)]);
}

#[test]
fn led_9_a_claim_that_is_throttled_twice_is_deferred_and_not_sent() {
    let world = World::new();
    world.ledger.writes.always(Fault::Throttled);
    world.luck.draws.set(0.5);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    assert_eq!((world.hidden(), world.sent().len()), (vec![5], 0));
}

#[test]
fn led_3_a_claim_whose_fate_is_unknown_is_not_sent() {
    let world = World::new();
    world.ledger.writes.then(Fault::LostReply);
    world.ledger.reads.always(Fault::Unavailable);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    assert_eq!(world.sent().len(), 0);
}

/// Another worker has taken over while we send.
fn taken_over(state: State, reply: Reply) -> (World, Vec<usize>) {
    let world = World::new();
    world.receivers.reply("a:1", &[reply]);
    let theirs = |record| Record { state, version: 9, attempts: 4, lease: Some(at(60_000)), ..record };
    let delivered = world.deliver_while(&[event("a:1").first()], async {
        world.sleep(10).await;
        world.put("a:1", theirs);
    });
    (world, delivered.remaining)
}

#[test]
fn led_6_a_2xx_is_written_over_whatever_a_successor_has_written() {
    for state in [State::Sending, State::Waiting, State::Dead] {
        let (world, remaining) = taken_over(state, Reply::Status(200));
        let record = world.record("a:1");
        assert_eq!((record.state, record.version), (State::Delivered, 10), "over {state:?}");
        assert_eq!(remaining, [0_usize; 0], "over {state:?}");
    }
    let (world, remaining) = taken_over(State::Delivered, Reply::Status(200));
    assert_eq!((world.record("a:1").version, remaining.len()), (9, 0), "Delivered is left as it is");
}

#[test]
fn led_6_a_2xx_is_written_anew_where_the_record_is_gone() {
    let world = World::new();
    world.deliver_while(&[event("a:1").first()], async {
        world.sleep(10).await;
        world.ledger.records.borrow_mut().clear();
    });
    assert_eq!(world.state("a:1"), State::Delivered);
}

#[test]
fn led_6_a_late_run_that_failed_does_not_overwrite_its_successor() {
    for state in [State::Sending, State::Waiting, State::Dead, State::Delivered] {
        for reply in [Reply::Status(500), Reply::Status(429), Reply::Status(400)] {
            let (world, remaining) = taken_over(state, reply);
            let record = world.record("a:1");
            assert_eq!((record.state, record.version, record.attempts), (state, 9, 4), "{state:?}, {reply:?}");
            assert_eq!((remaining, world.hidden()), (vec![0], vec![1]), "{state:?}, {reply:?}: their record is next");
            assert_eq!(world.letters().len(), 0, "{state:?}, {reply:?}");
        }
    }
}

#[test]
fn led_2_a_first_receive_that_finds_a_record_goes_by_it() {
    for (label, state, lease, sent, hidden) in [
        ("delivered", State::Delivered, None, 0, vec![]),
        ("busy", State::Sending, Some(at(9000)), 0, vec![10]),
        ("due", State::Waiting, None, 1, vec![]),
        ("dead", State::Dead, None, 0, vec![]),
    ] {
        let world = World::new();
        world.put("a:1", |record| Record { state, lease, ..record });
        world.deliver(&[event("a:1").first()]);
        assert_eq!((world.sent().len(), world.hidden()), (sent, hidden), "{label}");
        assert_eq!(world.letters().len(), usize::from(state == State::Dead), "{label}");
    }
}

#[test]
fn lim_4_a_copy_that_planned_in_vain_waits_all_the_same() {
    let world = World::with(&crate::world::slow());
    world.put("a:1", |record| record);
    let plan = Some(at(20_000).micros());
    world.set_clocks(lapse_policy::clock::Clocks { plan, ..lapse_policy::clock::Clocks::default() });
    world.deliver(&[event("a:1").first()]);
    assert_eq!((world.sent().len(), world.state("a:1")), (0, State::Waiting));
}

#[test]
fn cls_6_a_request_without_an_answer_counts_and_leaves_the_outcome_unknown() {
    for (failure, unknown) in [(Failure::NoAnswer, true), (Failure::Refused, false)] {
        let world = World::new();
        world.receivers.reply("a:1", &[Reply::Fails(failure), Reply::Status(409)]);
        world.deliver(&[event("a:1").first()]);
        let record = world.record("a:1");
        assert_eq!((record.state, record.attempts, record.unknown_outcome), (State::Waiting, 1, unknown));
        world.time.pass(std::time::Duration::from_secs(2));
        world.deliver(&[event("a:1").again(2)]);
        let after = if unknown { State::Waiting } else { State::Dead };
        assert_eq!(world.state("a:1"), after, "CLS-4: a 409 may be our own earlier attempt's doing");
    }
}
