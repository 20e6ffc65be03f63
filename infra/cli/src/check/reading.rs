//! Reads a deployed stack for `lapse check`.
//!
//! Owns: the requests, and a note of each that fails. Must not: judge, nor write anything.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use aws_sdk_cloudformation::error::{DisplayErrorContext, ProvideErrorMetadata};
use aws_sdk_cloudwatch::types::{Dimension, Statistic};
use aws_sdk_dynamodb::types::{AttributeValue, KeyType, PointInTimeRecoveryStatus};
use aws_sdk_lambda::types::FunctionResponseType;
use aws_sdk_sqs::types::QueueAttributeName;
use lapse_aws::system::SystemClock;
use lapse_policy::ports::Clock as _;
use lapse_policy::schedule::{RowKey, SHARDS};
use lapse_policy::timestamp::Timestamp;

use super::contract::{Contract, FunctionTerms};
use super::deployment::{Deployment, Function, Mapping, Queue, Table};
use crate::deployed::Deployed;
use crate::destination::rows::Rows;

/// How far back the age of a message is looked for: `CloudWatch` is minutes behind.
const AGE_WINDOW: Duration = Duration::from_secs(900);

/// Retries and seconds of a function that has no configuration of its own.
const ASYNCHRONOUS_DEFAULT: (u64, u64) = (2, 21_600);

/// Reads everything that can be read.
pub async fn read(deployed: &Deployed, contract: &Contract, local: bool) -> Deployment {
    let mut reader =
        Reader { deployed, lambda: aws_sdk_lambda::Client::new(deployed.sdk()), found: Deployment::default() };
    for name in contract.queues.keys() {
        if let Some(url) = reader.output(contract, name, "QueueUrl", false) {
            reader.queue(name, url).await;
        }
    }
    for (name, terms) in &contract.functions {
        if let Some(id) = reader.output(contract, name, "FunctionName", terms.condition.is_some()) {
            reader.function(name, &id, terms).await;
        }
    }
    for (name, terms) in &contract.tables {
        if let Some(id) = reader.output(contract, name, "TableName", terms.condition.is_some()) {
            reader.table(name, &id).await;
        }
    }
    reader.rows().await;
    if local {
        forget_what_the_emulator_drops(&mut reader.found);
    }
    reader.found
}

struct Reader<'a> {
    deployed: &'a Deployed,
    lambda: aws_sdk_lambda::Client,
    found: Deployment,
}

