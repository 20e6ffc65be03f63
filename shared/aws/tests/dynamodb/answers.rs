//! LED-9, LIM-8, EMT-1: the answers of DynamoDB that no emulator gives: throttled, left over, failed inside.
//!
//! Owns: a server that answers from a script, and the adapters' reading of it. Must not: stand for an engine.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::schedule::DynamoSchedule;
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{ClockAnswer, Ledger as _, Limits as _, Schedule as _, Written};
use lapse_policy::timestamp::{Micros, Timestamp};
use serde_json::{Value, json};

use crate::ledger::{bare, insert, key};

/// A server that gives these answers, one a request, and keeps what it was asked.
struct Script {
    client: Client,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Script {
    fn new(answers: Vec<(u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = lapse_engines::client(&format!("http://{}", listener.local_addr().unwrap()));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = Self { client, asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            for ((status, answer), stream) in answers.into_iter().zip(listener.incoming()) {
                let mut reader = BufReader::new(stream.unwrap());
                asked.lock().unwrap().push(request(&mut reader));
                let body = answer.to_string();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n",
                    body.len()
                );
                reader.get_mut().write_all((head + &body).as_bytes()).unwrap();
            }
        });
        script
    }

    fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

/// The body of one request.
fn request(reader: &mut impl BufRead) -> Value {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn exception(name: &str) -> Value {
    json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": "not now" })
}

#[tokio::test]
async fn led_9_each_code_of_a_statement_has_its_meaning() {
    let cases = [
        ("ConditionalCheckFailed", Written::Refused),
        ("DuplicateItem", Written::Refused),
        ("ThrottlingError", Written::NotStored),
        ("ProvisionedThroughputExceeded", Written::NotStored),
        ("RequestLimitExceeded", Written::NotStored),
        ("TransactionConflict", Written::NotStored),
        ("AccessDenied", Written::NotStored),
        ("ResourceNotFound", Written::NotStored),
        ("ValidationError", Written::NotStored),
        ("InternalServerError", Written::Unknown),
    ];
    let mut answers: Vec<_> = cases.iter().map(|(code, _)| json!({ "Error": { "Code": code } })).collect();
    answers.push(json!({ "Error": {} }));
    answers.push(json!({ "TableName": "t" }));
    let script = Script::new(vec![(200, json!({ "Responses": answers }))]);
    let ledger = DynamoLedger::new(script.client.clone(), "t".to_owned());
    let writes: Vec<_> = (0..13).map(|id| insert(id, &bare(1, "mine"))).collect();
    let written = ledger.write(&writes).await.unwrap();
    for ((code, expected), written) in cases.iter().zip(&written) {
        assert_eq!(written, expected, "{code}");
    }
    // No code, none at all, and a statement without an answer.
    assert_eq!(written[cases.len()..], [Written::Unknown, Written::Stored, Written::Unknown]);
}

#[tokio::test]
async fn led_9_an_error_of_the_call_as_a_whole_is_an_error() {
    for (status, name) in [(500, "InternalServerError"), (400, "RequestLimitExceeded"), (400, "ThrottlingException")] {
        let script = Script::new(vec![(status, exception(name)); 2]);
        let ledger = DynamoLedger::new(script.client.clone(), "t".to_owned());
        let error = ledger.write(&[insert(1, &bare(1, "mine"))]).await.unwrap_err();
        assert_eq!(error.operation, "BatchExecuteStatement deliveries", "{name}");
        assert!(error.cause.contains("not now"), "the cause is told: {}", error.cause);
        assert!(ledger.read(&[key(1)]).await.is_err(), "{name}");
    }
}

fn item(id: u32) -> Value {
    json!({ "delivery": { "S": key(id).to_string() }, "version": { "N": "1" }, "state": { "S": "waiting" } })
}

fn wanted(id: u32) -> Value {
    json!({ "delivery": { "S": key(id).to_string() } })
}

#[tokio::test]
async fn led_9_keys_that_a_read_left_over_are_asked_for_again() {
    let left = |ids: &[u32]| {
        let keys: Vec<_> = ids.iter().map(|id| wanted(*id)).collect();
        json!({ "t": { "Keys": keys, "ConsistentRead": true } })
    };
    let script = Script::new(vec![
        (200, json!({ "Responses": { "t": [item(1)] }, "UnprocessedKeys": left(&[2, 3]) })),
        (200, json!({ "Responses": {}, "UnprocessedKeys": left(&[2, 3]) })),
        (200, json!({ "Responses": { "t": [item(3)] }, "UnprocessedKeys": {} })),
    ]);
    let ledger = DynamoLedger::new(script.client.clone(), "t".to_owned());
    let found = ledger.read(&[key(1), key(2), key(3)]).await.unwrap();
    let mut ids: Vec<_> = found.into_keys().collect();
    ids.sort();
    assert_eq!(ids, [key(1), key(3)]);
    let asked: Vec<_> = script.asked().iter().map(|body| body["RequestItems"].clone()).collect();
    assert_eq!(asked, [left(&[1, 2, 3]), left(&[2, 3]), left(&[2, 3])], "strongly consistent each time");

    let stuck = (200, json!({ "Responses": { "t": [item(1)] }, "UnprocessedKeys": left(&[2]) }));
    let script = Script::new(vec![stuck; 4]);
    let ledger = DynamoLedger::new(script.client.clone(), "t".to_owned());
    let error = ledger.read(&[key(1), key(2)]).await.unwrap_err();
    assert_eq!(error.cause, "keys were left unprocessed", "absent and unread are not the same");
    assert_eq!(script.asked().len(), 3);
}

#[tokio::test]
async fn emt_1_deletes_that_a_call_left_over_are_made_again() {
    let delete = |due: &str| json!({ "DeleteRequest": { "Key": { "shard": { "N": "5" }, "due": { "S": due } } } });
    let left = |due: &[&str]| json!({ "t": due.iter().map(|due| delete(due)).collect::<Vec<_>>() });
    let script =
        Script::new(vec![(200, json!({ "UnprocessedItems": left(&["b"]) })), (200, json!({ "UnprocessedItems": {} }))]);
    let schedule = DynamoSchedule::new(script.client.clone(), "t".to_owned());
    assert_eq!(schedule.delete(5, &["a".to_owned(), "b".to_owned()]).await, Ok(()));
    let asked: Vec<_> = script.asked().iter().map(|body| body["RequestItems"].clone()).collect();
    assert_eq!(asked, [left(&["a", "b"]), left(&["b"])]);

    let script = Script::new(vec![(200, json!({ "UnprocessedItems": left(&["b"]) })); 4]);
    let schedule = DynamoSchedule::new(script.client.clone(), "t".to_owned());
    let error = schedule.delete(5, &["b".to_owned()]).await.unwrap_err();
    assert_eq!(error.cause, "requests were left unprocessed");
    assert_eq!(script.asked().len(), 3);
}

#[tokio::test]
async fn lim_8_only_a_failed_condition_is_an_answer() {
    let destination = DestinationName::parse("catalog").unwrap();
    let now = Timestamp::from_millis(1_796_040_010_000);
    let write = Write::Idle { clock: Clock::Gate, to: Micros(2), below: Micros(1), guard: Guard::NotPaused(now) };
    let refused = |item: Value| {
        let mut body = exception("ConditionalCheckFailedException");
        body["Item"] = item;
        body
    };
    let gate = Clocks { gate: Some(Micros(1_796_040_010_000_123)), ..Clocks::default() };
    let cases = HashMap::from([
        ("refused", (400, refused(json!({ "gate": { "N": "1796040010000123" } })), Some(ClockAnswer::Refused(gate)))),
        ("refused, absent", (400, refused(Value::Null), Some(ClockAnswer::Refused(Clocks::default())))),
        ("throttled", (400, exception("ProvisionedThroughputExceededException"), None)),
        ("failed inside", (500, exception("InternalServerError"), None)),
    ]);
    for (label, (status, body, expected)) in cases {
        let script = Script::new(vec![(status, body)]);
        let store = DynamoLimits::new(script.client.clone(), "t".to_owned());
        assert_eq!(store.write(&destination, &write).await.ok(), expected, "{label}");
    }
    // The connection ends without an answer.
    let store = DynamoLimits::new(Script::new(vec![]).client, "t".to_owned());
    assert_eq!(store.write(&destination, &write).await.unwrap_err().operation, "UpdateItem limits");
}
