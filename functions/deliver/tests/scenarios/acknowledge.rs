//! ACK-1 to ACK-3, ACK-7: nothing is acknowledged before its successor is stored, and each message stands alone.

use lapse_policy::ledger::{Record, State};
use lapse_policy::ports::Accepted;
use serde_json::json;

use crate::world::{Fault, Reply, World, at, event, firsts, logged, received};

/// A world whose only message is to go on by some means, which is refused: the message remains.
#[track_caller]
fn check_remains(label: &str, world: &World, state: State) {
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    let delivered = world.deliver(&[event("a:1").first()]);
    assert_eq!(delivered.remaining, [0], "{label}: the message remains");
    assert_eq!(world.state("a:1"), state, "{label}: the record is stored first");
}

fn retrying_after(seconds: u64) -> World {
    World::with(&json!({"policy": {"schedule_s": [seconds]}}))
}

#[test]
fn ack_1_a_message_remains_until_its_republished_one_is_accepted() {
    let refusals: [fn(usize) -> Accepted; 2] = [|_| Accepted::No("busy".into()), |_| Accepted::Never("no".into())];
    for refusal in refusals {
        let world = retrying_after(60);
        world.deliveries.takes.replace(refusal);
        check_remains("republish", &world, State::Waiting);
        assert_eq!(world.republished(), Vec::<i32>::new());
    }
}

#[test]
fn ack_1_a_message_remains_until_its_row_is_stored() {
    let world = retrying_after(1000);
    world.schedule.down.set(true);
    check_remains("park", &world, State::Waiting);
}

#[test]
fn ack_1_a_message_remains_until_its_letter_is_accepted() {
    let world = World::with(&json!({"policy": {"max_attempts": 1}}));
    world.failures.takes.replace(|_| Accepted::No("busy".into()));
    check_remains("letter", &world, State::Dead);
    world.failures.takes.replace(|_| Accepted::Yes);
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0], "DLQ-1: the next receive sends it");
    assert_eq!((world.letters().len(), world.sent().len()), (1, 1), "and nothing is attempted again");
}

#[test]
fn ack_1_only_the_entry_that_was_refused_remains() {
    let world = retrying_after(60);
    for id in ["a:1", "a:2", "a:3", "a:4"] {
        world.receivers.reply(id, &[Reply::Status(500)]);
    }
    world.deliveries.takes.replace(|index| if index == 2 { Accepted::No("busy".into()) } else { Accepted::Yes });
    let batch = firsts(4);
    assert_eq!(world.deliver(&batch).remaining, [2]);
    assert_eq!(world.republished(), [60, 60, 60]);
}

#[test]
fn ack_2_a_panic_while_one_is_sent_leaves_the_nine_others_delivered() {
    let world = World::new();
    world.receivers.reply("a:4", &[Reply::Panics]);
    let batch = firsts(10);
    let delivered = world.deliver(&batch);
    assert_eq!(delivered.remaining, [3]);
    assert_eq!(delivered.tally.sum().delivered, 9);
    assert_eq!(world.state("a:4"), State::Sending, "its lease will tell that its worker broke");
    assert_eq!(world.state("a:10"), State::Delivered);
}

#[test]
fn ack_2_a_malformed_body_beside_good_ones_is_a_letter_of_its_own() {
    let world = World::new();
    let delivered = world.deliver(&[event("a:1").first(), received("hello", 1), event("a:2").first()]);
    assert_eq!(delivered.remaining, [0_usize; 0]);
    assert_eq!((delivered.tally.malformed, delivered.tally.sum().delivered), (1, 2));
    let letters = world.letters();
    assert!(letters[0].starts_with(r#"{"malformed":"hello","dead":{"at":"#), "DLQ-4: {letters:?}");
    assert!(letters[0].contains(r#""reason":"malformed_message""#), "{letters:?}");
}

#[test]
fn ack_1_a_malformed_body_remains_until_its_letter_is_accepted() {
    let world = World::new();
    world.failures.takes.replace(|_| Accepted::No("busy".into()));
    assert_eq!(world.deliver(&[received("{}", 1), event("a:1").first()]).remaining, [0]);
}

#[test]
fn ack_2_an_adapter_that_breaks_fails_those_who_needed_it() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    world.deliveries.panics.set(true);
    let delivered = world.deliver(&[event("a:1").first(), event("a:2").first()]);
    assert_eq!(delivered.remaining, [0]);
    assert_eq!((world.state("a:1"), world.state("a:2")), (State::Waiting, State::Delivered));
}

#[test]
fn ack_3_a_failed_hide_leaves_the_message_to_the_queues_own_visibility() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    world.deliveries.takes.replace(|_| Accepted::No("ReceiptHandleIsInvalid".into()));
    let (delivered, log) = logged(|| world.deliver(&[event("a:1").first()]));
    assert_eq!(delivered.remaining, [0]);
    assert_eq!(delivered.tally.sum().deferred, 0);
    assert!(log.contains("deferral_failed"), "{log}");
}

#[test]
fn ack_7_at_100_receives_a_message_is_republished_rather_than_deferred() {
    let waiting = |record: Record| Record { next_at: Some(at(20_000)), ..record };
    let sending = |record| Record { state: State::Sending, lease: Some(at(20_000)), ..record };
    let down = |world: &World| world.limits.faults.always(Fault::Unavailable);
    let not_yet = |world: &World| world.put("a:1", waiting);
    let busy = |world: &World| world.put("a:1", sending);
    let arrangements: [&dyn Fn(&World); 3] = [&not_yet, &busy, &down];
    let labels = [("not yet", 20), ("someone else is sending", 21), ("the limiter is down", 1)];
    for ((label, seconds), arrange) in labels.into_iter().zip(arrangements) {
        for (receives, hidden, republished) in [(99, vec![seconds], vec![]), (100, vec![], vec![seconds])] {
            let world = World::new();
            arrange(&world);
            let delivered = world.deliver(&[event("a:1").again(receives)]);
            assert_eq!(delivered.remaining.len(), hidden.len(), "{label}: {receives}");
            assert_eq!((world.hidden(), world.republished()), (hidden, republished), "{label}: {receives}");
            for again in world.deliveries.sent.borrow().iter() {
                assert_eq!(*again.body, event("a:1").body(), "{label}: the same body");
                assert_eq!(again.origin, lapse_policy::schedule::Origin::Resumed, "{label}: its record is read first");
            }
        }
    }
}
