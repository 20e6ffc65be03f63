//! The DynamoDB engines that tests run on: Dynoxide in the test's own process, and DynamoDB Local beside it.
//!
//! Owns: one of each per test process, whom each test asks in turn, and the clients of them.
//! Must not: know rules, or hide what is missing: a test process says which engines it runs on, and one that lacks
//! DynamoDB Local fails where `CI` is `true`.
//!
//! `LAPSE_TEST_DYNAMODB` names one engine that is used instead of both, such as `http://127.0.0.1:8010`.

#![expect(clippy::expect_used, clippy::panic, reason = "set-up that fails is a failed test")]

mod dynoxide;
mod tables;

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use lapse_local::dynamodb_local::{DynamoDbLocal, Installed, Storage};

pub use tables::make as table;

/// An engine that runs.
#[derive(Debug)]
pub struct Engine {
    /// What it is called.
    pub name: &'static str,
    endpoint: String,
    /// Ends with the test process, where it is one of its own.
    _process: Option<DynamoDbLocal>,
}

impl Engine {
    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A new client, with connections of its own.
    #[must_use]
    pub fn client(&self) -> Client {
        client(&self.endpoint)
    }

    /// Makes a new table of the kind that `infra/contract.json` names, and tells its name.
    pub async fn table(&self, kind: &str) -> String {
        table(&self.client(), kind).await
    }
}

/// Each engine in turn: what a test does, it does on all of them. A test that fails shows the last one.
#[expect(clippy::print_stdout, reason = "shown for tests that fail")]
pub fn each() -> impl Iterator<Item = &'static Engine> {
    static ENGINES: OnceLock<Vec<Engine>> = OnceLock::new();
    ENGINES.get_or_init(start).iter().inspect(|engine| println!("on {}", engine.name))
}

/// A client of any endpoint. It does not retry: what a test counts is what was asked for.
#[must_use]
pub fn client(endpoint: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(lapse_local::REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// DynamoDB Local, ready to be started. `None` where the machine lacks what it needs, which is said; in CI that is a
/// failure.
#[must_use]
pub fn dynamodb_local() -> Option<Installed> {
    match Installed::below(&root()) {
        Ok(installed) => Some(installed),
        Err(error) if env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("DynamoDB Local is missing, and in CI it must not be: {error:#}")
        }
        Err(error) => {
            say(&format!("DynamoDB Local is left out: {error:#}"));
            None
        }
    }
}

/// The workspace's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn start() -> Vec<Engine> {
    let engines = match env::var("LAPSE_TEST_DYNAMODB") {
        Ok(endpoint) => vec![Engine { name: "the engine at LAPSE_TEST_DYNAMODB", endpoint, _process: None }],
        Err(_) => both(),
    };
    let names: Vec<_> = engines.iter().map(|engine| engine.name).collect();
    say(&format!("engines: {}", names.join(", ")));
    engines
}

fn both() -> Vec<Engine> {
    let mut engines = vec![Engine { name: "Dynoxide", endpoint: dynoxide::start(), _process: None }];
    engines.extend(dynamodb_local().map(|installed| {
        let process = installed.start(&Storage::Memory, None).expect("DynamoDB Local starts");
        Engine { name: "DynamoDB Local", endpoint: process.endpoint(), _process: Some(process) }
    }));
    engines
}

/// Also where the output of tests is captured.
fn say(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
