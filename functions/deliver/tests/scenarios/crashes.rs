//! LED-4: leases, crashes and poison.

use lapse_policy::ledger::{Record, State};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;

use crate::world::{NOW, Reply, World, at, event, events};

fn sending(lease: Timestamp, crashes: u32) -> impl FnOnce(Record) -> Record {
    move |record| Record { state: State::Sending, lease: Some(lease), crashes, ..record }
}

fn just_over() -> Timestamp {
    NOW.minus(std::time::Duration::from_millis(1))
}

#[test]
fn led_4_what_someone_else_is_sending_is_deferred_until_its_lease_ends() {
    for (lease, seconds) in [(9000, 10), (29_500, 30), (100_000, 30)] {
        let world = World::new();
        world.put("a:1", sending(at(lease), 0));
        let before = world.record("a:1");
        assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0]);
        assert_eq!((world.hidden(), world.sent().len()), (vec![seconds], 0), "{lease}");
        assert_eq!(world.record("a:1"), before, "{lease}: not written");
    }
}

#[test]
fn led_4_a_claim_holds_a_lease_five_seconds_longer_than_its_invocation() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Hangs]);
    world.deliver(&[event("a:1").first()]);
    assert_eq!(world.record("a:1").lease, Some(at(35_000)));
}

#[test]
fn led_4_an_expired_lease_is_a_crash_whose_outcome_is_unknown() {
    let world = World::new();
    world.put("a:1", sending(just_over(), 0));
    world.receivers.reply("a:1", &[Reply::Hangs]);
    world.deliver(&[event("a:1").again(2)]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.crashes, record.unknown_outcome), (State::Sending, 1, true));
    world.time.pass(std::time::Duration::from_secs(10));
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    world.deliver(&[event("a:1").again(3)]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.crashes, record.attempts), (State::Waiting, 0, 1), "a completed attempt ends it");
}

#[test]
fn led_4_what_may_have_killed_its_worker_is_claimed_alone_after_all_others() {
    let world = World::new();
    world.put("a:1", sending(just_over(), 0));
    world.put("a:3", |record| Record { crashes: 1, ..record });
    let batch: Vec<_> = events(4).iter().map(|event| event.again(2)).collect();
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    let calls: Vec<_> = world.calls().into_iter().skip(3).collect();
    let expected = ["ledger write sending sending", "send a:2", "send a:4", "ledger write delivered delivered"];
    assert_eq!(calls[..4], expected, "{calls:?}");
    let alone: Vec<_> = calls[4..].iter().filter(|call| !call.contains("plan") && !call.contains("gate")).collect();
    let one = |id: &str| ["ledger write sending".to_owned(), format!("send {id}"), "ledger write delivered".to_owned()];
    assert_eq!(alone, [one("a:1"), one("a:3")].concat().iter().collect::<Vec<_>>(), "{calls:?}");
}

#[test]
fn led_4_a_suspect_that_shows_only_when_its_claim_is_refused_comes_back_to_be_alone() {
    let world = World::new();
    world.put("a:1", sending(just_over(), 0));
    let delivered = world.deliver(&[event("a:1").first(), event("a:2").first()]);
    assert_eq!((delivered.remaining, world.sent()), (vec![0], vec!["a:2".to_owned()]));
    assert_eq!(world.hidden(), [1]);
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0], "then it is read first");
    assert_eq!(world.sent(), ["a:2", "a:1"]);
}

#[test]
fn led_4_the_third_crash_in_a_row_is_poison() {
    let world = World::new();
    world.put("a:1", sending(just_over(), 2));
    let delivered = world.deliver(&[event("a:1").again(4)]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.reason, record.crashes), (State::Dead, Some(Reason::Poison), 3));
    assert_eq!((delivered.remaining.len(), world.sent().len(), world.letters().len()), (0, 0, 1));
    assert!(record.last_error.is_some_and(|error| error.contains("three times")), "the operator reads why");
}

#[test]
fn led_4_a_sender_that_panics_each_time_ends_as_poison() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Panics, Reply::Panics, Reply::Panics]);
    for receives in 1..=4 {
        world.deliver(&[event("a:1").again(receives)]);
        world.time.pass(std::time::Duration::from_secs(180));
    }
    assert_eq!((world.record("a:1").reason, world.sent().len()), (Some(Reason::Poison), 3));
}
