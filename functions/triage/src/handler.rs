//! The Lambda event and its answer, as values.
//!
//! Owns: the real ports of `triage`. Must not: judge letters; `triage` and the rules do.

use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_sqs::Client as Sqs;
use lambda_runtime::{Error, LambdaEvent};
use lapse_aws::clients::sdk_config;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::queue::SqsQueue;
use lapse_aws::sqs_event::{BatchResponse, Received, SqsEvent};
use lapse_aws::system::SystemClock;
use lapse_aws::telemetry::{self, Metric};
use lapse_policy::ports::Clock as _;
use serde_json::Map;

use crate::config::Config;
use crate::dispositions::DynamoDispositions;
use crate::triage::Triage;

/// One sandbox.
#[derive(Debug)]
pub struct Sandbox(Triage<SystemClock, DynamoLedger, DynamoDispositions, SqsQueue, SqsQueue>);

impl Sandbox {
    /// With the real ports.
    pub async fn new(config: Config) -> Self {
        let sdk = sdk_config().await;
        let (dynamodb, sqs) = (DynamoDb::new(&sdk), Sqs::new(&sdk));
        Self(Triage {
            clock: SystemClock,
            ledger: DynamoLedger::new(dynamodb.clone(), config.deliveries_table.clone()),
            dispositions: DynamoDispositions::new(dynamodb, config.deliveries_table),
            failures: SqsQueue::new(sqs.clone(), config.failures_queue_url),
            deliveries: SqsQueue::new(sqs, config.deliveries_queue_url),
            redrive_after: config.redrive_after,
        })
    }

    /// Handles one event.
    pub async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<BatchResponse, Error> {
        let batch: Vec<Received> = event.payload.records.into_iter().map(Into::into).collect();
        let triaged = self.0.batch(&batch).await;
        let counts = [
            ("DeadLetters", triaged.disposed),
            ("Redriven", triaged.redriven),
            ("Unmarked", triaged.unmarked),
            ("VoidLetters", triaged.void),
        ];
        let metrics: Vec<_> = counts.into_iter().map(|(name, count)| Metric::count(name, count)).collect();
        telemetry::emit(telemetry::NAMESPACE, &metrics, Map::new(), SystemClock.now());
        let ids = triaged.remaining.into_iter().filter_map(|index| batch.get(index));
        Ok(BatchResponse::keeping(ids.map(|received| received.message_id.clone())))
    }
}