impl Reader<'_> {
    fn output(&mut self, contract: &Contract, name: &str, ends: &str, may_lack: bool) -> Option<String> {
        let output = contract.output_of(name, ends)?;
        let value = self.deployed.outputs.get(output).cloned();
        if value.is_none() && !may_lack {
            self.found.unread.push((name.to_owned(), format!("the stack has no output {output}")));
        }
        value
    }

    fn note<T, U>(&mut self, what: &str, read: Result<T>, keep: impl FnOnce(&mut Deployment, T) -> U) {
        match read {
            Ok(value) => drop(keep(&mut self.found, value)),
            Err(error) => self.found.unread.push((what.to_owned(), format!("{error:#}"))),
        }
    }

    async fn queue(&mut self, name: &str, url: String) {
        let queue = queue(self.deployed, url).await;
        let Ok(arn) = queue.as_ref().map(|queue| queue.arn.clone()) else {
            return self.note(&format!("queue {name}"), queue, |_, _| ());
        };
        self.note(&format!("queue {name}"), queue, |found, queue| found.queues.insert(name.to_owned(), queue));
        let oldest = oldest(self.deployed, arn.rsplit(':').next().unwrap_or_default()).await;
        self.note(&format!("queue {name}: the age of its oldest message"), oldest, |found, oldest| {
            found.queues.get_mut(name).map(|queue| queue.oldest = oldest)
        });
    }

    async fn function(&mut self, name: &str, id: &str, terms: &FunctionTerms) {
        let lambda = self.lambda.clone();
        let answer = told(lambda.get_function_configuration().function_name(id).send().await);
        self.note(&format!("function {name}"), answer, |found, answer| {
            let environment = answer.environment.and_then(|environment| environment.variables).unwrap_or_default();
            let timeout = count(answer.timeout);
            let function = Function { timeout, environment: environment.into_iter().collect(), ..Function::default() };
            found.functions.insert(name.to_owned(), function)
        });
        let with = |found: &mut Deployment, set: &dyn Fn(&mut Function)| {
            if let Some(function) = found.functions.get_mut(name) {
                set(function);
            }
        };
        let answer = told(lambda.get_function_concurrency().function_name(id).send().await);
        self.note(&format!("function {name}: reserved concurrency"), answer, |found, answer| {
            let reserved = answer.reserved_concurrent_executions.map(|n| count(Some(n)));
            with(found, &|function| function.reserved = Some(reserved));
        });
        if terms.recursive_loop.is_some() {
            let answer = told(lambda.get_function_recursion_config().function_name(id).send().await);
            self.note(&format!("function {name}: recursive loops"), answer, |found, answer| {
                let loops = answer.recursive_loop.map(|setting| setting.as_str().to_owned());
                with(found, &|function| function.recursive_loop.clone_from(&loops));
            });
        }
        if terms.asynchronous_invocation.is_some() {
            let answer = lambda.get_function_event_invoke_config().function_name(id).send().await;
            let pair = match answer {
                Ok(answer) => Ok((count(answer.maximum_retry_attempts), count(answer.maximum_event_age_in_seconds))),
                Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(ASYNCHRONOUS_DEFAULT),
                Err(error) => told(Err(error)),
            };
            self.note(&format!("function {name}: asynchronous calls"), pair, |found, pair| {
                with(found, &|function| function.asynchronous = Some(pair));
            });
        }
        if terms.source.is_some() {
            let pages = lambda.list_event_source_mappings().function_name(id).into_paginator().items().send();
            let answer = told(pages.collect::<Result<Vec<_>, _>>().await);
            self.note(&format!("function {name}: mappings"), answer, |found, answer| {
                found.mappings.insert(name.to_owned(), answer.iter().map(mapping).collect())
            });
        }
    }

    async fn table(&mut self, name: &str, id: &str) {
        let dynamodb = self.deployed.dynamodb();
        let answer = told(dynamodb.describe_table().table_name(id).send().await);
        self.note(&format!("table {name}"), answer, |found, answer| {
            let mut schema = answer.table.and_then(|table| table.key_schema).unwrap_or_default();
            schema.sort_by_key(|element| element.key_type != KeyType::Hash);
            let keys = schema.into_iter().map(|element| element.attribute_name).collect();
            found.tables.insert(name.to_owned(), Table { name: id.to_owned(), keys, ..Table::default() })
        });
        let answer = told(dynamodb.describe_time_to_live().table_name(id).send().await);
        self.note(&format!("table {name}: expiry of rows"), answer, |found, answer| {
            let ttl = answer.time_to_live_description.and_then(|description| description.attribute_name);
            found.tables.get_mut(name).map(|table| table.ttl = Some(ttl))
        });
        let answer = told(dynamodb.describe_continuous_backups().table_name(id).send().await);
        self.note(&format!("table {name}: recovery to a point in time"), answer, |found, answer| {
            let description = answer.continuous_backups_description;
            let recovery = description.and_then(|backups| backups.point_in_time_recovery_description);
            let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
            let restorable = status.map(|status| status == PointInTimeRecoveryStatus::Enabled);
            found.tables.get_mut(name).map(|table| table.restorable = restorable)
        });
    }

    async fn rows(&mut self) {
        let read = async { Rows::of(self.deployed)?.all().await }.await;
        self.note("table destinations: its rows", read, |found, rows| found.destinations = Some(rows));
        let read = overdue(self.deployed, SystemClock.now()).await;
        self.note("table schedule: its oldest row", read, |found, seconds| found.overdue = Some(seconds));
    }
}

