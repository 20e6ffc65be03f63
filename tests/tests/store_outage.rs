//! LIM-8: DynamoDB stops and starts again while a limited destination's backlog drains.
//!
//! Owns: the outage, on DynamoDB Local with its data on disk; the fleet is the real use case on the real adapters, but
//! for SQS, which is played in this process. Must not: play the store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::destinations::attribute;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_local::LOCAL_SECRET;
use lapse_local::driver::Event;
use lapse_local::dynamodb_local::Storage;
use lapse_local::partner::{Partner, Script};
use lapse_policy::clock::{Clock, Guard, Write};
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{Ledger as _, LedgerWrite, Limits as _};
use lapse_tests::ground::now;
use lapse_tests::patience::eventually;
use lapse_tests::perf::calls::Calls;
use lapse_tests::perf::environments::{Environments, Fleet};
use lapse_tests::perf::queue::Queue;
use lapse_tests::perf::store;
use serde_json::json;

const NAME: &str = "catalog";
const EVENTS: u32 = 150;
/// Requests per second: what is configured, and what the receiver enforces.
const LIMIT: u32 = 20;
/// Requests at once, as configured.
const BURST: u32 = 10;
/// What the receiver takes at once: a second's worth more, for a machine that compiles beside it. A fleet without a
/// limiter would send all in less than that.
const TAKEN_AT_ONCE: u32 = 30;
const ENVIRONMENTS: usize = 2;
/// Calls that fail before the store comes back: several batches of each environment have met the outage.
const MET: u64 = 6;
/// How long it all may take at most: the longest wait is for the leases of those whose last write was lost.
const BOUND: Duration = Duration::from_secs(60);

fn events() -> Vec<Event> {
    let event = |n| Event {
        id: format!("res_{n}:1"),
        destination: NAME.to_owned(),
        kind: "hold.expired".to_owned(),
        occurred_at: now(),
        deadline: None,
        payload: json!({ "n": n }).to_string(),
    };
    (0..EVENTS).map(event).collect()
}

/// Empty tables, and the destination's row, by a client that has time for an engine's first calls.
async fn set_up(endpoint: &str, partner: &Partner) -> Result<()> {
    let client = lapse_engines::client(endpoint);
    store::make_tables(&client).await?;
    let row = json!({
        "destination": NAME,
        "url": partner.url(NAME),
        "allow_http": true,
        "rate": { "limit": LIMIT, "burst": BURST },
        "secrets": [LOCAL_SECRET],
    });
    let AttributeValue::M(item) = attribute(&row) else { anyhow::bail!("a row is an object") };
    client.put_item().table_name("destinations").set_item(Some(item)).send().await.context("the destination's row")?;
    // Java compiles what it meets: the fleet's calls have a second and a half.
    let ledger = DynamoLedger::new(client.clone(), "deliveries".to_owned());
    let record = Record::first("t", 1, Moment { now: now(), deadline: now() });
    let writes =
        (0..10).map(|n| Ok((DeliveryKey::parse(&format!("warm#up_{n}:1"))?, LedgerWrite::Insert(record.clone()))));
    ledger.write(&writes.collect::<Result<Vec<_>>>()?).await?;
    let limits = DynamoLimits::new(client, "limits".to_owned());
    let (to, below, guard) = (now().micros(), now().micros(), Guard::NotPaused(now()));
    limits.write(&DestinationName::parse("warm")?, &Write::Idle { clock: Clock::Gate, to, below, guard }).await?;
    Ok(())
}

/// A folder that outlives the engine. What need not outlive the machine is better kept in memory: the engine waits for
/// the disk at each statement.
fn folder() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? })
}

#[tokio::test]
async fn lim_8_a_store_that_comes_and_goes_lets_nothing_through_beyond_the_limit_and_loses_nothing() -> Result<()> {
    let Some(installed) = lapse_engines::dynamodb_local() else { return Ok(()) };
    let folder = folder()?;
    let storage = Storage::Folder(folder.path().to_owned());
    let engine = installed.start(&storage, None)?;
    let (endpoint, port) = (engine.endpoint(), engine.port());
    let partner = Partner::start()?;
    partner.set(NAME, Script::Bucket { limit_per_second: LIMIT, burst: TAKEN_AT_ONCE });
    set_up(&endpoint, &partner).await?;
    let (queue, calls) = (Queue::default(), Arc::new(Calls::default()));
    let fleet = Fleet {
        endpoint: endpoint.clone(),
        deliveries: queue.clone(),
        failures: Queue::default(),
        calls: Arc::clone(&calls),
    };
    let began = Instant::now();
    let environments = Environments::start(&fleet, ENVIRONMENTS)?;
    let events = events();
    queue.put(events.iter().map(Event::body));

    let at_least = |count| partner.requests(NAME).len() >= count;
    let how_far = || format!("{} received, {} queued, {calls:?}", partner.requests(NAME).len(), queue.len());
    eventually("a part was sent", async || Ok(at_least(50).then_some(()))).await.with_context(how_far)?;
    let failed = calls.failed.now();
    drop(engine);
    eventually("the fleet met the outage", async || Ok((calls.failed.now() >= failed + MET).then_some(()))).await?;
    anyhow::ensure!(!at_least(events.len()), "all was sent before the store was gone: nothing is shown");
    let _engine = installed.start(&storage, Some(port))?;
    eventually("the backlog is gone", async || Ok(queue.is_empty().then_some(()))).await.with_context(how_far)?;
    let took = began.elapsed();
    environments.stop()?;

    let checks = partner.checks(NAME);
    assert_eq!(checks.statuses.keys().collect::<Vec<_>>(), [&200], "never a 429: {:?}", checks.statuses);
    assert_eq!(checks.events, events.len(), "each was received");
    let keys = events.iter().map(Event::key).collect::<Result<Vec<_>>>()?;
    let records = DynamoLedger::new(store::client(&endpoint), "deliveries".to_owned()).read(&keys).await?;
    let delivered = records.values().filter(|record| record.state == State::Delivered).count();
    assert_eq!(delivered, events.len(), "each is written down");
    assert!(fleet.failures.is_empty(), "no letters");
    assert!(took < BOUND, "{took:?}");
    Ok(())
}
