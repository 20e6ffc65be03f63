//! ACK-2: the batch that an SQS event source hands to a function, and the answer that it takes.
//!
//! Owns: reading records as text (a bad body must not fail the batch) and the partial response.
//! Must not: parse bodies.

use std::collections::HashMap;
use std::sync::Arc;

use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::queue::RESUMED;

/// The event.
#[derive(Debug, Clone, Deserialize)]
pub struct SqsEvent {
    /// Its messages.
    #[serde(rename = "Records", default)]
    pub records: Vec<SqsRecord>,
}

/// A message as SQS hands it over. Without an id or a receipt handle nothing can be answered for it, so
/// such an event is refused as a whole and comes back.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecord {
    message_id: String,
    receipt_handle: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    attributes: HashMap<String, String>,
    #[serde(default)]
    message_attributes: HashMap<String, Value>,
}

/// A received message in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// For the answer.
    pub message_id: String,
    /// For hiding it.
    pub receipt_handle: String,
    /// Its body.
    pub body: Arc<str>,
    /// How often it was received, this time included.
    pub receives: u32,
    /// When it was sent to the queue.
    pub sent_at: Option<Timestamp>,
    /// Whether the sender knew of a record.
    pub origin: Origin,
}

impl From<SqsRecord> for Received {
    fn from(record: SqsRecord) -> Self {
        let number = |name: &str| record.attributes.get(name).and_then(|n| n.parse::<i64>().ok());
        let resumed = record.message_attributes.contains_key(RESUMED);
        Self {
            receives: number("ApproximateReceiveCount").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            sent_at: number("SentTimestamp").map(Timestamp::from_millis),
            origin: if resumed { Origin::Resumed } else { Origin::New },
            message_id: record.message_id,
            receipt_handle: record.receipt_handle,
            body: record.body.into(),
        }
    }
}

/// The answer: the messages that are not done. All others are deleted by the event source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BatchResponse {
    /// Those that stay.
    #[serde(rename = "batchItemFailures")]
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// One message that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchItemFailure {
    /// Its id, as the event had it.
    #[serde(rename = "itemIdentifier")]
    pub item_identifier: String,
}

impl BatchResponse {
    /// The answer that keeps these messages.
    pub fn keeping(message_ids: impl IntoIterator<Item = String>) -> Self {
        let failure = |item_identifier| BatchItemFailure { item_identifier };
        Self { batch_item_failures: message_ids.into_iter().map(failure).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ack_2_a_record_is_read_whatever_its_body_is() {
        let event = json!({"Records": [
            {"messageId": "m1", "receiptHandle": "r1", "body": "\u{0}not json", "eventSource": "aws:sqs",
             "attributes": {"ApproximateReceiveCount": "3", "SentTimestamp": "1764504000123"},
             "messageAttributes": {"resumed": {"stringValue": "true", "dataType": "String"}}},
            {"messageId": "m2", "receiptHandle": "r2", "body": "x"}]});
        let event: SqsEvent = serde_json::from_value(event).expect("an event");
        let received: Vec<Received> = event.records.into_iter().map(Into::into).collect();
        assert_eq!((received[0].receives, received[0].origin), (3, Origin::Resumed));
        assert_eq!(received[0].sent_at, Some(Timestamp::from_millis(1_764_504_000_123)));
        assert_eq!((received[1].receives, received[1].origin, received[1].sent_at), (1, Origin::New, None));
        assert!(serde_json::from_value::<SqsEvent>(json!({"Records": [{"body": "x"}]})).is_err(), "no id, no default");
    }

    #[test]
    fn ack_2_the_answer_holds_ids_of_the_event_alone() {
        let answer = serde_json::to_value(BatchResponse::keeping(["m1".to_owned()])).expect("JSON");
        assert_eq!(answer, json!({"batchItemFailures": [{"itemIdentifier": "m1"}]}));
    }
}
