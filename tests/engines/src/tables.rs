//! Tables as `infra/contract.json` has them, new ones for each test.
//!
//! Owns: the way from the contract to `CreateTable`. Must not: know what is in them.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use serde_json::Value;

const CONTRACT: &str = include_str!("../../../infra/contract.json");

/// Makes a new table of the kind that `infra/contract.json` names, and tells its name.
pub async fn make(client: &Client, kind: &str) -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("{kind}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let contract: Value = serde_json::from_str(CONTRACT).expect("the contract is JSON");
    let spec = &contract["tables"][kind];
    let index = spec.get("index").map(index);
    let attributes = [Some(spec), spec.get("index")].into_iter().flatten().flat_map(definitions);
    client
        .create_table()
        .table_name(&name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(Some(keys(spec)))
        .set_attribute_definitions(Some(attributes.collect()))
        .set_global_secondary_indexes(index.map(|index| vec![index]))
        .send()
        .await
        .expect("a new table");
    name
}

fn index(spec: &Value) -> GlobalSecondaryIndex {
    let projection = ProjectionType::from(text(&spec["projection"]));
    GlobalSecondaryIndex::builder()
        .index_name(text(&spec["name"]))
        .set_key_schema(Some(keys(spec)))
        .projection(Projection::builder().projection_type(projection).build())
        .build()
        .expect("an index")
}

/// The key's attributes: name, type, role.
fn key_parts(spec: &Value) -> impl Iterator<Item = (&str, &str, KeyType)> {
    let part = |role, key_type| {
        let pair = spec.get(role)?;
        Some((text(&pair[0]), text(&pair[1]), key_type))
    };
    [part("hash", KeyType::Hash), part("range", KeyType::Range)].into_iter().flatten()
}

fn keys(spec: &Value) -> Vec<KeySchemaElement> {
    let key = |(name, _, key_type)| KeySchemaElement::builder().attribute_name(name).key_type(key_type).build();
    key_parts(spec).map(|part| key(part).expect("a key")).collect()
}

fn definitions(spec: &Value) -> Vec<AttributeDefinition> {
    let definition = |(name, kind, _)| {
        let kind = ScalarAttributeType::from(kind);
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build().expect("an attribute")
    };
    key_parts(spec).map(definition).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text in the contract")
}
