//! DLQ-2: the disposition of a dead record, on the `deliveries` table.
//!
//! Owns: `triaged_epoch`, `advice`, and the attributes of the sparse index `dead`, which no one else writes: an index
//! that `deliver` wrote would let one failing destination throttle all. Must not: write any other attribute.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::failure::unavailable;
use lapse_aws::record_item::number;
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::Unavailable;

use crate::triage::Dispositions;

/// Partitions of the index per destination.
const INDEX_SHARDS: u32 = 8;

/// Dispositions on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoDispositions {
    client: Client,
    table: String,
}

impl DynamoDispositions {
    /// On a table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}

impl Dispositions for DynamoDispositions {
    async fn write(&self, key: &DeliveryKey, record: &Record) -> Result<(), Unavailable> {
        let advice = record.reason.map_or("", lapse_policy::reason::Reason::advice);
        let partition = format!("{}#{}", key.destination, key.crc32() % INDEX_SHARDS);
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("delivery", text(&key.to_string()))
            .update_expression("SET triaged_epoch = :epoch, advice = :advice, dead = :dead, dead_at = :at")
            // Not by version: a record that stays Dead in this epoch is the one that was read.
            .condition_expression("#state = :state AND epoch = :epoch")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":state", text(State::Dead.name()))
            .expression_attribute_values(":epoch", number(record.epoch))
            .expression_attribute_values(":advice", text(advice))
            .expression_attribute_values(":dead", text(&partition))
            .expression_attribute_values(":at", number(record.last_at.millis()))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                // It moved on: a redrive began, or a late 2xx was recorded. There is nothing to write any more.
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(()),
                _ => Err(unavailable("UpdateItem deliveries", &error)),
            },
        }
    }
}
