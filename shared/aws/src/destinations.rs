//! DST-1: rows of the `destinations` table as JSON, for the one parser in `lapse_policy::destination`.
//!
//! Owns: the read and the conversion of attribute types. Must not: check fields or cache; both are elsewhere.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Destinations, Unavailable};
use serde_json::{Map, Number, Value};

use crate::failure::unavailable;

/// The destinations on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoDestinations {
    client: Client,
    table: String,
}

impl DynamoDestinations {
    /// On a table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}

impl Destinations for DynamoDestinations {
    async fn read(&self, destination: &DestinationName) -> Result<Option<Map<String, Value>>, Unavailable> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("destination", AttributeValue::S(destination.to_string()))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| unavailable("GetItem destinations", &e))?;
        Ok(answer.item.map(|item| item.into_iter().map(|(name, value)| (name, json(value))).collect()))
    }
}

/// An attribute as JSON; binary has no form there and becomes null, which no field accepts.
#[must_use]
pub fn json(value: AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::String(text),
        AttributeValue::N(digits) => parse_number(&digits),
        AttributeValue::Bool(flag) => Value::Bool(flag),
        AttributeValue::L(list) => list.into_iter().map(json).collect(),
        AttributeValue::M(map) => map.into_iter().map(|(name, value)| (name, json(value))).collect(),
        AttributeValue::Ss(set) => set.into_iter().map(Value::String).collect(),
        AttributeValue::Ns(set) => set.iter().map(|n| parse_number(n)).collect(),
        AttributeValue::B(_) | AttributeValue::Bs(_) | AttributeValue::Null(_) | _ => Value::Null,
    }
}

fn parse_number(digits: &str) -> Value {
    digits.parse::<Number>().map_or(Value::Null, Value::Number)
}

/// A JSON value as an attribute: the same conversion the other way, for those who write rows.
#[must_use]
pub fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::String(text) => AttributeValue::S(text.clone()),
        Value::Array(list) => AttributeValue::L(list.iter().map(attribute).collect()),
        Value::Object(map) => AttributeValue::M(map.iter().map(|(n, v)| (n.clone(), attribute(v))).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_survives_the_way_there_and_back() {
        let row =
            json!({"url": "https://a.example/", "rate": {"limit": 50}, "jitter": 0.25, "secrets": ["x"], "on": true});
        assert_eq!(json(attribute(&row)), row);
        assert_eq!(json(AttributeValue::Ns(vec!["404".to_owned()])), json!([404]));
        assert_eq!(json(AttributeValue::Ss(vec!["a".to_owned()])), json!(["a"]));
    }
}
