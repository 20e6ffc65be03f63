//! LAN-1: lanes on the `limits` table, one item each while it is held.
//!
//! Owns: one Query, one conditional update to take a lane, one conditional delete to give it back.
//! Must not: choose lanes; `lapse_policy::lanes` does.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_policy::lanes::Lane;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Lanes, Unavailable};
use lapse_policy::timestamp::Timestamp;

use crate::failure::unavailable;
use crate::record_item::{Item, number, read_number};

/// The lanes on DynamoDB. A lane that is given back is deleted, so that the Query reads no more than what is held and
/// what crashed workers left behind; that is overwritten when its lane is taken next.
#[derive(Debug, Clone)]
pub struct DynamoLanes {
    client: Client,
    table: String,
}

impl DynamoLanes {
    /// On the limiter's table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}

impl Lanes for DynamoLanes {
    async fn read(&self, destination: &DestinationName) -> Result<Vec<Lane>, Unavailable> {
        const OPERATION: &str = "Query limits";
        // One page: `MAX_IN_FLIGHT` is far below what fits it.
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#destination = :destination")
            .expression_attribute_names("#destination", "destination")
            .expression_attribute_values(":destination", hash(destination))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| unavailable(OPERATION, &e))?;
        let unreadable = |attribute| Unavailable {
            operation: OPERATION,
            cause: format!("the lane's attribute {attribute} cannot be read"),
        };
        answer.items().iter().map(|item| lane(item).map_err(unreadable)).collect()
    }

    async fn take(&self, destination: &DestinationName, lane: &Lane, now: Timestamp) -> Result<bool, Unavailable> {
        // The same owner again: the SDK repeats what it got no reply to.
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("destination", hash(destination))
            .key("lane", range(lane))
            .update_expression("SET #owner = :owner, #until = :until")
            .condition_expression("attribute_not_exists(#until) OR #until < :now OR #owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_names("#until", "until")
            .expression_attribute_values(":owner", AttributeValue::S(lane.owner.clone()))
            .expression_attribute_values(":until", number(lane.until.millis()))
            .expression_attribute_values(":now", number(now.millis()))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(unavailable("UpdateItem limits", &error)),
            },
        }
    }

    async fn release(&self, destination: &DestinationName, lane: &Lane) -> Result<(), Unavailable> {
        let answer = self
            .client
            .delete_item()
            .table_name(&self.table)
            .key("destination", hash(destination))
            .key("lane", range(lane))
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", AttributeValue::S(lane.owner.clone()))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(()),
                _ => Err(unavailable("DeleteItem limits", &error)),
            },
        }
    }
}

/// No destination's name has a `#`, so that lanes and clocks never meet.
fn hash(destination: &DestinationName) -> AttributeValue {
    AttributeValue::S(format!("{destination}#lanes"))
}

fn range(lane: &Lane) -> AttributeValue {
    AttributeValue::S(lane.number.to_string())
}

/// Reads an item; an attribute that is missing or of another type names itself.
fn lane(item: &Item) -> Result<Lane, &'static str> {
    let text = |name| item.get(name).and_then(|value| value.as_s().ok());
    Ok(Lane {
        number: text("lane").and_then(|number| number.parse().ok()).ok_or("lane")?,
        owner: text("owner").ok_or("owner")?.clone(),
        until: read_number(item, "until")?.map(Timestamp::from_millis).ok_or("until")?,
    })
}
