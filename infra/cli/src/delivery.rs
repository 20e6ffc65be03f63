//! `lapse delivery`: where one delivery stands.
//!
//! Owns: its key on the command line, reading its record, and its row in the schedule if it has no record.
//! Must not: write, nor say what a record means; `story` does.

pub mod story;

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use clap::{Args, Subcommand};
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::record_item::number;
use lapse_aws::system::SystemClock;
use lapse_policy::destination::Destination;
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Clock as _, Ledger as _, Limits as _};
use lapse_policy::schedule::RowKey;
use lapse_policy::timestamp::Timestamp;

use crate::commands::{show, usage};
use crate::deployed::{Deployed, StackFlags};
use crate::destination::rows::Rows;

const EXAMPLES: &str = "\
Examples:
  lapse delivery show catalog res_8472:3
  lapse delivery show 'catalog#res_8472:3' --json

Costs three reads; without a record a Query of one of the schedule's 16
shards, ten pages at most.
Exit codes: 0 there is a record or a row; 1 there is neither, or it failed;
2 wrong usage; 130 interrupted.";

/// Pages of a shard that are read for one row: 10 MB. An import may have put more there than a person waits for.
const PAGES: usize = 10;

/// What is asked about a delivery.
#[derive(Debug, Subcommand)]
pub enum Delivery {
    /// Where it stands, why, and what happens next.
    Show(ShowFlags),
}

/// Which delivery, of which stack.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowFlags {
    /// The destination's name; or the whole key, `destination#id`.
    destination: String,
    /// The event's id.
    id: Option<String>,
    #[command(flatten)]
    stack: StackFlags,
}

/// What is around a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Around {
    /// `max_attempts` of its destination, if that has a row that parses.
    pub max_attempts: Option<u32>,
    /// The end of a pause that lasts.
    pub paused_until: Option<Timestamp>,
}

/// The row of a delivery in the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parked {
    /// It is due then.
    Until(Timestamp),
    /// It was set aside (EMT-4): nothing sends it any more. Why.
    Aside(String),
    /// The whole shard has no such row.
    Nowhere,
    /// The shard has more pages than are read.
    NotSeen,
}

/// Runs the command.
pub async fn run(command: Delivery) -> Result<ExitCode> {
    let Delivery::Show(flags) = command;
    let key = key(&flags)?;
    let stack = Deployed::find(&flags.stack).await?;
    let ledger = DynamoLedger::new(stack.dynamodb(), stack.output("DeliveriesTableName")?.to_owned());
    let record = ledger.read(std::slice::from_ref(&key)).await?.remove(&key);
    let now = SystemClock.now();
    let Some(record) = record else {
        let parked = parked(&stack, &key).await?;
        show(flags.stack.json, &story::absent_object(&key, &parked), &story::absent(&key, &parked, now))?;
        return Ok(if matches!(parked, Parked::Until(_)) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    };
    let around = around(&stack, &key).await?;
    show(flags.stack.json, &story::object(&key, &record, &around, now), &story::lines(&key, &record, &around, now))?;
    Ok(ExitCode::SUCCESS)
}

/// What is around a delivery: its destination's pause and limit of attempts, as they are now.
async fn around(stack: &Deployed, key: &DeliveryKey) -> Result<Around> {
    let limits = DynamoLimits::new(stack.dynamodb(), stack.output("LimitsTableName")?.to_owned());
    let row = Rows::of(stack)?.read(&key.destination).await?;
    let destination = row.and_then(|row| Destination::parse(&key.destination, &row).ok());
    Ok(Around {
        max_attempts: destination.map(|destination| destination.retry.max_attempts.get()),
        paused_until: limits.read(&key.destination).await?.paused(SystemClock.now()),
    })
}

fn key(flags: &ShowFlags) -> Result<DeliveryKey> {
    let text = match &flags.id {
        Some(id) => format!("{}#{id}", flags.destination),
        None => flags.destination.clone(),
    };
    DeliveryKey::parse(&text).map_err(|e| usage(&format!("DESTINATION ID, or destination#id: {text:?}: {e}")))
}

async fn parked(stack: &Deployed, key: &DeliveryKey) -> Result<Parked> {
    let (client, table) = (stack.dynamodb(), stack.output("ScheduleTableName")?);
    let shard = RowKey::new(Timestamp::EPOCH, key.clone()).shard();
    let mut after = None;
    for _ in 0..PAGES {
        // The due time comes first in the sort key and is not known: the shard is read, and only keys are sent back.
        let asked = client
            .query()
            .table_name(table)
            .key_condition_expression("#shard = :shard")
            .projection_expression("#due")
            .expression_attribute_names("#shard", "shard")
            .expression_attribute_names("#due", "due")
            .expression_attribute_values(":shard", number(shard))
            .set_exclusive_start_key(after.take());
        let answer = match asked.send().await {
            Ok(answer) => answer,
            Err(error) => bail!("cannot query the table {table}: {}", DisplayErrorContext(&error)),
        };
        let due = |value: &AttributeValue| value.as_s().ok().and_then(|text| RowKey::parse(text).ok());
        let mut rows = answer.items().iter().filter_map(|item| item.get("due").and_then(due));
        if let Some(row) = rows.find(|row| row.delivery == *key) {
            return Ok(Parked::Until(row.due));
        }
        let Some(next) = answer.last_evaluated_key.filter(|next| !next.is_empty()) else {
            return aside(stack, key).await;
        };
        after = Some(next);
    }
    Ok(Parked::NotSeen)
}

/// Shard -1 holds what can never be sent: a row's key there ends with where it was, after an `@`.
async fn aside(stack: &Deployed, key: &DeliveryKey) -> Result<Parked> {
    let table = stack.output("ScheduleTableName")?;
    let mut pages = stack
        .dynamodb()
        .query()
        .table_name(table)
        .key_condition_expression("#shard = :shard")
        .expression_attribute_names("#shard", "shard")
        .expression_attribute_values(":shard", number(-1))
        .into_paginator()
        .items()
        .send();
    while let Some(item) = pages.next().await {
        let item = item.map_err(|error| anyhow!("cannot query the table {table}: {}", DisplayErrorContext(&error)))?;
        let text = |name| item.get(name).and_then(|value: &AttributeValue| value.as_s().ok());
        let due = text("due").and_then(|due| due.rsplit_once('@')).map(|(due, _)| due);
        if due.and_then(|due| RowKey::parse(due).ok()).is_some_and(|row| row.delivery == *key) {
            return Ok(Parked::Aside(text("reason").cloned().unwrap_or_default()));
        }
    }
    Ok(Parked::Nowhere)
}
