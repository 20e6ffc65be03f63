//! One local stack for all tests of a binary, and what a test asks of it most.
//!
//! Owns: its start, its runtime, its directory. Must not: be shared by two binaries: cargo runs them one after
//! another, and a stack ends with the process that began it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_sqs::Client as Sqs;
use aws_sdk_sqs::types::QueueAttributeName;
use lapse_aws::system::SystemClock;
use lapse_local::driver::{Driver, Event};
use lapse_local::partner::Partner;
use lapse_local::{Build, Function, LOCAL_SECRET, Options, Stack};
use lapse_policy::ledger::{Record, State};
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

use crate::patience::eventually;

/// A letter sent this many seconds after its delivery died was redriven (`RedriveAfterSeconds`): long enough for
/// a letter on its own way, short enough to wait for.
pub const REDRIVE_AFTER_SECONDS: u64 = 3;

/// A stack and the runtime that all of its clients live on.
#[derive(Debug)]
pub struct Shared(Result<(Runtime, Ground), String>);

/// A stack to test on.
#[derive(Debug)]
pub struct Ground {
    /// The stack.
    pub stack: Stack,
    /// What producers and operators do.
    pub driver: Driver,
    /// For what the driver does not offer.
    pub sqs: Sqs,
    /// For what the driver does not offer.
    pub dynamodb: DynamoDb,
    /// Whoever looks into `dead-letters` hides what is in it from others.
    pub(crate) looking: Mutex<()>,
}

impl Shared {
    /// Starts one, for a binary of that name. An error is kept, for every test to fail with.
    #[must_use]
    pub fn start(binary: &str) -> Self {
        Self(start(binary).map_err(|error| format!("the local stack did not start: {error:#}")))
    }

    /// Runs a test on it.
    pub fn play(&self, test: impl AsyncFnOnce(&Ground) -> Result<()>) -> Result<()> {
        match &self.0 {
            Ok((runtime, ground)) => runtime.block_on(test(ground)),
            Err(error) => Err(anyhow!("{error}")),
        }
    }
}

fn start(binary: &str) -> Result<(Runtime, Ground)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has a root")?;
    let states = root.join(".lapse/tests");
    sweep(&states);
    // One for each process: a test runner may run every test in one of its own.
    let state = states.join(format!("{binary}-{}", std::process::id()));
    let options = Options { build: Build::Quiet, ..Options::new(root, state) }
        .parameter("RedriveAfterSeconds", REDRIVE_AFTER_SECONDS.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let stack = runtime.block_on(lapse_local::start(&options, &|_| {}))?;
    let (driver, sdk) = (Driver::of(&stack), stack.sdk_config());
    let (sqs, dynamodb) = (Sqs::new(&sdk), DynamoDb::new(&sdk));
    Ok((runtime, Ground { stack, driver, sqs, dynamodb, looking: Mutex::default() }))
}

/// Removes what earlier processes left: their stacks ended with them, and their files did not.
fn sweep(states: &Path) {
    for entry in fs::read_dir(states).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.rsplit_once('-').map_or("", |(_, pid)| pid);
        if Path::new("/proc/self").exists() && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Now, on the clock that all of the stack's processes read.
#[must_use]
pub fn now() -> Timestamp {
    SystemClock.now()
}

/// An event of now.
#[must_use]
pub fn event(destination: &str, id: &str) -> Event {
    Event {
        id: id.to_owned(),
        destination: destination.to_owned(),
        kind: "order.created".to_owned(),
        occurred_at: now(),
        deadline: None,
        payload: json!({"order_id": id, "event_version": 1}).to_string(),
    }
}

/// Several, with ids `<id>_<n>:1`.
#[must_use]
pub fn events(destination: &str, id: &str, count: usize) -> Vec<Event> {
    (1..=count).map(|n| event(destination, &format!("{id}_{n}:1"))).collect()
}

/// A destination's row, for a partner on this machine.
#[must_use]
pub fn row(url: &str, more: &Value) -> Value {
    let mut row = json!({"url": url, "allow_http": true, "secrets": [LOCAL_SECRET]});
    if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
        row.extend(more.clone());
    }
    row
}

