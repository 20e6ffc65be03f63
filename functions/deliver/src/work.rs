//! One delivery of a batch, with all the messages of the batch that are copies of it (LED-9).
//!
//! Owns: merging copies, and what a delivery's place in an invocation can come to. Must not: await.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::ledger::Record;
use lapse_policy::message::{Malformed, Message};
use lapse_policy::names::DeliveryKey;
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::{Micros, Timestamp};

/// One message of the batch.
#[derive(Debug, Clone)]
pub struct Copy {
    /// Where it stands in the batch.
    pub index: usize,
    /// For hiding it.
    pub receipt: String,
}

/// One delivery.
#[derive(Debug)]
pub struct Work {
    /// Which.
    pub key: DeliveryKey,
    /// The message; of several copies, the one with the latest mark.
    pub message: Arc<Message>,
    /// All of its messages: they share one disposition.
    pub copies: Vec<Copy>,
    /// The most often received copy's count.
    pub receives: u32,
    /// Whether a record may exist: it is read before anything else.
    pub origin: Origin,
    /// The record, as last read.
    pub record: Option<Record>,
    /// A planned time that was booked in this invocation.
    pub planned: Option<Micros>,
}

/// What a delivery comes to in this invocation.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Nothing is left to do: acknowledge.
    Acknowledge,
    /// It waits until then, by whatever means fits; the record says so too.
    Wait(Timestamp),
    /// It is dead in this epoch: send its letter, then acknowledge.
    Letter(u32),
    /// It could not be worked on: it comes back after this.
    Back(Duration),
    /// The same, as a message of its own: meanwhile it is not in flight.
    Again(Duration),
}

/// A batch, parsed and merged.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Deliveries, in the order of their first messages.
    pub works: Vec<Work>,
    /// Bodies that are no messages (DLQ-4).
    pub malformed: Vec<(Copy, Arc<str>, Malformed)>,
}

/// Parses every record on its own and merges copies (ACK-2, ACK-8).
#[must_use]
pub fn parse(batch: &[Received]) -> Parsed {
    let mut parsed = Parsed::default();
    let mut places: HashMap<DeliveryKey, usize> = HashMap::new();
    for (index, received) in batch.iter().enumerate() {
        let copy = Copy { index, receipt: received.receipt_handle.clone() };
        match Message::parse(&received.body) {
            Err(error) => parsed.malformed.push((copy, Arc::clone(&received.body), error)),
            Ok(message) => {
                if let Some(work) = places.get(&message.key).and_then(|place| parsed.works.get_mut(*place)) {
                    work.merge(copy, message, received);
                } else {
                    places.insert(message.key.clone(), parsed.works.len());
                    parsed.works.push(Work::new(copy, message, received));
                }
            }
        }
    }
    parsed
}

impl Work {
    fn new(copy: Copy, message: Message, received: &Received) -> Self {
        Self {
            key: message.key.clone(),
            message: Arc::new(message),
            copies: vec![copy],
            receives: received.receives,
            origin: received.origin,
            record: None,
            planned: None,
        }
    }

    fn merge(&mut self, copy: Copy, message: Message, received: &Received) {
        let epoch = |message: &Message| message.mark.and_then(|mark| mark.epoch);
        if epoch(&message) > epoch(&self.message) {
            self.message = Arc::new(message);
        }
        self.copies.push(copy);
        self.receives = self.receives.max(received.receives);
        if received.origin == Origin::Resumed {
            self.origin = Origin::Resumed;
        }
    }

    /// Whether a record may exist. A first receive is put if absent without a read (LED-2).
    #[must_use]
    pub fn may_have_record(&self) -> bool {
        self.receives > 1 || self.origin == Origin::Resumed || self.message.mark.is_some()
    }

    /// Whether it may be what its workers died of: it is worked on alone, after all others (LED-4).
    #[must_use]
    pub fn is_suspect(&self, now: Timestamp) -> bool {
        use lapse_policy::ledger::{Standing, standing};
        self.record.as_ref().is_some_and(|record| record.crashes > 0)
            || standing(self.record.as_ref(), self.message.mark, now) == Standing::Crashed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(body: &str, receives: u32) -> Received {
        Received {
            message_id: String::new(),
            receipt_handle: String::new(),
            body: body.into(),
            receives,
            sent_at: None,
            origin: Origin::New,
        }
    }

    fn body(id: &str, mark: &str) -> String {
        format!(
            r#"{{"v":1,"id":"{id}","destination":"catalog","type":"t","occurred_at":"2026-11-30T12:00:00Z","payload":1{mark}}}"#
        )
    }

    #[test]
    fn led_9_messages_with_the_same_delivery_key_are_one_delivery() {
        let marked = body("a:1", r#","dead":{"epoch":2,"at":"2026-11-30T12:00:00Z"}"#);
        let batch = [received(&body("a:1", ""), 1), received(&body("b:1", ""), 1), received(&marked, 4)];
        let parsed = parse(&batch);
        assert_eq!(parsed.works.len(), 2);
        let work = &parsed.works[0];
        assert_eq!(work.copies.iter().map(|copy| copy.index).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(work.receives, 4);
        assert_eq!(work.message.mark.and_then(|mark| mark.epoch), Some(2), "the redriven copy speaks for all");
        assert!(work.may_have_record());
        assert!(!parsed.works[1].may_have_record());
    }

    #[test]
    fn ack_2_a_malformed_body_stands_beside_good_ones() {
        let parsed = parse(&[received("hello", 1), received(&body("a:1", ""), 1)]);
        assert_eq!((parsed.works.len(), parsed.malformed.len()), (1, 1));
        assert_eq!(parsed.malformed[0].2.field, "body");
    }
}
