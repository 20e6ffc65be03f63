//! ACK-3, EMT-1: sending to and hiding messages of one SQS queue, in batches, each entry answered on its own.
//!
//! Owns: SQS's batch limits and the reading of `Failed[]`. Must not: decide what is sent or for how long it is hidden.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, ChangeMessageVisibilityBatchResultEntry,
    MessageAttributeValue, SendMessageBatchRequestEntry, SendMessageBatchResultEntry,
};
use lapse_policy::message::MAX_SQS_BYTES;
use lapse_policy::ports::{Accepted, Outbox, Outgoing, Visibility};
use lapse_policy::schedule::Origin;

use crate::failure::unavailable;

/// Entries of one batch call (SQS quota).
const BATCH_MOST: usize = 10;
/// The attribute that says that a record exists: a hint, nothing depends on it (LED-10).
pub const RESUMED: &str = "resumed";
/// What the attribute adds to a message's size.
const ATTRIBUTE_BYTES: usize = 32;

/// One queue.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
}

impl SqsQueue {
    /// The queue at a URL.
    #[must_use]
    pub fn new(client: Client, url: String) -> Self {
        Self { client, url }
    }

    async fn send_some(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        let entries = messages.iter().enumerate().map(|(i, message)| entry(i, message)).collect::<Result<Vec<_>, _>>();
        let entries = match entries {
            Ok(entries) => entries,
            Err(cause) => return vec![Accepted::No(cause); messages.len()],
        };
        let answer = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries)).send().await;
        match answer {
            Ok(answer) => by_entry(
                messages.len(),
                answer.successful().iter().map(SendMessageBatchResultEntry::id),
                answer.failed(),
            ),
            Err(error) => vec![Accepted::No(unavailable("SendMessageBatch", &error).to_string()); messages.len()],
        }
    }

    async fn hide_some(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        let entries = messages.iter().enumerate().map(|(i, (handle, seconds))| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(i.to_string())
                .receipt_handle(handle)
                .visibility_timeout(*seconds)
                .build()
                .map_err(|e| e.to_string())
        });
        let entries = match entries.collect::<Result<Vec<_>, _>>() {
            Ok(entries) => entries,
            Err(cause) => return vec![Accepted::No(cause); messages.len()],
        };
        let call = self.client.change_message_visibility_batch().queue_url(&self.url).set_entries(Some(entries));
        match call.send().await {
            Ok(answer) => by_entry(
                messages.len(),
                answer.successful().iter().map(ChangeMessageVisibilityBatchResultEntry::id),
                answer.failed(),
            ),
            Err(error) => {
                vec![Accepted::No(unavailable("ChangeMessageVisibilityBatch", &error).to_string()); messages.len()]
            }
        }
    }
}

impl Outbox for SqsQueue {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        let mut answers = Vec::with_capacity(messages.len());
        let mut rest = messages;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            answers.extend(self.send_some(now).await);
            rest = later;
        }
        answers
    }
}

impl Visibility for SqsQueue {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        let mut answers = Vec::with_capacity(messages.len());
        for chunk in messages.chunks(BATCH_MOST) {
            answers.extend(self.hide_some(chunk).await);
        }
        answers
    }
}

/// How many of the first messages one call takes: at most 10 and 1 MiB together, at least one.
fn fitting(messages: &[Outgoing]) -> usize {
    let mut bytes = 0;
    let most = messages.iter().take(BATCH_MOST).take_while(|message| {
        bytes += message.body.len() + ATTRIBUTE_BYTES;
        bytes <= MAX_SQS_BYTES
    });
    most.count().max(1)
}

fn entry(index: usize, message: &Outgoing) -> Result<SendMessageBatchRequestEntry, String> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(&*message.body)
        .delay_seconds(message.delay_seconds)
        .set_message_group_id(message.group.as_ref().map(ToString::to_string));
    if message.origin == Origin::Resumed {
        let hint = MessageAttributeValue::builder().data_type("String").string_value("true").build();
        entry = entry.message_attributes(RESUMED, hint.map_err(|e| e.to_string())?);
    }
    entry.build().map_err(|e| e.to_string())
}

/// Reads the answer of a batch call entry by entry: what it does not name was not taken.
fn by_entry<'a>(
    count: usize,
    successful: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Accepted> {
    let mut answers = vec![Accepted::No("the answer does not name this entry".to_owned()); count];
    let mut set = |id: &str, answer| {
        if let Some(slot) = id.parse::<usize>().ok().and_then(|index| answers.get_mut(index)) {
            *slot = answer;
        }
    };
    for error in failed {
        let cause = format!("{}: {}", error.code(), error.message().unwrap_or_default());
        set(error.id(), if error.sender_fault() { Accepted::Never(cause) } else { Accepted::No(cause) });
    }
    for id in successful {
        set(id, Accepted::Yes);
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Outgoing {
        Outgoing { body: "x".repeat(bytes).into(), group: None, delay_seconds: 0, origin: Origin::New }
    }

    #[track_caller]
    fn check(label: &str, sizes: &[usize], expected: usize) {
        let messages: Vec<_> = sizes.iter().map(|bytes| message(*bytes)).collect();
        assert_eq!(fitting(&messages), expected, "{label}");
    }

    #[test]
    fn emt_1_a_call_takes_ten_entries_and_one_mebibyte() {
        check("small ones", &[100; 25], 10);
        check("large ones", &[262_144; 5], 3);
        check("one that fills it", &[MAX_SQS_BYTES, 1], 1);
    }

    #[test]
    fn ack_3_every_entry_is_answered_on_its_own() {
        let failed = |id: &str, fault| {
            let entry = BatchResultErrorEntry::builder().id(id).code("Busy").sender_fault(fault);
            entry.build().expect("complete")
        };
        let answers = by_entry(4, ["0"].into_iter(), &[failed("1", false), failed("2", true), failed("9", true)]);
        assert_eq!(answers[0], Accepted::Yes);
        assert!(matches!(answers[1], Accepted::No(_)));
        assert!(matches!(answers[2], Accepted::Never(_)));
        assert!(matches!(answers[3], Accepted::No(_)), "not named at all");
    }
}
