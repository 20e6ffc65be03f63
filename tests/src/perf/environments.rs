//! Execution environments of `deliver` and the event source that hands them batches, in this process.
//!
//! Owns: a thread, a runtime, connections and a memory for each environment; the event source's part in a batch.
//! Must not: decide about a message; `deliver` is the real use case on the real adapters, but for SQS.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use lapse_aws::destinations::DynamoDestinations;
use lapse_aws::http_sender::HttpSender;
use lapse_aws::lanes::DynamoLanes;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::schedule::DynamoSchedule;
use lapse_aws::system::{SystemChance, SystemClock};
use lapse_deliver::batch::deliver;
use lapse_deliver::run::Memory;
use lapse_deliver::tally::Counts;
use lapse_deliver::world::World;
use lapse_policy::guard::AllowList;
use lapse_policy::ports::Clock as _;
use tokio::sync::{Mutex, watch};

use super::calls::{Calls, Counted};
use super::queue::Queue;
use super::store;

/// The function's timeout (`infra/contract.json`).
const TIMEOUT: Duration = Duration::from_secs(30);
/// Where the measurements' receivers listen.
const ALLOW: &str = "127.0.0.0/8";

/// What all environments share.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// The DynamoDB engine.
    pub endpoint: String,
    /// The queue `deliveries`.
    pub deliveries: Queue,
    /// The queue `failures`.
    pub failures: Queue,
    /// The calls to DynamoDB.
    pub calls: Arc<Calls>,
}

/// Environments that work until they are stopped.
#[derive(Debug)]
pub struct Environments {
    threads: Vec<JoinHandle<Result<Vec<Counts>>>>,
    stop: watch::Sender<bool>,
}

impl Environments {
    /// Starts so many: at most so many batches are worked on at once.
    pub fn start(fleet: &Fleet, count: usize) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        // One polls at a time, in turn: all environments get batches, and a message wakes one of them, not all.
        let turn = Arc::new(Mutex::new(()));
        let start = |n| {
            let (fleet, turn, stopped) = (fleet.clone(), Arc::clone(&turn), stopped.clone());
            let name = format!("environment {n}");
            Builder::new()
                .name(name)
                .spawn(move || live(&fleet, &turn, stopped))
                .context("no thread for an environment")
        };
        Ok(Self { threads: (0..count).map(start).collect::<Result<_>>()?, stop })
    }

    /// Stops them after their batches, and tells what those came to, batch by batch.
    pub fn stop(self) -> Result<Vec<Counts>> {
        self.stop.send_replace(true);
        let mut batches = Vec::new();
        for thread in self.threads {
            batches.extend(thread.join().map_err(|_| anyhow!("an environment panicked"))??);
        }
        Ok(batches)
    }
}

fn live(fleet: &Fleet, turn: &Mutex<()>, mut stopped: watch::Receiver<bool>) -> Result<Vec<Counts>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let environment = Environment::new(fleet)?;
    runtime.block_on(async {
        let mut batches = Vec::new();
        loop {
            let batch = tokio::select! {
                batch = async { let _turn = turn.lock().await; fleet.deliveries.receive().await } => batch,
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(batches),
            };
            let ends_at = SystemClock.now().plus(TIMEOUT);
            let delivered = Box::pin(deliver(&environment, &environment.memory, &batch, ends_at)).await;
            let done = batch.iter().enumerate().filter(|(index, _)| !delivered.remaining.contains(index));
            fleet.deliveries.delete(done.map(|(_, message)| message.receipt_handle.as_str()));
            batches.push(delivered.tally.sum());
        }
    })
}

/// One environment: its ports, and what it remembers between batches.
#[derive(Debug)]
struct Environment {
    ledger: Counted<DynamoLedger>,
    limits: Counted<DynamoLimits>,
    lanes: DynamoLanes,
    destinations: Counted<DynamoDestinations>,
    parking: Counted<DynamoSchedule>,
    deliveries: Queue,
    failures: Queue,
    sender: HttpSender,
    memory: Memory,
}

impl Environment {
    fn new(fleet: &Fleet) -> Result<Self> {
        let (client, calls) = (store::client(&fleet.endpoint), &fleet.calls);
        let [deliveries, destinations, limits, schedule] = store::TABLES.map(str::to_owned);
        Ok(Self {
            ledger: Counted::new(DynamoLedger::new(client.clone(), deliveries), calls),
            limits: Counted::new(DynamoLimits::new(client.clone(), limits.clone()), calls),
            lanes: DynamoLanes::new(client.clone(), limits),
            destinations: Counted::new(DynamoDestinations::new(client.clone(), destinations), calls),
            parking: Counted::new(DynamoSchedule::new(client, schedule), calls),
            deliveries: fleet.deliveries.clone(),
            failures: fleet.failures.clone(),
            sender: HttpSender::new(AllowList::parse(ALLOW)?)?,
            memory: Memory::default(),
        })
    }
}

impl World for Environment {
    type Clock = SystemClock;
    type Chance = SystemChance;
    type Ledger = Counted<DynamoLedger>;
    type Limits = Counted<DynamoLimits>;
    type Lanes = DynamoLanes;
    type Destinations = Counted<DynamoDestinations>;
    type Sender = HttpSender;
    type Deliveries = Queue;
    type Failures = Queue;
    type Parking = Counted<DynamoSchedule>;

    fn clock(&self) -> &SystemClock {
        &SystemClock
    }
    fn chance(&self) -> &SystemChance {
        &SystemChance
    }
    fn ledger(&self) -> &Self::Ledger {
        &self.ledger
    }
    fn limits(&self) -> &Self::Limits {
        &self.limits
    }
    fn lanes(&self) -> &DynamoLanes {
        &self.lanes
    }
    fn destinations(&self) -> &Self::Destinations {
        &self.destinations
    }
    fn sender(&self) -> &HttpSender {
        &self.sender
    }
    fn deliveries(&self) -> &Queue {
        &self.deliveries
    }
    fn failures(&self) -> &Queue {
        &self.failures
    }
    fn parking(&self) -> &Self::Parking {
        &self.parking
    }
}
