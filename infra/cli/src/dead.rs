//! `lapse dead`: what needs a person, why, and what would help.
//!
//! Owns: finding dead deliveries by the index `dead`, and their counts by destination and reason. Must not: redrive; the
//! SQS console does, and keeps each letter until it is taken.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use clap::{Args, Subcommand};
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::system::SystemClock;
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{Clock as _, Ledger as _};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::columns::aligned;
use crate::commands::{print, say, show, usage};
use crate::deployed::{Deployed, StackFlags};
use crate::destination::rows::Rows;
use crate::span;

/// Partitions of the index per destination (infra/contract.json).
const INDEX_SHARDS: u32 = 8;

const EXAMPLES: &str = "\
Examples:
  lapse dead summary
  lapse dead list --destination catalog
  lapse dead list --reason attempts_exhausted --limit 20 --json
  lapse delivery show catalog res_8472:3

Costs eight queries for each destination, and one read for each delivery.
Letters of malformed bodies have no record, and those of destinations without
a row are found by --destination alone: see the queue dead-letters for both.";

/// What is asked.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Dead {
    /// One line for each dead delivery, the latest first.
    List(ListFlags),
    /// Counts by destination and reason, and what would help.
    Summary(SummaryFlags),
}

/// Which of them.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Of this destination alone.
    #[arg(long)]
    destination: Option<String>,
    /// With this reason alone.
    #[arg(long)]
    reason: Option<String>,
    /// So many at most.
    #[arg(long, default_value = "100")]
    limit: usize,
    #[command(flatten)]
    stack: StackFlags,
}

/// Of which destination.
#[derive(Debug, Args)]
pub struct SummaryFlags {
    /// Of this destination alone.
    #[arg(long)]
    destination: Option<String>,
    #[command(flatten)]
    stack: StackFlags,
}

type Found = (DeliveryKey, Record);

/// Runs the command.
pub async fn run(command: Dead) -> Result<ExitCode> {
    match command {
        Dead::List(flags) => list(&flags).await,
        Dead::Summary(flags) => summary(&flags).await,
    }
}

async fn list(flags: &ListFlags) -> Result<ExitCode> {
    let reason = flags.reason.as_deref().map(named).transpose()?;
    let stack = Deployed::find(&flags.stack).await?;
    let mut found = find(&stack, flags.destination.as_deref()).await?;
    found.retain(|(_, record)| reason.is_none() || record.reason == reason);
    let (now, all) = (SystemClock.now(), found.len());
    found.truncate(flags.limit);
    let mut table = vec![["delivery", "reason", "status", "attempts", "epoch", "died", "outcome"].map(str::to_owned)];
    for (key, record) in &found {
        if flags.stack.json {
            print(&object(key, record).to_string())?;
        }
        table.push(line(key, record, now));
    }
    if !flags.stack.json {
        if !found.is_empty() {
            aligned(&table, 2).iter().try_for_each(|line| print(line))?;
        }
        say(&format!("{} of {all} dead deliveries", found.len()));
    }
    Ok(ExitCode::SUCCESS)
}

fn named(reason: &str) -> Result<Reason> {
    let all = || Reason::ALL.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(", ");
    Reason::named(reason).ok_or_else(|| usage(&format!("--reason {reason:?} must be one of: {}", all())))
}

fn line(key: &DeliveryKey, record: &Record, now: Timestamp) -> [String; 7] {
    [
        key.to_string(),
        word(record),
        record.last_status.map_or("none".to_owned(), |status| status.to_string()),
        record.attempts.to_string(),
        record.epoch.to_string(),
        format!("{} ago", span::rough(now.since(record.last_at))),
        if record.unknown_outcome { "may have arrived".to_owned() } else { "not delivered".to_owned() },
    ]
}

fn word(record: &Record) -> String {
    record.reason.map_or("unknown".to_owned(), |reason| reason.to_string())
}

fn object(key: &DeliveryKey, record: &Record) -> Value {
    json!({
        "delivery": key.to_string(), "reason": record.reason, "advice": record.reason.map(Reason::advice),
        "last_status": record.last_status, "last_error": record.last_error, "attempts": record.attempts,
        "throttles": record.throttles, "epoch": record.epoch, "unknown_outcome": record.unknown_outcome,
        "first_at": record.first_at, "died_at": record.last_at,
    })
}

