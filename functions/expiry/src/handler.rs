//! The tick's event and its answer, as values.
//!
//! Owns: the real ports of `expiry`. Must not: look into the event; a tick is a tick.

use aws_sdk_dynamodb::Client as DynamoDb;
use aws_sdk_sqs::Client as Sqs;
use lambda_runtime::{Error, LambdaEvent};
use lapse_aws::clients::sdk_config;
use lapse_aws::queue::SqsQueue;
use lapse_aws::schedule::DynamoSchedule;
use lapse_aws::system::SystemClock;
use lapse_aws::telemetry::{self, Metric, Unit};
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::emit::Emitter;

/// One sandbox.
#[derive(Debug)]
pub struct Sandbox(Emitter<SystemClock, DynamoSchedule, SqsQueue>);

impl Sandbox {
    /// With the real ports.
    pub async fn new(config: Config) -> Self {
        let sdk = sdk_config().await;
        Self(Emitter {
            clock: SystemClock,
            schedule: DynamoSchedule::new(DynamoDb::new(&sdk), config.schedule_table),
            queue: SqsQueue::new(Sqs::new(&sdk), config.deliveries_queue_url),
        })
    }

    /// Handles one tick. It fails only where nothing could be done at all: a tick is not retried (EMT-2).
    pub async fn handle(&self, event: LambdaEvent<Value>) -> Result<Value, Error> {
        let ends_at = Timestamp::from_millis(i64::try_from(event.context.deadline).unwrap_or(i64::MAX));
        let tick = self.0.tick(ends_at).await;
        let mut metrics: Vec<_> = tick.counts().into_iter().map(|(name, count)| Metric::count(name, count)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a double holds milliseconds exactly for 285,000 years")]
        metrics.push(Metric::new("EmissionLateness", Unit::Milliseconds, [tick.latest_ms as f64]));
        telemetry::emit(telemetry::NAMESPACE, &metrics, Map::new(), SystemClock.now());
        if tick.out_of_time {
            tracing::warn!(emitted = tick.emitted, "tick_out_of_time");
        }
        Ok(json!({"emitted": tick.emitted, "set_aside": tick.set_aside, "left": tick.left}))
    }
}
