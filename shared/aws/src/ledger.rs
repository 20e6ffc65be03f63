//! LED-1, LED-3, LED-9: the ledger on the `deliveries` table.
//!
//! Owns: the statements and what their answers mean. Must not: decide a move; rules live in `lapse_policy::ledger`.
//! An insert is put-if-absent, an update compare-and-swap on `version`: PartiQL has no upsert.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse,
    KeysAndAttributes,
};
use lapse_policy::ledger::Record;
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Ledger, LedgerWrite, Unavailable, Written};

use crate::failure::unavailable;
use crate::record_item::{attributes, number, record};

/// Keys of one BatchGetItem (DynamoDB quota).
const READ_MOST: usize = 100;
/// How often keys that a read left over are asked for again.
const READ_ROUNDS: usize = 3;

/// The ledger on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoLedger {
    client: Client,
    table: String,
}

impl DynamoLedger {
    /// On a table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    async fn read_some(
        &self,
        keys: &[DeliveryKey],
        found: &mut HashMap<DeliveryKey, Record>,
    ) -> Result<(), Unavailable> {
        const OPERATION: &str = "BatchGetItem deliveries";
        let wanted =
            keys.iter().map(|key| HashMap::from([("delivery".to_owned(), AttributeValue::S(key.to_string()))]));
        let mut ask = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(wanted.collect())).build().ok();
        for _ in 0..READ_ROUNDS {
            let Some(keys) = ask.take() else { return Ok(()) };
            let answer = self
                .client
                .batch_get_item()
                .request_items(&self.table, keys)
                .send()
                .await
                .map_err(|e| unavailable(OPERATION, &e))?;
            for item in answer.responses.unwrap_or_default().remove(&self.table).unwrap_or_default() {
                let key = item.get("delivery").and_then(|v| v.as_s().ok()).and_then(|k| DeliveryKey::parse(k).ok());
                let bad = |attribute: &str| Unavailable {
                    operation: OPERATION,
                    cause: format!("a record's attribute {attribute} cannot be read"),
                };
                let key = key.ok_or_else(|| bad("delivery"))?;
                found.insert(key, record(&item).map_err(bad)?);
            }
            ask = answer.unprocessed_keys.unwrap_or_default().remove(&self.table);
        }
        match ask {
            None => Ok(()),
            Some(_) => Err(Unavailable { operation: OPERATION, cause: "keys were left unprocessed".to_owned() }),
        }
    }

    fn statement(&self, key: &DeliveryKey, write: &LedgerWrite) -> Result<BatchStatementRequest, Unavailable> {
        let (text, parameters) = match write {
            LedgerWrite::Insert(record) => insert(&self.table, key, record),
            LedgerWrite::Swap(record) => swap(&self.table, key, record),
        };
        BatchStatementRequest::builder()
            .statement(text)
            .set_parameters(Some(parameters))
            .build()
            .map_err(|e| Unavailable { operation: WRITE, cause: e.to_string() })
    }
}

const WRITE: &str = "BatchExecuteStatement deliveries";

impl Ledger for DynamoLedger {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        let mut found = HashMap::with_capacity(keys.len());
        for keys in keys.chunks(READ_MOST) {
            self.read_some(keys, &mut found).await?;
        }
        Ok(found)
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        let statements = writes.iter().map(|(key, write)| self.statement(key, write)).collect::<Result<Vec<_>, _>>()?;
        let answer = self
            .client
            .batch_execute_statement()
            .set_statements(Some(statements))
            .send()
            .await
            .map_err(|e| unavailable(WRITE, &e))?;
        let mut written: Vec<_> = answer.responses().iter().map(outcome).collect();
        // A shorter answer than was asked for says nothing about the rest.
        written.resize(writes.len(), Written::Unknown);
        Ok(written)
    }
}

fn insert(table: &str, key: &DeliveryKey, record: &Record) -> (String, Vec<AttributeValue>) {
    let mut text = format!("INSERT INTO \"{table}\" VALUE {{'delivery': ?");
    let mut parameters = vec![AttributeValue::S(key.to_string())];
    for (name, value) in attributes(record) {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(text, ", '{name}': ?");
            parameters.push(value);
        }
    }
    text.push('}');
    (text, parameters)
}

fn swap(table: &str, key: &DeliveryKey, record: &Record) -> (String, Vec<AttributeValue>) {
    let mut text = format!("UPDATE \"{table}\"");
    let mut removed = String::new();
    let mut parameters = Vec::with_capacity(24);
    for (name, value) in attributes(record) {
        if let Some(value) = value {
            let _ = write!(text, " SET \"{name}\"=?");
            parameters.push(value);
        } else {
            let _ = write!(removed, " REMOVE \"{name}\"");
        }
    }
    text.push_str(&removed);
    text.push_str(" WHERE \"delivery\"=? AND \"version\"=?");
    parameters.push(AttributeValue::S(key.to_string()));
    parameters.push(number(record.version.saturating_sub(1)));
    (text, parameters)
}

fn outcome(response: &BatchStatementResponse) -> Written {
    let Some(error) = response.error() else { return Written::Stored };
    match error.code() {
        Some(Code::ConditionalCheckFailed | Code::DuplicateItem) => Written::Refused,
        Some(
            Code::ThrottlingError
            | Code::ProvisionedThroughputExceeded
            | Code::RequestLimitExceeded
            | Code::TransactionConflict,
        ) => Written::NotStored,
        Some(Code::InternalServerError) | None => Written::Unknown,
        // Access, validation, a missing table: not stored, and no retry will mend it. The message stays in the
        // queue; this is the place where the cause is known.
        Some(code) => {
            tracing::error!(operation = WRITE, code = code.as_str(), cause = error.message(), "ledger_write_failed");
            Written::NotStored
        }
    }
}
