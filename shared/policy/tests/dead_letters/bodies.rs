//! The bodies that a walk meets, each read once by the real parser. Every body that is a message must have the
//! payload that its producer wrote, to the byte.

use std::collections::HashMap;

use lapse_policy::message::{Letter, Malformed, Mark, Message, malformed_letter};
use lapse_policy::timestamp::Timestamp;

/// Number forms, escapes and white space that a careless rewrite would change.
const PAYLOAD: &str = r#"{ "n" : 1.0e2, "s":"\u00e9\/" }"#;

/// A body's number.
pub(crate) type BodyId = usize;

/// One body, as `deliver` and as `triage` read it.
#[derive(Debug)]
pub(crate) struct Body {
    text: String,
    /// Which delivery of the world it belongs to.
    pub(crate) delivery: usize,
    /// The message, or why it is none.
    pub(crate) message: Result<Message, Malformed>,
    /// What `triage` makes of it.
    pub(crate) letter: Letter,
}

impl Body {
    /// The mark that it carries.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match &self.letter {
            Letter::Marked { mark, .. } => Some(*mark),
            Letter::Unmarked(_) | Letter::Unreadable => None,
        }
    }

    /// The epoch of its mark.
    pub(crate) fn epoch(&self) -> Option<u32> {
        self.mark().and_then(|mark| mark.epoch)
    }
}

/// All bodies of a walk.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    all: Vec<Body>,
    by_text: HashMap<String, BodyId>,
    letters: HashMap<(BodyId, Option<u32>, Timestamp), BodyId>,
}

impl Bodies {
    /// The message of a producer.
    pub(crate) fn produced(&mut self, delivery: usize, deadline: Timestamp) -> BodyId {
        let text = format!(
            r#"{{"v":1,"id":"event_{delivery}:1","destination":"catalog","type":"t",
                "occurred_at":"2025-11-30T12:00:00Z","deadline":"{deadline}","more":[1.50],"payload":{PAYLOAD}}}"#
        );
        self.known(delivery, text)
    }

    /// A body that is no message.
    pub(crate) fn malformed(&mut self, delivery: usize, text: &str) -> BodyId {
        self.known(delivery, text.to_owned())
    }

    /// The letter that `deliver` sends for a body (DLQ-1, DLQ-4); `None` is the epoch of a malformed one.
    pub(crate) fn letter(&mut self, body: BodyId, epoch: Option<u32>, now: Timestamp) -> BodyId {
        if let Some(known) = self.letters.get(&(body, epoch, now)) {
            return *known;
        }
        let Body { text, delivery, message, .. } = &self.all[body];
        let letter = match (message, epoch) {
            (Ok(message), Some(epoch)) => message.letter(epoch, now),
            (Err(error), None) => malformed_letter(text, error, now).expect("there is room for a mark"),
            (Ok(_), None) | (Err(_), Some(_)) => panic!("a letter has an epoch where there is a record"),
        };
        let letter = self.known(*delivery, letter);
        self.letters.insert((body, epoch, now), letter);
        letter
    }

    fn known(&mut self, delivery: usize, text: String) -> BodyId {
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        let message = Message::parse(&text);
        if let Ok(message) = &message {
            assert_eq!(&*message.payload, PAYLOAD, "the payload's bytes have changed in {text}");
            assert_eq!(message.key.to_string(), format!("catalog#event_{delivery}:1"));
            assert!(text.contains(r#""more":[1.50]"#), "a field that is not ours is gone from {text}");
        } else if let Some(first) = self.all.iter().find(|body| body.delivery == delivery) {
            assert_eq!(message, first.message, "unwrapped, it is what its producer wrote: {text}");
        }
        let letter = Letter::parse(&text);
        self.by_text.insert(text.clone(), self.all.len());
        self.all.push(Body { text, delivery, message, letter });
        self.all.len() - 1
    }
}

impl std::ops::Index<BodyId> for Bodies {
    type Output = Body;

    fn index(&self, body: BodyId) -> &Body {
        &self.all[body]
    }
}