/// Where cargo puts binaries of the profile that this test was built with.
pub fn binary(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("this test is no file")?;
    let profile = test.ancestors().nth(2).context("this test is in target/<profile>/deps")?;
    Ok(profile.join(name))
}

impl Ground {
    /// Puts the row of a destination that the partner plays.
    pub async fn destination(&self, partner: &Partner, name: &str, more: &Value) -> Result<()> {
        self.driver.put_destination(name, &row(&partner.url(name), more)).await
    }

    /// An event's record, once there is one.
    pub async fn record(&self, event: &Event) -> Result<Option<Record>> {
        let key = event.key()?;
        Ok(self.driver.records(std::slice::from_ref(&key)).await?.remove(&key))
    }

    /// Waits until an event's record is as it should be. The error shows how it is, and its log.
    pub async fn until(&self, event: &Event, what: &str, holds: impl Fn(&Record) -> bool) -> Result<Record> {
        let found = eventually(&format!("{} is {what}", event.id), async || {
            Ok(self.record(event).await?.filter(|record| holds(record)))
        })
        .await;
        match found {
            Ok(record) => Ok(record),
            Err(error) => {
                let (record, log) = (self.record(event).await?, self.log_of(event).await?);
                Err(error.context(format!("its record: {record:#?}\nits log:\n{}", log.join("\n"))))
            }
        }
    }

    /// Waits until an event's delivery is in a state.
    pub async fn reaches(&self, event: &Event, state: State) -> Result<Record> {
        self.until(event, state.name(), |record| record.state == state).await
    }

    /// Waits until all of them are delivered.
    pub async fn delivered(&self, events: &[Event]) -> Result<()> {
        for event in events {
            self.reaches(event, State::Delivered).await?;
        }
        Ok(())
    }

    /// What `deliver` and `triage` have logged about an event.
    pub async fn log_of(&self, event: &Event) -> Result<Vec<String>> {
        let mut lines = self.stack.logs(Function::Deliver).await?;
        lines.extend(self.stack.logs(Function::Triage).await?);
        lines.retain(|line| line.contains(&event.id));
        Ok(lines)
    }

    /// The sum of one of a destination's counts over all batches so far: `received`, `parked` and so on.
    pub async fn count(&self, destination: &str, count: &str) -> Result<u64> {
        let lines = self.lines(Function::Deliver).await?;
        let of = |line: &Value| line.get("destinations")?.get(destination)?.get(count)?.as_u64();
        Ok(lines.iter().filter_map(of).sum())
    }

    /// All log lines of a function that are JSON.
    pub async fn lines(&self, function: Function) -> Result<Vec<Value>> {
        let log = self.stack.logs(function).await?;
        Ok(log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// The rows of an event in `schedule`, whatever their shard.
    pub async fn scheduled(&self, event: &Event) -> Result<Vec<lapse_aws::record_item::Item>> {
        let key = event.key()?.to_string();
        let mut rows = self.driver.rows("ScheduleTableName").await?;
        rows.retain(|row| text(row, "due").is_ok_and(|due| due.ends_with(&format!("#{key}"))));
        Ok(rows)
    }

    /// One of a queue's counts.
    pub async fn queue_count(&self, queue: &str, count: QueueAttributeName) -> Result<usize> {
        let url = self.driver.output(queue)?;
        let answer = self.sqs.get_queue_attributes().queue_url(url).attribute_names(count.clone()).send().await?;
        let counts = answer.attributes.unwrap_or_default();
        counts.get(&count).and_then(|n| n.parse().ok()).with_context(|| format!("{queue} has no {count}"))
    }

    /// Changes how long a queue hides what it has handed out.
    pub async fn set_visibility(&self, queue: &str, seconds: u32) -> Result<()> {
        let url = self.driver.output(queue)?;
        let set = self.sqs.set_queue_attributes().queue_url(url);
        set.attributes(QueueAttributeName::VisibilityTimeout, seconds.to_string()).send().await?;
        Ok(())
    }
}

/// A text of an item.
pub fn text<'a>(item: &'a lapse_aws::record_item::Item, name: &str) -> Result<&'a str> {
    match item.get(name).map(|value| value.as_s()) {
        Some(Ok(text)) => Ok(text),
        _ => bail!("the item has no text {name}: {item:?}"),
    }
}
