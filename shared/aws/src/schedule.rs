//! EMT-1, EMT-4, LED-10: rows of the `schedule` table.
//!
//! Owns: putting, querying, deleting and setting aside rows. Must not: decide what is due or how long it is delayed.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, PutRequest, WriteRequest};
use lapse_policy::ports::{Page, Parking, Row, Schedule, StoredRow, Unavailable};
use lapse_policy::schedule::{Origin, UNSENDABLE};

use crate::failure::unavailable;
use crate::record_item::{Item, number};

/// Requests of one BatchWriteItem (DynamoDB quota).
const WRITE_MOST: usize = 25;
/// How often requests that a call left over are made again.
const WRITE_ROUNDS: usize = 3;
/// Rows of one page: what is sent before the next page is read. Bodies are up to 256 KB, and a page ends at 1 MB.
const PAGE: i32 = 100;
const WRITE: &str = "BatchWriteItem schedule";

/// The schedule on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoSchedule {
    client: Client,
    table: String,
}

impl DynamoSchedule {
    /// On a table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    async fn batch(&self, requests: Vec<WriteRequest>) -> Result<(), Unavailable> {
        let mut requests = requests;
        for _ in 0..WRITE_ROUNDS {
            if requests.is_empty() {
                return Ok(());
            }
            let answer = self
                .client
                .batch_write_item()
                .request_items(&self.table, requests)
                .send()
                .await
                .map_err(|e| unavailable(WRITE, &e))?;
            requests = answer.unprocessed_items.unwrap_or_default().remove(&self.table).unwrap_or_default();
        }
        if requests.is_empty() {
            Ok(())
        } else {
            Err(Unavailable { operation: WRITE, cause: "requests were left unprocessed".to_owned() })
        }
    }
}

impl Parking for DynamoSchedule {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        let mut answers = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(WRITE_MOST) {
            // One call may not hold two requests for one key; equal keys are equal rows here.
            let unique: HashMap<_, _> = chunk.iter().map(|row| (row.key.sort_key(), row)).collect();
            let puts = unique.into_values().map(put).collect::<Result<Vec<_>, _>>();
            let answer = match puts {
                Ok(puts) => self.batch(puts).await,
                Err(error) => Err(error),
            };
            answers.extend(chunk.iter().map(|_| answer.clone()));
        }
        answers
    }
}

impl Schedule for DynamoSchedule {
    async fn due(&self, shard: u32, until: &str, from: Option<&str>) -> Result<Page, Unavailable> {
        let start = from.map(|due| row_key(number(shard), due));
        let answer = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("#shard = :shard AND #due <= :until")
            .expression_attribute_names("#shard", "shard")
            .expression_attribute_names("#due", "due")
            .expression_attribute_values(":shard", number(shard))
            .expression_attribute_values(":until", AttributeValue::S(until.to_owned()))
            .set_exclusive_start_key(start)
            .limit(PAGE)
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| unavailable("Query schedule", &e))?;
        let next = answer.last_evaluated_key().and_then(|key| text(key, "due")).map(str::to_owned);
        Ok(Page { rows: answer.items().iter().filter_map(stored).collect(), next })
    }

    async fn delete(&self, shard: u32, due: &[String]) -> Result<(), Unavailable> {
        for chunk in due.chunks(WRITE_MOST) {
            let deletes = chunk.iter().map(|due| {
                let request = DeleteRequest::builder().set_key(Some(row_key(number(shard), due))).build();
                request.map(|r| WriteRequest::builder().delete_request(r).build()).map_err(invalid)
            });
            self.batch(deletes.collect::<Result<_, _>>()?).await?;
        }
        Ok(())
    }

    async fn set_aside(&self, shard: u32, row: &StoredRow, reason: &str) -> Result<(), Unavailable> {
        // Two shards may hold rows of one malformed key: with the shard behind it, neither overwrites the other.
        let mut item = row_key(number(UNSENDABLE), &format!("{}@{shard}", row.due));
        item.insert("from_shard".to_owned(), number(shard));
        item.insert("reason".to_owned(), AttributeValue::S(reason.to_owned()));
        if let Some(body) = &row.body {
            item.insert("body".to_owned(), AttributeValue::S(body.to_string()));
        }
        if row.origin == Origin::Resumed {
            item.insert("resumed".to_owned(), AttributeValue::Bool(true));
        }
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .send()
            .await
            .map_err(|e| unavailable("PutItem schedule", &e))?;
        self.delete(shard, std::slice::from_ref(&row.due)).await
    }
}

fn row_key(shard: AttributeValue, due: &str) -> Item {
    HashMap::from([("shard".to_owned(), shard), ("due".to_owned(), AttributeValue::S(due.to_owned()))])
}

/// A row as an item; what producers put, too.
#[must_use]
pub fn row_item(row: &Row) -> Item {
    let mut item = row_key(number(row.key.shard()), &row.key.sort_key());
    item.insert("body".to_owned(), AttributeValue::S(row.body.to_string()));
    if row.origin == Origin::Resumed {
        item.insert("resumed".to_owned(), AttributeValue::Bool(true));
    }
    item
}

fn put(row: &Row) -> Result<WriteRequest, Unavailable> {
    let request = PutRequest::builder().set_item(Some(row_item(row))).build().map_err(invalid)?;
    Ok(WriteRequest::builder().put_request(request).build())
}

#[expect(clippy::needless_pass_by_value, reason = "the form of map_err")]
fn invalid(error: aws_sdk_dynamodb::error::BuildError) -> Unavailable {
    Unavailable { operation: WRITE, cause: error.to_string() }
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

fn stored(item: &Item) -> Option<StoredRow> {
    let resumed = item.get("resumed").and_then(|v| v.as_bool().ok()).copied().unwrap_or(false);
    Some(StoredRow {
        due: text(item, "due")?.to_owned(),
        body: text(item, "body").map(Arc::from),
        origin: if resumed { Origin::Resumed } else { Origin::New },
    })
}
