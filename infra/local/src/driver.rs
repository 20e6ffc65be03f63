//! What producers, customers and operators do to a stack, as calls.
//!
//! Owns: events, holds, payments, destinations' rows, and looks at the ledger and the queues, for the demo and the tests.
//! Must not: be used by a function; do anything that a user of Lapse could not do with the AWS CLI.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use aws_sdk_sqs::Client as Sqs;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use lapse_aws::destinations::attribute;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::schedule::row_item;
use lapse_policy::destination::Destination;
use lapse_policy::ledger::Record;
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{Ledger as _, Row};
use lapse_policy::schedule::{Origin, RowKey};
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::stack::Stack;

/// An event, as a producer has it.
#[derive(Debug, Clone)]
pub struct Event {
    /// `reservation_id:event_version`.
    pub id: String,
    /// Who gets it.
    pub destination: String,
    /// Its type.
    pub kind: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// Until when it means something.
    pub deadline: Option<Timestamp>,
    /// The payload's JSON.
    pub payload: String,
}

impl Event {
    /// The message's body.
    #[must_use]
    pub fn body(&self) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let deadline = self.deadline.map_or(String::new(), |at| format!(r#""deadline":"{at}","#));
        format!(
            r#"{{"v":1,"id":{},"destination":{},"type":{},"occurred_at":"{}",{deadline}"payload":{}}}"#,
            text(&self.id),
            text(&self.destination),
            text(&self.kind),
            self.occurred_at,
            self.payload
        )
    }

    /// Its delivery.
    pub fn key(&self) -> Result<DeliveryKey> {
        DeliveryKey::parse(&format!("{}#{}", self.destination, self.id))
            .context("the event's id or destination is wrong")
    }
}

/// A hold on a studio slot, version 1 of its reservation.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The reservation.
    pub reservation: String,
    /// The slot.
    pub resource: String,
    /// When the hold ends.
    pub ends_at: Timestamp,
    /// Who is told.
    pub destination: String,
}

impl Hold {
    /// The event that ends it.
    #[must_use]
    pub fn event(&self) -> Event {
        Event {
            id: format!("{}:1", self.reservation),
            destination: self.destination.clone(),
            kind: "reservation.expired".to_owned(),
            occurred_at: self.ends_at,
            deadline: None,
            payload: json!({
                "reservation_id": self.reservation,
                "event_version": 1,
                "resource": self.resource,
                "hold_expires_at": self.ends_at.to_string(),
            })
            .to_string(),
        }
    }

    fn row(&self) -> Result<Row> {
        let event = self.event();
        let key = RowKey::new(self.ends_at, event.key()?);
        Ok(Row { key, body: event.body().into(), origin: Origin::New })
    }
}

/// What a payment does to the scheduled event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// Its row is deleted in the same transaction (EMT-3).
    Row,
    /// Nothing: the event comes, and the receiver refuses it.
    Nothing,
}

/// Calls to one stack.
#[derive(Debug, Clone)]
pub struct Driver {
    dynamodb: DynamoDb,
    sqs: Sqs,
    outputs: std::collections::BTreeMap<String, String>,
}

impl Driver {
    /// Of a stack.
    #[must_use]
    pub fn of(stack: &Stack) -> Self {
        let sdk = stack.sdk_config();
        Self { dynamodb: DynamoDb::new(&sdk), sqs: Sqs::new(&sdk), outputs: stack.outputs.clone() }
    }

    /// A table's name or a queue's URL, by the name of the template's output.
    pub fn output(&self, name: &str) -> Result<&str> {
        self.outputs.get(name).map(String::as_str).with_context(|| format!("the stack has no output {name}"))
    }

    /// Puts a destination's row, after checking it as `deliver` will.
    pub async fn put_destination(&self, name: &str, row: &Value) -> Result<()> {
        let checked = DestinationName::parse(name).context("the destination's name is wrong")?;
        let fields = row.as_object().context("a destination's row is an object")?;
        Destination::parse(&checked, fields).with_context(|| format!("the row of {name} is wrong"))?;
        self.put_destination_unchecked(name, row).await
    }

    /// Puts a destination's row as it is.
    pub async fn put_destination_unchecked(&self, name: &str, row: &Value) -> Result<()> {
        let mut put = self
            .dynamodb
            .put_item()
            .table_name(self.output("DestinationsTableName")?)
            .item("destination", AttributeValue::S(name.to_owned()));
        for (field, value) in row.as_object().into_iter().flatten() {
            put = put.item(field, attribute(value));
        }
        put.send().await.with_context(|| format!("cannot put the destination {name}"))?;
        Ok(())
    }

    /// Sends events for now.
    pub async fn send(&self, events: &[Event]) -> Result<()> {
        let bodies: Vec<_> = events.iter().map(Event::body).collect();
        self.send_bodies(&bodies, 0).await
    }

