//! A DynamoDB engine for tests: Dynoxide in this process, or the one at `LAPSE_TEST_DYNAMODB`, such as DynamoDB Local
//! at `http://127.0.0.1:8010`.
//!
//! Owns: the engine's start, and tables as `infra/contract.json` has them, new ones for each test.
//! Must not: know rules. The tests of other crates include this file by its path.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use serde_json::Value;

const CONTRACT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/contract.json"));

/// A client of the engine. It does not retry: what a test counts is what was asked for.
pub(crate) fn client() -> Client {
    client_of(endpoint())
}

/// A client of any endpoint.
pub(crate) fn client_of(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// One engine per test process, on a thread of its own: a test's runtime ends with the test.
fn endpoint() -> &'static str {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT.get_or_init(|| std::env::var("LAPSE_TEST_DYNAMODB").unwrap_or_else(|_| start()))
}

fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            dynoxide::server::serve_on(listener, dynoxide::Database::memory().unwrap()).await;
        });
    });
    format!("http://{address}")
}

/// Makes a new table of the kind that the contract names, and tells its name.
pub(crate) async fn table(kind: &str) -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("{kind}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    let spec = &contract["tables"][kind];
    let index = spec.get("index").map(index);
    let attributes = [Some(spec), spec.get("index")].into_iter().flatten().flat_map(definitions);
    client()
        .create_table()
        .table_name(&name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_key_schema(Some(keys(spec)))
        .set_attribute_definitions(Some(attributes.collect()))
        .set_global_secondary_indexes(index.map(|index| vec![index]))
        .send()
        .await
        .unwrap();
    name
}

fn index(spec: &Value) -> GlobalSecondaryIndex {
    let projection = ProjectionType::from(spec["projection"].as_str().unwrap());
    GlobalSecondaryIndex::builder()
        .index_name(spec["name"].as_str().unwrap())
        .set_key_schema(Some(keys(spec)))
        .projection(Projection::builder().projection_type(projection).build())
        .build()
        .unwrap()
}

/// The key's attributes: name, type, role.
fn key_parts(spec: &Value) -> impl Iterator<Item = (&str, &str, KeyType)> {
    let part = |role, key_type| {
        let pair = spec.get(role)?;
        Some((pair[0].as_str().unwrap(), pair[1].as_str().unwrap(), key_type))
    };
    [part("hash", KeyType::Hash), part("range", KeyType::Range)].into_iter().flatten()
}

fn keys(spec: &Value) -> Vec<KeySchemaElement> {
    let key = |(name, _, key_type)| KeySchemaElement::builder().attribute_name(name).key_type(key_type).build();
    key_parts(spec).map(|part| key(part).unwrap()).collect()
}

fn definitions(spec: &Value) -> Vec<AttributeDefinition> {
    let definition = |(name, kind, _)| {
        let kind: &str = kind;
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::from(kind))
            .build()
            .unwrap()
    };
    key_parts(spec).map(definition).collect()
}
