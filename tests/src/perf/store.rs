//! The DynamoDB side of a measurement: a client as the functions have it, and their tables.
//!
//! Owns: both. Must not: know keys of its own; `infra/contract.json` has them.

use anyhow::{Context, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use lapse_aws::clients::OPERATION_TIMEOUT;
use lapse_local::REGION;
use serde_json::Value;

const CONTRACT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/contract.json"));

/// The tables that `deliver` uses. A measurement's engine is its own, so they have the contract's names.
pub const TABLES: [&str; 4] = ["deliveries", "destinations", "limits", "schedule"];

/// A client with connections of its own. It retries and gives up as a function's does.
#[must_use]
pub fn client(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("perf", "perf", None, None, "perf"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .timeout_config(TimeoutConfig::builder().operation_timeout(OPERATION_TIMEOUT).build());
    Client::from_conf(config.build())
}

/// Makes the tables, empty. Indexes are left out: `deliver` uses none.
pub async fn make_tables(client: &Client) -> Result<()> {
    let contract: Value = serde_json::from_str(CONTRACT)?;
    for table in TABLES {
        let mut request = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
        for (role, key_type) in [("hash", KeyType::Hash), ("range", KeyType::Range)] {
            let Some(key) = contract["tables"][table].get(role) else { continue };
            let part = |i: usize| key[i].as_str().with_context(|| format!("the contract's table {table}: {role}"));
            let (name, kind) = (part(0)?, ScalarAttributeType::from(part(1)?));
            request = request
                .key_schema(KeySchemaElement::builder().attribute_name(name).key_type(key_type).build()?)
                .attribute_definitions(
                    AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()?,
                );
        }
        request.send().await.with_context(|| format!("cannot make the table {table}"))?;
    }
    Ok(())
}
