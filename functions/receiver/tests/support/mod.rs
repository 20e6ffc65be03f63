//! The receiver on a DynamoDB engine, and requests as a function URL gives them.
//!
//! Owns: set-up and signing (by another implementation than ours). Must not: assert rules.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use lapse_engines::Engine;
use lapse_policy::ports::{Chance, Clock};
use lapse_policy::secret::Secret;
use lapse_policy::timestamp::Timestamp;
use lapse_receiver::handler;
use lapse_receiver::receive::Receiver;
use lapse_receiver::reservations::Table;
use serde_json::{Value, json};

pub(crate) const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// Ten seconds after the hold of [`BODY`] has ended.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_000);
pub(crate) const BODY: &str =
    r#"{"reservation_id":"res_1","event_version":3,"resource":"studio-7","hold_expires_at":"2026-11-30T12:00:00Z"}"#;

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Fixed(pub(crate) Timestamp);

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        self.0
    }

    async fn sleep_until(&self, _: Timestamp) {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug)]
pub(crate) struct NoChance;

impl Chance for NoChance {
    fn draw(&self) -> f64 {
        0.0
    }

    fn token(&self) -> String {
        String::new()
    }
}

/// A store whose every answer is this one: for the errors that no emulator produces.
pub(crate) fn answering(status: u16, body: &Value) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = body.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
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
            reader.read_exact(&mut vec![0; length]).unwrap();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            reader.get_mut().write_all((head + &body).as_bytes()).unwrap();
        }
    });
    lapse_engines::client(&format!("http://{address}"))
}

/// A client of a port at which no one listens.
pub(crate) fn nowhere() -> Client {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    lapse_engines::client(&format!("http://{address}"))
}

/// A receiver with a table of its own.
pub(crate) struct World {
    pub(crate) receiver: Receiver<Table, Fixed, NoChance>,
    client: Client,
    table: String,
}

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) headers: HashMap<String, String>,
}

impl World {
    /// An empty table on an engine, and the receiver at [`NOW`] with one secret.
    pub(crate) async fn new(engine: &Engine) -> Self {
        Self::of(engine.client(), &engine.table("reservations").await)
    }

    /// A receiver on any client.
    pub(crate) fn of(client: Client, table: &str) -> Self {
        let store = Table::new(client.clone(), table.to_owned());
        let secrets = vec![Secret::parse(OLD).unwrap()];
        let receiver = Receiver { store, clock: Fixed(NOW), chance: NoChance, secrets };
        Self { receiver, client, table: table.to_owned() }
    }

    /// Its client, for another receiver.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Puts the reservation `res_1` as the producer would.
    pub(crate) async fn reserve(&self, status: &str, version: u64) {
        self.put(&[("status", AttributeValue::S(status.into())), ("version", AttributeValue::N(version.to_string()))])
            .await;
    }

    /// Puts the row `res_1` with any attributes.
    pub(crate) async fn put(&self, attributes: &[(&str, AttributeValue)]) {
        let mut put = self.client.put_item().table_name(&self.table);
        put = put.item("reservation_id", AttributeValue::S("res_1".into()));
        for (name, value) in attributes {
            put = put.item(*name, value.clone());
        }
        put.send().await.unwrap();
    }

    /// Pays `res_1` at version 3 if it is held, as the producer would; whether it was.
    pub(crate) async fn pay(&self) -> bool {
        let paid = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("reservation_id", AttributeValue::S("res_1".into()))
            .update_expression("SET #s = :paid")
            .condition_expression("#s = :held")
            .expression_attribute_names("#s", "status")
            .expression_attribute_values(":paid", AttributeValue::S("paid".into()))
            .expression_attribute_values(":held", AttributeValue::S("held".into()));
        paid.send().await.is_ok()
    }

    /// The status of `res_1`, if there is such a row.
    pub(crate) async fn status(&self) -> Option<String> {
        let row =
            self.client.get_item().table_name(&self.table).key("reservation_id", AttributeValue::S("res_1".into()));
        let row = row.consistent_read(true).send().await.unwrap().item?;
        row.get("status").map(|status| status.as_s().unwrap().clone())
    }

    /// How many decisions are stored.
    pub(crate) async fn decisions(&self) -> usize {
        let rows = self.client.scan().table_name(&self.table).consistent_read(true).send().await.unwrap();
        rows.items().iter().filter(|row| row["reservation_id"].as_s().unwrap().starts_with("event#")).count()
    }

    /// The answer to a request.
    pub(crate) async fn answer(&self, request: &Post) -> Answered {
        let event = lambda_http::request::from_str(&request.event()).unwrap();
        let response = handler::handle(&self.receiver, event).await.unwrap();
        let text = |value: &lambda_http::http::HeaderValue| value.to_str().unwrap().to_owned();
        Answered {
            status: response.status().as_u16(),
            headers: response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: serde_json::from_slice(response.body()).unwrap(),
        }
    }
}

/// A request before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) method: &'static str,
    pub(crate) headers: HashMap<&'static str, String>,
    pub(crate) body: String,
    pub(crate) base64: bool,
}

impl Post {
    /// The event of [`BODY`], signed with [`OLD`] at [`NOW`].
    pub(crate) fn genuine() -> Self {
        Self::signed("res_1:3", BODY, OLD, NOW.seconds())
    }

    pub(crate) fn signed(id: &str, body: &str, secret: &str, at: i64) -> Self {
        let signature = standardwebhooks::Webhook::new(secret).unwrap().sign(id, at, body.as_bytes()).unwrap();
        let headers = HashMap::from([
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signature),
        ]);
        Self { method: "POST", headers, body: body.to_owned(), base64: false }
    }

    /// The same without a header, or with another value of it.
    pub(crate) fn with(mut self, name: &'static str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.headers.insert(name, value.to_owned()),
            None => self.headers.remove(name),
        };
        self
    }

    /// The event of a function URL, payload format 2.0.
    fn event(&self) -> String {
        let body =
            if self.base64 { base64::engine::general_purpose::STANDARD.encode(&self.body) } else { self.body.clone() };
        json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/hooks/lapse",
            "rawQueryString": "",
            "headers": self.headers,
            "requestContext": {
                "accountId": "anonymous",
                "apiId": "url",
                "domainName": "url.lambda-url.eu-west-1.on.aws",
                "domainPrefix": "url",
                "http": {
                    "method": self.method,
                    "path": "/hooks/lapse",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "lapse/test"
                },
                "requestId": "id",
                "routeKey": "$default",
                "stage": "$default",
                "time": "30/Nov/2026:12:00:10 +0000",
                "timeEpoch": NOW.millis()
            },
            "body": body,
            "isBase64Encoded": self.base64
        })
        .to_string()
    }
}
