//! Any text as the body of a message: what is read is what was sent, and its letter can come back.
//!
//! Owns: what must hold of [`Message`], [`Letter`] and [`malformed_letter`] for one body (DLQ-1, DLQ-4).
//! Must not: say which bodies are valid; tables beside the parser do.
#![expect(clippy::expect_used, reason = "a broken promise is a panic here")]

use lapse_policy::members::Members;
use lapse_policy::message::{Letter, MAX_SQS_BYTES, Malformed, Mark, Message, malformed_letter};
use lapse_policy::names::DeliveryKey;
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_000_000);
/// Errors are logged and are in letters: they name the field, and do not repeat what is in it (OBS-4).
const LONGEST_ERROR: usize = 200;

/// Reads the bytes as a body. SQS gives texts, so bytes that are none are replaced.
pub fn check(data: &[u8]) {
    let body = String::from_utf8_lossy(data);
    match Message::parse(&body) {
        Ok(message) => {
            what_was_read_is_what_was_sent(&body, &message);
            the_letter_is_the_message_again(&message);
        }
        Err(error) => the_letter_keeps_what_it_was(&body, &error),
    }
}

fn what_was_read_is_what_was_sent(body: &str, message: &Message) {
    assert!(message.body.contains(&*message.payload), "the payload has other bytes than the body");
    if *message.body != *body {
        assert_eq!(wrapped(body).as_deref(), Some(&*message.body), "the body has other bytes than were received");
    }
    assert_eq!(Message::parse(&message.body).as_ref(), Ok(message), "the same bytes are another message");
    assert_eq!(DeliveryKey::parse(&message.key.to_string()).as_ref(), Ok(&message.key));
    for instant in [Some(message.occurred_at), message.deadline].into_iter().flatten() {
        assert_eq!(Timestamp::parse(&instant.to_string()), Ok(instant));
    }
    match Letter::parse(body) {
        Letter::Marked { key, .. } => assert_eq!(key.as_ref(), Some(&message.key)),
        Letter::Unmarked(key) => assert_eq!(key, message.key),
        Letter::Unreadable => unreachable!("a message is a readable letter"),
    }
}

/// DLQ-1: a redrive of the letter delivers what the message would have.
fn the_letter_is_the_message_again(message: &Message) {
    let mark = Mark { epoch: Some(u32::MAX), at: NOW };
    let letter = message.letter(u32::MAX, NOW);
    let again = Message::parse(&letter).expect("a letter can come back");
    let expected = Message { mark: Some(mark), body: again.body.clone(), ..message.clone() };
    assert_eq!(again, expected, "the letter is another message");
    assert_eq!(again.letter(u32::MAX, NOW), letter, "a second death changes more than the mark");
    assert_eq!(Letter::parse(&letter), Letter::Marked { mark, key: Some(message.key.clone()) });
}

/// DLQ-4: an object keeps its members, all else its text, and each is marked.
fn the_letter_keeps_what_it_was(body: &str, error: &Malformed) {
    assert!(error.to_string().len() <= LONGEST_ERROR, "an error shows the body: {error}");
    let Some(letter) = malformed_letter(body, error, NOW) else {
        // A byte is at most six in a JSON string.
        assert!(body.len() > (MAX_SQS_BYTES - 2 * LONGEST_ERROR) / 6, "there was room for a mark");
        return;
    };
    let Letter::Marked { mark, .. } = Letter::parse(&letter) else { unreachable!("the letter has no mark: {letter}") };
    assert_eq!(mark, Mark { epoch: None, at: NOW });
    let kept = wrapped(body).unwrap_or_else(|| body.to_owned());
    if let Ok(members) = Members::parse(&kept) {
        let marked = Members::parse(&letter).expect("an object");
        assert_eq!(marked.with("dead", "0"), members.with("dead", "0"), "a member has changed");
    } else {
        assert_eq!(wrapped(&letter), Some(kept), "the text has changed");
        assert_eq!(Message::parse(&letter).as_ref(), Err(error), "the letter is malformed in another way");
        assert_eq!(malformed_letter(&letter, error, NOW), Some(letter), "it is wrapped twice");
    }
}

/// The text in a wrapped body: an object with no members but ours.
fn wrapped(body: &str) -> Option<String> {
    let members = Members::parse(body).ok().filter(|members| members.only(&["malformed", "dead"]))?;
    serde_json::from_str(members.get("malformed").ok()??.get()).ok()
}
