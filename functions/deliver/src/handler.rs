//! The Lambda event and its answer, as values.
//!
//! Owns: the sandbox with its real ports, and the translation to and from the event source's forms.
//! Must not: work on deliveries; `batch` does.

use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_sqs::Client as Sqs;
use lambda_runtime::{Error, LambdaEvent};
use lapse_aws::clients::sdk_config;
use lapse_aws::destinations::DynamoDestinations;
use lapse_aws::http_sender::{HttpSender, SetupError};
use lapse_aws::lanes::DynamoLanes;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::queue::SqsQueue;
use lapse_aws::schedule::DynamoSchedule;
use lapse_aws::sqs_event::{BatchResponse, Received, SqsEvent};
use lapse_aws::system::{SystemChance, SystemClock};
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;

use crate::batch::deliver;
use crate::config::Config;
use crate::report;
use crate::run::Memory;
use crate::world::World;

/// One sandbox: its ports, and what it remembers between invocations.
#[derive(Debug)]
pub struct Sandbox {
    ledger: DynamoLedger,
    limits: DynamoLimits,
    lanes: DynamoLanes,
    destinations: DynamoDestinations,
    parking: DynamoSchedule,
    deliveries: SqsQueue,
    failures: SqsQueue,
    sender: HttpSender,
    memory: Memory,
}

impl Sandbox {
    /// With the real ports.
    pub async fn new(config: Config) -> Result<Self, SetupError> {
        let sdk = sdk_config().await;
        let (dynamodb, sqs) = (DynamoDb::new(&sdk), Sqs::new(&sdk));
        Ok(Self {
            ledger: DynamoLedger::new(dynamodb.clone(), config.deliveries_table),
            limits: DynamoLimits::new(dynamodb.clone(), config.limits_table.clone()),
            lanes: DynamoLanes::new(dynamodb.clone(), config.limits_table),
            destinations: DynamoDestinations::new(dynamodb.clone(), config.destinations_table),
            parking: DynamoSchedule::new(dynamodb, config.schedule_table),
            deliveries: SqsQueue::new(sqs.clone(), config.deliveries_queue_url),
            failures: SqsQueue::new(sqs, config.failures_queue_url),
            sender: HttpSender::new(config.allow)?,
            memory: Memory::default(),
        })
    }

    /// Handles one event.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<BatchResponse, Error> {
        let ends_at = Timestamp::from_millis(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
        let batch: Vec<Received> = event.payload.records.into_iter().map(Into::into).collect();
        // Boxed: the whole of a batch is one deeply nested future.
        let delivered = Box::pin(deliver(self, &self.memory, &batch, ends_at)).await;
        report::batch(&delivered.tally, delivered.remaining.len(), SystemClock.now());
        let ids = delivered.remaining.into_iter().filter_map(|index| batch.get(index));
        Ok(BatchResponse::keeping(ids.map(|received| received.message_id.clone())))
    }
}

impl World for Sandbox {
    type Clock = SystemClock;
    type Chance = SystemChance;
    type Ledger = DynamoLedger;
    type Limits = DynamoLimits;
    type Lanes = DynamoLanes;
    type Destinations = DynamoDestinations;
    type Sender = HttpSender;
    type Deliveries = SqsQueue;
    type Failures = SqsQueue;
    type Parking = DynamoSchedule;

    fn clock(&self) -> &SystemClock {
        &SystemClock
    }
    fn chance(&self) -> &SystemChance {
        &SystemChance
    }
    fn ledger(&self) -> &DynamoLedger {
        &self.ledger
    }
    fn limits(&self) -> &DynamoLimits {
        &self.limits
    }
    fn lanes(&self) -> &DynamoLanes {
        &self.lanes
    }
    fn destinations(&self) -> &DynamoDestinations {
        &self.destinations
    }
    fn sender(&self) -> &HttpSender {
        &self.sender
    }
    fn deliveries(&self) -> &SqsQueue {
        &self.deliveries
    }
    fn failures(&self) -> &SqsQueue {
        &self.failures
    }
    fn parking(&self) -> &DynamoSchedule {
        &self.parking
    }
}