/// An answer, or the error in the words of AWS; where AWS did not answer, with all that it is made of.
fn told<T, E: std::error::Error + ProvideErrorMetadata>(answer: Result<T, E>) -> Result<T> {
    answer.map_err(|error| match (error.code(), error.message()) {
        (Some(code), Some(message)) => anyhow::anyhow!("{code}: {message}"),
        (Some(code), None) => anyhow::anyhow!("{code}"),
        (None, _) => anyhow::anyhow!("{}", DisplayErrorContext(&error)),
    })
}

/// Takes out what the local emulator does not keep: it says nothing about the template.
fn forget_what_the_emulator_drops(found: &mut Deployment) {
    for function in found.functions.values_mut() {
        (function.reserved, function.recursive_loop, function.asynchronous) = (None, None, None);
    }
    for table in found.tables.values_mut() {
        (table.ttl, table.restorable) = (None, None);
    }
    let dropped = ["functions: reserved concurrency, recursive loops, asynchronous calls", "tables: expiry, recovery"];
    found.dropped.extend(dropped.map(str::to_owned));
}

/// A number that AWS never makes negative.
fn count(number: Option<i32>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default()
}

fn mapping(found: &aws_sdk_lambda::types::EventSourceMappingConfiguration) -> Mapping {
    let concurrency = found.scaling_config().and_then(aws_sdk_lambda::types::ScalingConfig::maximum_concurrency);
    Mapping {
        source: found.event_source_arn().unwrap_or_default().to_owned(),
        state: found.state().unwrap_or_default().to_owned(),
        batch_size: count(found.batch_size()),
        window: count(found.maximum_batching_window_in_seconds()),
        reports_failures: found.function_response_types().contains(&FunctionResponseType::ReportBatchItemFailures),
        filters: found.filter_criteria().map_or(0, |criteria| criteria.filters().len()),
        maximum_concurrency: concurrency.map(|most| count(Some(most))),
    }
}

async fn queue(deployed: &Deployed, url: String) -> Result<Queue> {
    let request = deployed.sqs().get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::All);
    let attributes = told(request.send().await)?.attributes.unwrap_or_default();
    let attributes: BTreeMap<_, _> = attributes.into_iter().map(|(k, v)| (k.as_str().to_owned(), v)).collect();
    let arn = attributes.get("QueueArn").cloned().context("SQS gave no QueueArn")?;
    Ok(Queue { url, arn, attributes, oldest: None })
}

async fn oldest(deployed: &Deployed, queue: &str) -> Result<Option<u64>> {
    let now = UNIX_EPOCH + SystemClock.now().since(Timestamp::from_millis(0));
    let request = aws_sdk_cloudwatch::Client::new(deployed.sdk())
        .get_metric_statistics()
        .namespace("AWS/SQS")
        .metric_name("ApproximateAgeOfOldestMessage")
        .dimensions(Dimension::builder().name("QueueName").value(queue).build())
        .start_time((now - AGE_WINDOW).into())
        .end_time(now.into())
        .period(60)
        .statistics(Statistic::Maximum);
    let mut points = told(request.send().await)?.datapoints.unwrap_or_default();
    points.sort_by_key(|point| point.timestamp.map_or(0, |at| at.secs()));
    let last = points.last().and_then(|point| point.maximum);
    Ok(last.and_then(|age| Duration::try_from_secs_f64(age).ok()).map(|age| age.as_secs()))
}

async fn overdue(deployed: &Deployed, now: Timestamp) -> Result<u64> {
    let table = deployed.output("ScheduleTableName")?;
    let mut oldest = now;
    for shard in 0..SHARDS {
        let request = deployed.dynamodb().query().table_name(table).limit(1).key_condition_expression("shard = :s");
        let request = request.expression_attribute_values(":s", AttributeValue::N(shard.to_string()));
        for item in told(request.send().await)?.items() {
            let due = item.get("due").and_then(|due| due.as_s().ok());
            let key = due.and_then(|due| RowKey::parse(due).ok());
            oldest = key.map_or(oldest, |key| oldest.min(key.due));
        }
    }
    Ok(now.since(oldest).as_secs())
}
