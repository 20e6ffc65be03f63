//! The adapter for the table `reservations`: a row per reservation, and one per decision.
//!
//! Owns: the conditions that make a decision happen once (RCV-1, RCV-2), and which error means what.
//! Must not: judge a reservation; take an error for a decision (RCV-4).
//!
//! The table has one key, `reservation_id`. A decision's is `event#` and the event id: `#` is in no
//! reservation's id, so that the two can not meet.
//!
//! Every transaction carries a `ClientRequestToken` that the SDK draws anew for each call and keeps over its own
//! retries: a lost reply is then answered as the success it was. It is never made from the event id: for ten
//! minutes a repeat would be answered "done" without its condition being looked at, and a refusal after a release
//! would be a mismatch. What makes a repeat harmless is the decision's row.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{AttributeValue, CancellationReason, Put, TransactWriteItem, Update};
use lapse_aws::failure::unavailable;
use lapse_policy::names::EventId;
use lapse_policy::ports::Unavailable;
use lapse_policy::timestamp::Timestamp;

use crate::decide::{Decision, HELD, RELEASED, Refusal, Reservation};
use crate::event::Event;
use crate::receive::{Reservations, Stored};

const KEY: &str = "reservation_id";
const ABSENT: &str = "attribute_not_exists(reservation_id)";
const RELEASE: &str = "TransactWriteItems reservations";
const REFUSE: &str = "PutItem reservations";
const READ: &str = "GetItem reservations";

/// The table.
#[derive(Debug, Clone)]
pub struct Table {
    client: Client,
    name: String,
}

type Item = HashMap<String, AttributeValue>;

impl Table {
    /// The table of that name.
    #[must_use]
    pub const fn new(client: Client, name: String) -> Self {
        Self { client, name }
    }

    async fn read(&self, key: String) -> Result<Option<Item>, Unavailable> {
        let read = self.client.get_item().table_name(&self.name).key(KEY, AttributeValue::S(key)).consistent_read(true);
        Ok(read.send().await.map_err(|e| unavailable(READ, &e))?.item)
    }

    fn put(&self, event: &Event, now: Timestamp) -> Result<Put, BuildError> {
        let row = decision_row(event, Decision::Released, now);
        Put::builder().table_name(&self.name).set_item(Some(row)).condition_expression(ABSENT).build()
    }

    fn update(&self, event: &Event) -> Result<Update, BuildError> {
        Update::builder()
            .table_name(&self.name)
            .key(KEY, AttributeValue::S(event.reservation.clone()))
            .update_expression("SET #status = :released")
            .condition_expression("#status = :held AND #version = :version")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#version", "version")
            .expression_attribute_values(":released", AttributeValue::S(RELEASED.to_owned()))
            .expression_attribute_values(":held", AttributeValue::S(HELD.to_owned()))
            .expression_attribute_values(":version", AttributeValue::N(event.version.to_string()))
            .build()
    }
}

