//! DST-1: a destination's row as JSON, whatever types its attributes have.
//!
//! Owns: those checks. Must not: check fields; the parser of `lapse_policy::destination` does.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::destinations::{DynamoDestinations, attribute};
use lapse_engines::{Engine, each};
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Destinations as _;
use serde_json::{Map, Value, json};

fn name(text: &str) -> DestinationName {
    DestinationName::parse(text).unwrap()
}

/// Puts a row as it is, and reads it by the adapter.
async fn put_and_read(engine: &Engine, row: Vec<(String, AttributeValue)>) -> Option<Map<String, Value>> {
    let (client, table) = (engine.client(), engine.table("destinations").await);
    let mut put = client.put_item().table_name(&table).item("destination", AttributeValue::S("catalog".to_owned()));
    for (name, value) in row {
        put = put.item(name, value);
    }
    put.send().await.unwrap();
    DynamoDestinations::new(client, table).read(&name("catalog")).await.unwrap()
}

#[tokio::test]
async fn dst_1_every_attribute_type_has_its_json() {
    for engine in each() {
        let text = |t: &str| AttributeValue::S(t.to_owned());
        let digits = |n: &str| AttributeValue::N(n.to_owned());
        let blob = || Blob::new(b"raw".as_slice());
        let cases = [
            ("s", text("caf\u{e9}"), json!("caf\u{e9}")),
            ("empty", text(""), json!("")),
            ("integer", digits("50"), json!(50)),
            ("negative", digits("-1"), json!(-1)),
            ("fraction", digits("0.25"), json!(0.25)),
            ("long", digits("1796040010000123"), json!(1_796_040_010_000_123_u64)),
            ("true", AttributeValue::Bool(true), json!(true)),
            ("null", AttributeValue::Null(true), Value::Null),
            (
                "list",
                AttributeValue::L(vec![digits("1"), text("a"), AttributeValue::Bool(false)]),
                json!([1, "a", false]),
            ),
            ("map", AttributeValue::M([("limit".to_owned(), digits("9"))].into()), json!({ "limit": 9 })),
            ("nothing", AttributeValue::L(vec![]), json!([])),
            ("ss", AttributeValue::Ss(vec!["only".to_owned()]), json!(["only"])),
            ("ns", AttributeValue::Ns(vec!["404".to_owned()]), json!([404])),
            ("b", AttributeValue::B(blob()), Value::Null),
            ("bs", AttributeValue::Bs(vec![blob()]), Value::Null),
        ];
        let row = cases.iter().map(|(name, value, _)| ((*name).to_owned(), value.clone())).collect();
        let read = put_and_read(engine, row).await.unwrap();
        for (name, _, expected) in &cases {
            assert_eq!(read.get(*name), Some(expected), "{name}");
        }
        assert_eq!(read["destination"], "catalog");
        assert_eq!(read.len(), cases.len() + 1);
    }
}

#[tokio::test]
async fn dst_1_a_row_that_was_written_from_json_parses() {
    for engine in each() {
        let row = json!({
            "url": "https://shop.example/hooks",
            "rate": { "limit": 50, "per_seconds": 1, "burst": 5 },
            "timeout_ms": 8000,
            "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            "headers": { "x-shop": "7" },
        });
        let row = row.as_object().unwrap();
        let read = put_and_read(engine, row.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
            .await
            .unwrap();
        let mut expected = row.clone();
        expected.insert("destination".to_owned(), json!("catalog"));
        assert_eq!(read, expected);
        let parsed = Destination::parse(&name("catalog"), &read);
        assert!(parsed.is_ok(), "{parsed:?}");
    }
}

#[tokio::test]
async fn dst_1_a_row_that_is_not_there_is_none_and_a_missing_table_an_error() {
    for engine in each() {
        let table = engine.table("destinations").await;
        let there = DynamoDestinations::new(engine.client(), table);
        assert_eq!(there.read(&name("nobody")).await, Ok(None));
        let gone = DynamoDestinations::new(engine.client(), "no-such-table".to_owned());
        assert_eq!(gone.read(&name("nobody")).await.unwrap_err().operation, "GetItem destinations");
    }
}
