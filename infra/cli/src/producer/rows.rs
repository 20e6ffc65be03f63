//! EMT-3: rows of the schedule as a person puts, takes back and looks at them.
//!
//! Owns: finding a row by its delivery. Must not: know attributes; the adapter does.

use std::process::ExitCode;

use anyhow::Result;
use lapse_aws::schedule::DynamoSchedule;
use lapse_aws::system::SystemClock;
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Clock as _, Parking as _, Row, Schedule as _};
use lapse_policy::schedule::{Origin, RowKey, SHARDS};
use lapse_policy::timestamp::Timestamp;
use serde_json::json;

use super::events::{Source, WithDue, when};
use super::{CHUNK, CancelFlags, ListFlags, Outcome, PutFlags};
use crate::columns::aligned;
use crate::commands::{print, say, show, usage};
use crate::deployed::Deployed;

/// Sorts after every time (`expiry` reads up to such a key as well).
const AFTER_TIMES: &str = ":";

fn table(stack: &Deployed) -> Result<DynamoSchedule> {
    Ok(DynamoSchedule::new(stack.dynamodb(), stack.output("ScheduleTableName")?.to_owned()))
}

/// Puts rows.
pub(super) async fn put(flags: &PutFlags) -> Result<ExitCode> {
    let now = SystemClock.now();
    let due = match &flags.due {
        Some(text) => WithDue::At(when("--due", text, now)?),
        None => WithDue::InLine,
    };
    let source = Source::of(&flags.event, due, now)?;
    let stack = Deployed::find(&flags.stack).await?;
    let table = table(&stack)?;
    let (events, bad) = source.read();
    let mut outcome = Outcome { accepted: 0, refused: bad };
    for chunk in events.chunks(CHUNK) {
        let row = |event: &super::Event| {
            let key = RowKey::new(event.due.unwrap_or(now), event.key.clone());
            Row { key, body: event.body.clone(), origin: Origin::New }
        };
        let rows: Vec<_> = chunk.iter().map(row).collect();
        for (event, answer) in chunk.iter().zip(table.put(&rows).await) {
            match answer {
                Ok(()) => outcome.accepted += 1,
                Err(error) => {
                    outcome.refused += 1;
                    say(&format!("{}{}: not stored: {error}", event.place(), event.key));
                }
            }
        }
        if events.len() > CHUNK {
            say(&format!("{} of {} stored", outcome.accepted, events.len()));
        }
    }
    outcome.told(flags.stack.json, "scheduled")
}

/// Takes a delivery's rows back.
pub(super) async fn cancel(flags: &CancelFlags) -> Result<ExitCode> {
    let text = format!("{}#{}", flags.destination, flags.id);
    let key = DeliveryKey::parse(&text).map_err(|error| usage(&format!("DESTINATION ID {text:?}: {error}")))?;
    let stack = Deployed::find(&flags.stack).await?;
    let table = table(&stack)?;
    let shard = RowKey::new(Timestamp::EPOCH, key.clone()).shard();
    let mut cancelled = Vec::new();
    let mut from: Option<String> = None;
    loop {
        let page = table.due(shard, AFTER_TIMES, from.as_deref()).await?;
        let of_it = |due: &String| RowKey::parse(due).is_ok_and(|row| row.delivery == key);
        let found: Vec<_> = page.rows.iter().map(|row| row.due.clone()).filter(of_it).collect();
        if !found.is_empty() {
            table.delete(shard, &found).await?;
            cancelled.extend(found);
        }
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    let lines = match cancelled.len() {
        0 => {
            "it is not in the schedule: it is out already, or never was; the receiver decides by its version".to_owned()
        }
        1 => "taken back".to_owned(),
        n => format!("taken back from {n} times"),
    };
    show(flags.stack.json, &json!({"delivery": text, "cancelled": cancelled.len()}), &[format!("{text}: {lines}")])?;
    Ok(if cancelled.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Shows rows.
pub(super) async fn list(flags: &ListFlags) -> Result<ExitCode> {
    let before = when("--before", &flags.before, SystemClock.now())?;
    let stack = Deployed::find(&flags.stack).await?;
    let table = table(&stack)?;
    let until = format!("{:013}", before.millis().max(0));
    let mut rows = Vec::new();
    for shard in 0..SHARDS {
        let mut from: Option<String> = None;
        let mut seen = 0;
        // The first of each shard are the first of all among them.
        while seen < flags.limit {
            let page = table.due(shard, &until, from.as_deref()).await?;
            let parsed = page.rows.iter().filter_map(|row| Some((RowKey::parse(&row.due).ok()?, row.origin)));
            let wanted = |(key, _): &(RowKey, Origin)| {
                flags.destination.as_deref().is_none_or(|name| key.delivery.destination.as_str() == name)
            };
            let found: Vec<_> = parsed.filter(wanted).collect();
            seen += found.len();
            rows.extend(found);
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
    }
    rows.sort_by(|(one, _), (other, _)| (one.due, &one.delivery).cmp(&(other.due, &other.delivery)));
    rows.truncate(flags.limit);
    let mut lines = vec![["due", "delivery", "kind"].map(str::to_owned)];
    for (key, origin) in &rows {
        let kind = if *origin == Origin::New { "new" } else { "parked" };
        if flags.stack.json {
            print(&json!({"due": key.due, "delivery": key.delivery.to_string(), "kind": kind}).to_string())?;
        }
        lines.push([key.due.to_string(), key.delivery.to_string(), kind.to_owned()]);
    }
    if !flags.stack.json {
        aligned(&lines, 3).iter().try_for_each(|line| print(line))?;
        say(&format!("{} rows", rows.len()));
    }
    Ok(ExitCode::SUCCESS)
}