impl Reservations for Table {
    async fn release(&self, event: &Event, now: Timestamp) -> Result<Stored, Unavailable> {
        let put = self.put(event, now).map_err(|e| incomplete(&e))?;
        let update = self.update(event).map_err(|e| incomplete(&e))?;
        let sent = self
            .client
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().put(put).build())
            .transact_items(TransactWriteItem::builder().update(update).build())
            .send()
            .await;
        let Err(error) = sent else { return Ok(Stored::Yes) };
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                let codes: Vec<_> = cancelled.cancellation_reasons().iter().map(CancellationReason::code).collect();
                meaning(&codes).ok_or_else(|| unavailable(RELEASE, &error))
            }
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => Ok(Stored::Busy),
            _ => Err(unavailable(RELEASE, &error)),
        }
    }

    async fn refuse(&self, event: &Event, refusal: Refusal, now: Timestamp) -> Result<Stored, Unavailable> {
        let row = decision_row(event, Decision::Refused(refusal), now);
        let put = self.client.put_item().table_name(&self.name).set_item(Some(row)).condition_expression(ABSENT);
        match put.send().await {
            Ok(_) => Ok(Stored::Yes),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(_)) => Ok(Stored::Decided),
                Some(PutItemError::TransactionConflictException(_)) => Ok(Stored::Busy),
                _ => Err(unavailable(REFUSE, &error)),
            },
        }
    }

    async fn decision(&self, id: &EventId) -> Result<Option<Decision>, Unavailable> {
        let Some(row) = self.read(decision_key(id)).await? else { return Ok(None) };
        let text = |name| row.get(name).and_then(|value| value.as_s().ok()).map_or("", String::as_str);
        Decision::read(text("decision"), text("reason"))
            .map(Some)
            .ok_or_else(|| unreadable("the row of a decision has an unknown decision or reason"))
    }

    async fn reservation(&self, id: &str) -> Result<Option<Reservation>, Unavailable> {
        let Some(row) = self.read(id.to_owned()).await? else { return Ok(None) };
        let status = row.get("status").and_then(|value| value.as_s().ok());
        let version = row.get("version").and_then(|value| value.as_n().ok()?.parse().ok());
        match (status, version) {
            (Some(status), Some(version)) => Ok(Some(Reservation { status: status.clone(), version })),
            (_, None) => Err(unreadable("the row of a reservation needs version, a whole number")),
            (None, Some(_)) => Err(unreadable("the row of a reservation needs status, a text")),
        }
    }
}

fn decision_key(id: &EventId) -> String {
    format!("event#{id}")
}

fn decision_row(event: &Event, decision: Decision, now: Timestamp) -> Item {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    HashMap::from([
        (KEY.to_owned(), AttributeValue::S(decision_key(&event.id))),
        ("decision".to_owned(), text(decision.name())),
        ("reason".to_owned(), text(decision.reason())),
        ("resource".to_owned(), text(&event.resource)),
        ("decided_at".to_owned(), AttributeValue::S(now.to_string())),
    ])
}

/// What a cancelled transaction says by the codes of its two writes: the decision's, then the reservation's.
fn meaning(codes: &[Option<&str>]) -> Option<Stored> {
    const FAILED: Option<&str> = Some("ConditionalCheckFailed");
    const CONFLICT: Option<&str> = Some("TransactionConflict");
    match codes {
        [decision, _] if *decision == FAILED => Some(Stored::Decided),
        [decision, reservation] if *decision == CONFLICT || *reservation == CONFLICT => Some(Stored::Busy),
        [None | Some("None"), reservation] if *reservation == FAILED => Some(Stored::NotHeld),
        _ => None,
    }
}

fn unreadable(cause: &str) -> Unavailable {
    Unavailable { operation: READ, cause: cause.to_owned() }
}

fn incomplete(error: &BuildError) -> Unavailable {
    Unavailable { operation: RELEASE, cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, codes: [&str; 2], expected: Option<Stored>) {
        assert_eq!(meaning(&codes.map(Some)), expected, "{label}");
    }

    #[test]
    fn rcv_1_a_cancelled_transaction_is_read_by_its_two_codes() {
        check("decided before", ["ConditionalCheckFailed", "None"], Some(Stored::Decided));
        check("decided and released", ["ConditionalCheckFailed", "ConditionalCheckFailed"], Some(Stored::Decided));
        check(
            "decided, and a payment at work",
            ["ConditionalCheckFailed", "TransactionConflict"],
            Some(Stored::Decided),
        );
        check("not held", ["None", "ConditionalCheckFailed"], Some(Stored::NotHeld));
        check("the same event at work", ["TransactionConflict", "ConditionalCheckFailed"], Some(Stored::Busy));
        check("a payment at work", ["None", "TransactionConflict"], Some(Stored::Busy));
    }

    #[test]
    fn rcv_4_any_other_code_is_no_decision() {
        check("throttled", ["ThrottlingError", "None"], None);
        check("throttled, not held", ["ProvisionedThroughputExceeded", "ConditionalCheckFailed"], None);
        check("not held, unchecked", ["None", "ValidationError"], None);
        check("no reason", ["None", "None"], None);
        assert_eq!(meaning(&[]), None);
        assert_eq!(meaning(&[Some("ConditionalCheckFailed")]), None);
    }
}
