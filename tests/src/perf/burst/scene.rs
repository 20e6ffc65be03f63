//! Playing one run: the engine, the receiver, the queue, the environments, from the first event to the last answer.
//!
//! Owns: set-up, waiting, and collecting what was counted. Must not: judge it; `outcome` does.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::destinations::attribute;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::system::SystemClock;
use lapse_local::driver::Event;
use lapse_local::partner::Partner;
use lapse_policy::clock::Clocks;
use lapse_policy::ledger::State;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Clock as _, Ledger as _, Limits as _};

use super::case::{Case, STRICT};
use super::outcome::{Counted, Outcome};
use crate::perf::calls::Calls;
use crate::perf::dynoxide_process::DynoxideProcess;
use crate::perf::environments::{Environments, Fleet};
use crate::perf::progress::Progress;
use crate::perf::queue::Queue;
use crate::perf::store;

/// Between two looks at the queue.
const LOOK: Duration = Duration::from_millis(100);

/// Plays a run. `perf` is this command's binary, for the engine's process.
pub async fn play(case: &Case, perf: &Path, progress: &Progress) -> Result<Outcome> {
    let engine = DynoxideProcess::start(perf).await?;
    let client = store::client(&engine.endpoint);
    store::make_tables(&client).await?;
    let partner = Partner::start()?;
    partner.set(STRICT, case.script());
    put_destination(&client, case, &partner).await?;
    let fleet = Fleet {
        endpoint: engine.endpoint.clone(),
        deliveries: Queue::default(),
        failures: Queue::default(),
        calls: Arc::new(Calls::default()),
    };
    let environments = Environments::start(&fleet, usize::try_from(case.environments.get())?)?;
    let began = SystemClock.now();
    let events: Vec<_> = case.all_events(began).collect();
    fleet.deliveries.put(events.iter().map(Event::body));
    drain(case, &fleet.deliveries, progress).await;
    let (left, queue) = (fleet.deliveries.len(), fleet.deliveries.calls());
    let batches = environments.stop()?;
    let counted = Counted {
        began,
        requests: partner.requests(STRICT),
        delivered: delivered(&client, &events).await?,
        left,
        batches,
        queue,
        clocks: clocks(&client).await?,
        calls: fleet.calls,
    };
    Ok(Outcome::of(case, &counted))
}

async fn put_destination(client: &Client, case: &Case, partner: &Partner) -> Result<()> {
    let AttributeValue::M(item) = attribute(&case.row(&partner.url(STRICT))) else {
        anyhow::bail!("a row is an object")
    };
    let request = client.put_item().table_name("destinations").set_item(Some(item));
    request.send().await.context("cannot write the destination")?;
    Ok(())
}

/// Waits until nothing is left in the queue, or for as long as there is patience.
async fn drain(case: &Case, queue: &Queue, progress: &Progress) {
    let events = usize::try_from(case.events.get()).unwrap_or(usize::MAX);
    progress.begin(&format!("burst {}, {} environments", case.burst, case.environments), events);
    let until = Instant::now() + case.patience();
    while !queue.is_empty() && Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        progress.at(events.saturating_sub(queue.len()), "delivered");
    }
}

async fn delivered(client: &Client, events: &[Event]) -> Result<usize> {
    let keys = events.iter().map(Event::key).collect::<Result<Vec<_>>>()?;
    let records = DynamoLedger::new(client.clone(), "deliveries".to_owned()).read(&keys).await?;
    Ok(records.values().filter(|record| record.state == State::Delivered).count())
}

async fn clocks(client: &Client) -> Result<Clocks> {
    let limits = DynamoLimits::new(client.clone(), "limits".to_owned());
    Ok(limits.read(&DestinationName::parse(STRICT)?).await?)
}