/// One destination's deaths of one reason.
#[derive(Debug, Default)]
struct Group {
    count: u64,
    unknown: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

async fn summary(flags: &SummaryFlags) -> Result<ExitCode> {
    let stack = Deployed::find(&flags.stack).await?;
    let found = find(&stack, flags.destination.as_deref()).await?;
    let letters = depth(&stack).await?;
    let mut groups: BTreeMap<(String, String), Group> = BTreeMap::new();
    for (key, record) in &found {
        let group = groups.entry((key.destination.to_string(), word(record))).or_default();
        group.count += 1;
        group.unknown += u64::from(record.unknown_outcome);
        group.first = group.first.into_iter().chain([record.last_at]).min();
        group.last = group.last.max(Some(record.last_at));
    }
    let now = SystemClock.now();
    let ago = |at: Option<Timestamp>| at.map_or(String::new(), |at| format!("{} ago", span::rough(now.since(at))));
    let mut table = vec![["destination", "reason", "dead", "may have arrived", "oldest", "latest"].map(str::to_owned)];
    let mut objects = Vec::new();
    for ((destination, reason), group) in &groups {
        let (first, last) = (ago(group.first), ago(group.last));
        let counts = [group.count.to_string(), group.unknown.to_string()];
        let [count, unknown] = counts;
        table.push([destination.clone(), reason.clone(), count, unknown, first, last]);
        objects.push(json!({
            "destination": destination, "reason": reason, "dead": group.count, "unknown_outcome": group.unknown,
            "oldest": group.first, "latest": group.last,
        }));
    }
    let mut lines = if groups.is_empty() { Vec::new() } else { aligned(&table, 2) };
    lines.push(format!("{} dead deliveries with a record; about {letters} messages in dead-letters", found.len()));
    let mut reasons: Vec<_> = found.iter().filter_map(|(_, record)| record.reason).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        lines.push(format!("{reason}: {}", reason.advice()));
    }
    if letters > 0 {
        lines.push(
            "RUNBOOK, \"Redrive\": mend the cause first; then SQS console, dead-letters, Start DLQ redrive.".to_owned(),
        );
    }
    show(flags.stack.json, &json!({"groups": objects, "records": found.len(), "letters": letters}), &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// About how many messages are in `dead-letters`.
async fn depth(stack: &Deployed) -> Result<u64> {
    let name = QueueAttributeName::ApproximateNumberOfMessages;
    let url = stack.output("DeadLettersQueueUrl")?;
    let asked = stack.sqs().get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
    let answer = asked.map_err(|error| anyhow!("cannot look into dead-letters: {}", DisplayErrorContext(&error)))?;
    let count = answer.attributes().and_then(|all| all.get(&name)).context("SQS gave no count of dead-letters")?;
    count.parse().with_context(|| format!("SQS counts {count:?} messages in dead-letters"))
}

/// The dead deliveries of one destination or of all that have a row, the latest first. Entries of the index stay after a
/// redrive: the record says whether it is dead still.
async fn find(stack: &Deployed, destination: Option<&str>) -> Result<Vec<Found>> {
    let names = match destination {
        Some(name) => {
            let name = DestinationName::parse(name).map_err(|error| usage(&format!("--destination: {error}")))?;
            vec![name.to_string()]
        }
        None => Rows::of(stack)?.all().await?.into_keys().collect(),
    };
    let mut keys = Vec::new();
    for name in names {
        for shard in 0..INDEX_SHARDS {
            keys.extend(entries(stack, &format!("{name}#{shard}")).await?);
        }
    }
    let ledger = DynamoLedger::new(stack.dynamodb(), stack.output("DeliveriesTableName")?.to_owned());
    let records = ledger.read(&keys).await?;
    let mut found: Vec<_> = records.into_iter().filter(|(_, record)| record.state == State::Dead).collect();
    found.sort_by(|(one, a), (other, b)| b.last_at.cmp(&a.last_at).then_with(|| one.cmp(other)));
    Ok(found)
}

async fn entries(stack: &Deployed, partition: &str) -> Result<Vec<DeliveryKey>> {
    let table = stack.output("DeliveriesTableName")?;
    let mut pages = stack
        .dynamodb()
        .query()
        .table_name(table)
        .index_name("dead")
        .key_condition_expression("#dead = :dead")
        .expression_attribute_names("#dead", "dead")
        .expression_attribute_values(":dead", AttributeValue::S(partition.to_owned()))
        .into_paginator()
        .items()
        .send();
    let mut keys = Vec::new();
    while let Some(item) = pages.next().await {
        let item = item.map_err(|error| anyhow!("cannot query {table}: {}", DisplayErrorContext(&error)))?;
        let key = item.get("delivery").and_then(|key| key.as_s().ok());
        keys.extend(key.and_then(|key| DeliveryKey::parse(key).ok()));
    }
    Ok(keys)
}
