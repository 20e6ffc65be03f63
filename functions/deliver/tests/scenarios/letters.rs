//! DLQ-1, DLQ-4, RET-5, RET-8: how a delivery ends for a person.

use lapse_policy::ledger::{Record, State};
use lapse_policy::message::Message;
use lapse_policy::reason::Reason;
use serde_json::json;

use crate::world::{Reply, World, event, received};

#[test]
fn dlq_1_the_record_is_dead_first_then_the_letter_is_sent_then_it_is_acknowledged() {
    let world = World::new();
    world.receivers.reply("a:1", &[Reply::Status(400)]);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0_usize; 0]);
    let calls = world.calls();
    let place = |call: &str| calls.iter().position(|line| line == call).expect(call);
    assert!(place("ledger write dead") < place("failures: send 1"), "{calls:?}");
    let letter = Message::parse(&world.letters()[0]).expect("a message still");
    assert_eq!(letter.mark.and_then(|mark| mark.epoch), Some(1));
    assert_eq!(*letter.payload, *r#"{ "of" : "a:1" }"#);
}

#[test]
fn dlq_1_a_dead_records_letter_is_sent_again_until_triage_has_seen_it() {
    let dead = |triaged_epoch| move |record| Record { state: State::Dead, epoch: 2, triaged_epoch, ..record };
    for (label, triaged, letters) in [("not triaged", None, 1), ("an older one", Some(1), 1), ("triaged", Some(2), 0)] {
        let world = World::new();
        world.put("a:1", dead(triaged));
        let before = world.record("a:1");
        assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0], "{label}");
        assert_eq!((world.letters().len(), world.sent().len()), (letters, 0), "{label}");
        assert_eq!(world.record("a:1"), before, "{label}: not written");
    }
}

#[test]
fn dlq_1_a_letter_replaces_an_older_mark() {
    let world = World::new();
    world.put("a:1", |record| Record { state: State::Dead, epoch: 2, ..record });
    world.deliver(&[event("a:1").marked(1).first()]);
    let letters = world.letters();
    assert_eq!(letters[0].matches(r#""dead""#).count(), 1, "{letters:?}");
    assert_eq!(Message::parse(&letters[0]).expect("a message").mark.and_then(|mark| mark.epoch), Some(2));
}

#[test]
fn dlq_4_a_malformed_letter_that_comes_back_is_parsed_again() {
    let world = World::new();
    world.deliver(&[received("hello", 1)]);
    let letter = world.letters().remove(0);
    world.deliver(&[received(&letter, 1)]);
    let again = world.letters().remove(1);
    let beginning = r#"{"malformed":"hello","dead":"#;
    assert!(letter.starts_with(beginning) && again.starts_with(beginning), "wrapped once, not twice: {again}");
    let understood = event("a:1").body();
    let wrapped = json!({"malformed": understood, "dead": {"at": "2026-11-30T11:00:00Z"}}).to_string();
    assert_eq!(world.deliver(&[received(&wrapped, 1)]).remaining, [0_usize; 0]);
    assert_eq!(world.state("a:1"), State::Delivered, "a newer version understands it");
}

#[track_caller]
fn check_ends(label: &str, members: &serde_json::Value, reply: Reply, reason: Reason) {
    let world = World::with(members);
    world.receivers.reply("a:1", &[reply]);
    let deadline = crate::world::at(1_800_000);
    let delivered = world.deliver(&[event("a:1").by(deadline).first()]);
    assert_eq!((world.state("a:1"), world.record("a:1").reason), (State::Dead, Some(reason)), "{label}");
    assert_eq!((delivered.remaining.len(), world.letters().len()), (0, 1), "{label}");
}

#[test]
fn ret_what_ends_a_delivery_after_an_attempt() {
    let none = json!({});
    let once = json!({"policy": {"max_attempts": 1}});
    check_ends("RET-5", &once, Reply::Status(500), Reason::AttemptsExhausted);
    check_ends("RET-8", &none, Reply::Later(503, 604_801), Reason::RetryAfterExceedsLimit);
    check_ends("RET-6", &none, Reply::Later(429, 1801), Reason::RetryAfterExceedsDeadline);
    check_ends("CLS-7", &none, Reply::Status(301), Reason::Redirect);
}
