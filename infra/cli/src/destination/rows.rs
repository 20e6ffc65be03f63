//! DST-1: the rows of the table `destinations`, read and written by a person.
//!
//! Owns: the condition that nobody changed the same fields meanwhile; other fields are never touched.
//! Must not: check fields; `lapse_policy` does.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, anyhow, bail};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::destinations::{DynamoDestinations, attribute, json};
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Destinations as _;
use serde_json::{Map, Value};

use crate::deployed::Deployed;

const KEY: &str = "destination";

/// A row as JSON.
pub(crate) type Row = Map<String, Value>;

/// The table.
#[derive(Debug)]
pub(crate) struct Rows {
    client: Client,
    table: String,
}

impl Rows {
    /// That of a stack.
    pub(crate) fn of(stack: &Deployed) -> Result<Self> {
        Ok(Self { client: stack.dynamodb(), table: stack.output("DestinationsTableName")?.to_owned() })
    }

    /// One row, without its key.
    pub(crate) async fn read(&self, name: &DestinationName) -> Result<Option<Row>> {
        let row = DynamoDestinations::new(self.client.clone(), self.table.clone()).read(name).await?;
        Ok(row.map(without_key))
    }

    /// All rows by name.
    pub(crate) async fn all(&self) -> Result<BTreeMap<String, Row>> {
        let mut rows = BTreeMap::new();
        let mut pages = self.client.scan().table_name(&self.table).into_paginator().items().send();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|error| anyhow!("cannot scan {}: {}", self.table, DisplayErrorContext(&error)))?;
            let row: Row = item.into_iter().map(|(name, value)| (name, json(value))).collect();
            if let Some(Value::String(name)) = row.get(KEY) {
                rows.insert(name.clone(), without_key(row.clone()));
            }
        }
        Ok(rows)
    }

    /// Makes `before` into `after`, if the fields that differ are still as they were.
    pub(super) async fn write(&self, name: &DestinationName, before: Option<&Row>, after: &Row) -> Result<()> {
        let nothing = Row::new();
        let old = before.unwrap_or(&nothing);
        let (mut sets, mut removes) = (Vec::new(), Vec::new());
        let (mut names, mut values) = (HashMap::new(), HashMap::new());
        let there = if before.is_some() { "attribute_exists" } else { "attribute_not_exists" };
        let mut conditions = vec![format!("{there}(#key)")];
        names.insert("#key".to_owned(), KEY.to_owned());
        for (n, field) in differing(old, after).into_iter().enumerate() {
            names.insert(format!("#f{n}"), field.clone());
            match old.get(&field) {
                Some(was) => {
                    values.insert(format!(":was{n}"), attribute(was));
                    conditions.push(format!("#f{n} = :was{n}"));
                }
                None => conditions.push(format!("attribute_not_exists(#f{n})")),
            }
            match after.get(&field) {
                Some(to) => {
                    values.insert(format!(":to{n}"), attribute(to));
                    sets.push(format!("#f{n} = :to{n}"));
                }
                None => removes.push(format!("#f{n}")),
            }
        }
        let part = |word: &str, parts: &[String]| {
            if parts.is_empty() { String::new() } else { format!("{word} {} ", parts.join(", ")) }
        };
        let update = part("SET", &sets) + &part("REMOVE", &removes);
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key(KEY, AttributeValue::S(name.to_string()))
            .set_update_expression(Some(update))
            .condition_expression(conditions.join(" AND "))
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(Some(values).filter(|values| !values.is_empty()));
        let Err(error) = request.send().await else { return Ok(()) };
        if let Some(UpdateItemError::ConditionalCheckFailedException(_)) = error.as_service_error() {
            bail!("{name} was changed by someone else meanwhile; nothing was written: look at it and try again");
        }
        bail!("cannot write {name} to {}: {}", self.table, DisplayErrorContext(&error))
    }
}

/// The fields in which two rows differ, by name.
#[must_use]
pub(super) fn differing(before: &Row, after: &Row) -> Vec<String> {
    let mut fields: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    fields.sort();
    fields.dedup();
    fields.retain(|field| before.get(field) != after.get(field));
    fields
}

fn without_key(mut row: Row) -> Row {
    row.remove(KEY);
    row
}