    /// Sends bodies to `deliveries`, whatever they are, with a delay.
    pub async fn send_bodies(&self, bodies: &[String], delay_seconds: i32) -> Result<()> {
        for chunk in bodies.chunks(10) {
            let entry = |(i, body): (usize, &String)| {
                let entry = SendMessageBatchRequestEntry::builder().id(i.to_string()).message_body(body);
                entry.delay_seconds(delay_seconds).build()
            };
            let entries: Vec<_> = chunk.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
            let url = self.output("DeliveriesQueueUrl")?;
            let sent = self.sqs.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await?;
            if let Some(failed) = sent.failed().first() {
                bail!("SQS refused a message: {} {}", failed.code(), failed.message().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Schedules an event for later.
    pub async fn schedule(&self, due: Timestamp, event: &Event) -> Result<()> {
        let row = Row { key: RowKey::new(due, event.key()?), body: event.body().into(), origin: Origin::New };
        let table = self.output("ScheduleTableName")?;
        self.dynamodb.put_item().table_name(table).set_item(Some(row_item(&row))).send().await?;
        Ok(())
    }

    /// Takes a hold: the reservation and the event that will end it, in one transaction.
    pub async fn hold(&self, hold: &Hold) -> Result<()> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let reservation = Put::builder()
            .table_name(self.output("ReservationsTableName")?)
            .item("reservation_id", text(&hold.reservation))
            .item("status", text("held"))
            .item("version", AttributeValue::N("1".to_owned()))
            .item("resource", text(&hold.resource))
            .condition_expression("attribute_not_exists(reservation_id)")
            .build()?;
        let row = Put::builder()
            .table_name(self.output("ScheduleTableName")?)
            .set_item(Some(row_item(&hold.row()?)))
            .build()?;
        self.dynamodb
            .transact_write_items()
            .transact_items(TransactWriteItem::builder().put(reservation).build())
            .transact_items(TransactWriteItem::builder().put(row).build())
            .send()
            .await
            .with_context(|| format!("cannot take the hold {}", hold.reservation))?;
        Ok(())
    }

    /// Pays a held reservation.
    pub async fn pay(&self, hold: &Hold, cancel: Cancel) -> Result<()> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let paid = Update::builder()
            .table_name(self.output("ReservationsTableName")?)
            .key("reservation_id", text(&hold.reservation))
            .update_expression("SET #status = :paid")
            .condition_expression("#status = :held")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":paid", text("paid"))
            .expression_attribute_values(":held", text("held"))
            .build()?;
        let mut call =
            self.dynamodb.transact_write_items().transact_items(TransactWriteItem::builder().update(paid).build());
        if cancel == Cancel::Row {
            let key = hold.row()?.key;
            let row = Delete::builder()
                .table_name(self.output("ScheduleTableName")?)
                .key("shard", AttributeValue::N(key.shard().to_string()))
                .key("due", text(&key.sort_key()))
                .build()?;
            call = call.transact_items(TransactWriteItem::builder().delete(row).build());
        }
        call.send().await.with_context(|| format!("cannot pay {}", hold.reservation))?;
        Ok(())
    }

    /// The ledger's records.
    pub async fn records(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>> {
        let ledger = DynamoLedger::new(self.dynamodb.clone(), self.output("DeliveriesTableName")?.to_owned());
        Ok(ledger.read(keys).await?)
    }

    /// All rows of a table.
    pub async fn rows(&self, output: &str) -> Result<Vec<HashMap<String, AttributeValue>>> {
        let pages = self.dynamodb.scan().table_name(self.output(output)?).consistent_read(true).into_paginator();
        let rows: Result<Vec<_>, _> = pages.items().send().collect().await;
        Ok(rows?)
    }

    /// How many messages a queue holds: visible, in flight and delayed.
    pub async fn depth(&self, queue: &str) -> Result<usize> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible,
        };
        let names =
            [ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible];
        let ask =
            self.sqs.get_queue_attributes().queue_url(self.output(queue)?).set_attribute_names(Some(names.to_vec()));
        let answer = ask.send().await?;
        let counts = answer.attributes.unwrap_or_default();
        Ok(names.iter().filter_map(|name| counts.get(name)).filter_map(|n| n.parse::<usize>().ok()).sum())
    }

    /// The bodies in `dead-letters`; they stay there.
    pub async fn dead_letters(&self) -> Result<Vec<String>> {
        let mut bodies = Vec::new();
        let mut receipts = Vec::new();
        let url = self.output("DeadLettersQueueUrl")?;
        loop {
            let page = self
                .sqs
                .receive_message()
                .queue_url(url)
                .max_number_of_messages(10)
                .visibility_timeout(30)
                .send()
                .await?;
            if page.messages().is_empty() {
                break;
            }
            for message in page.messages() {
                bodies.push(message.body().unwrap_or_default().to_owned());
                receipts.extend(message.receipt_handle().map(str::to_owned));
            }
        }
        for receipt in receipts {
            self.sqs
                .change_message_visibility()
                .queue_url(url)
                .receipt_handle(receipt)
                .visibility_timeout(0)
                .send()
                .await?;
        }
        Ok(bodies)
    }

    /// Redrives all of `dead-letters` to the queue `failures`, which is what the console's default does with letters:
    /// each becomes a new message, and the old one is deleted. Returns how many.
    pub async fn redrive(&self) -> Result<usize> {
        let (from, to) = (self.output("DeadLettersQueueUrl")?, self.output("FailuresQueueUrl")?);
        let mut moved = 0;
        loop {
            let page = self.sqs.receive_message().queue_url(from).max_number_of_messages(10).send().await?;
            if page.messages().is_empty() {
                return Ok(moved);
            }
            for message in page.messages() {
                self.sqs.send_message().queue_url(to).set_message_body(message.body.clone()).send().await?;
                self.sqs
                    .delete_message()
                    .queue_url(from)
                    .set_receipt_handle(message.receipt_handle.clone())
                    .send()
                    .await?;
                moved += 1;
            }
        }
    }
}
