//! The ledger's record as DynamoDB attributes.
//!
//! Owns: attribute names and types of the `deliveries` table. Must not: build statements.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use lapse_policy::ledger::{Record, State};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp};

/// A row of `deliveries`.
pub type Item = HashMap<String, AttributeValue>;

/// Every attribute but the key: `None` is one that the record does not have, to be removed by an update.
#[must_use]
pub fn attributes(record: &Record) -> Vec<(&'static str, Option<AttributeValue>)> {
    let time = |t: Option<Timestamp>| t.map(|t| number(t.millis()));
    let text = |t: &str| AttributeValue::S(t.to_owned());
    vec![
        ("version", Some(number(record.version))),
        ("state", Some(text(record.state.name()))),
        ("attempts", Some(number(record.attempts))),
        ("throttles", Some(number(record.throttles))),
        ("crashes", Some(number(record.crashes))),
        ("token", Some(text(&record.token))),
        ("lease", time(record.lease)),
        ("next_at", time(record.next_at)),
        ("planned_at", record.planned_at.map(|p| number(p.0))),
        ("unknown_outcome", Some(AttributeValue::Bool(record.unknown_outcome))),
        ("reason", record.reason.map(|r| text(r.name()))),
        ("last_status", record.last_status.map(number)),
        ("last_error", record.last_error.as_deref().map(text)),
        ("epoch", Some(number(record.epoch))),
        ("redrive_until", time(record.redrive_until)),
        ("first_at", Some(number(record.first_at.millis()))),
        ("last_at", Some(number(record.last_at.millis()))),
        ("ttl", Some(number(record.ttl))),
    ]
}

/// A number attribute.
#[expect(clippy::needless_pass_by_value, reason = "called with plain numbers")]
pub fn number(n: impl ToString) -> AttributeValue {
    AttributeValue::N(n.to_string())
}

/// Reads an item; an attribute that is missing or of another type names itself.
pub fn record(item: &Item) -> Result<Record, &'static str> {
    let time = |name| read_number(item, name).map(|t| t.map(Timestamp::from_millis));
    let count = |name| read_number::<u32>(item, name).map(Option::unwrap_or_default);
    let text = |name| item.get(name).and_then(|v| v.as_s().ok()).map(String::as_str);
    Ok(Record {
        version: read_number(item, "version")?.ok_or("version")?,
        state: text("state").and_then(State::named).ok_or("state")?,
        attempts: count("attempts")?,
        throttles: count("throttles")?,
        crashes: count("crashes")?,
        token: text("token").unwrap_or_default().to_owned(),
        lease: time("lease")?,
        next_at: time("next_at")?,
        planned_at: read_number(item, "planned_at")?.map(Micros),
        unknown_outcome: item.get("unknown_outcome").and_then(|v| v.as_bool().ok()).copied().unwrap_or(false),
        reason: text("reason").and_then(Reason::named),
        last_status: read_number(item, "last_status")?,
        last_error: text("last_error").map(str::to_owned),
        epoch: read_number(item, "epoch")?.unwrap_or(1),
        redrive_until: time("redrive_until")?,
        triaged_epoch: read_number(item, "triaged_epoch")?,
        first_at: time("first_at")?.unwrap_or(Timestamp::EPOCH),
        last_at: time("last_at")?.unwrap_or(Timestamp::EPOCH),
        ttl: read_number(item, "ttl")?.unwrap_or_default(),
    })
}

/// A number attribute that may be absent.
pub fn read_number<T: std::str::FromStr>(item: &Item, name: &'static str) -> Result<Option<T>, &'static str> {
    item.get(name).map(|value| value.as_n().ok().and_then(|n| n.parse().ok()).ok_or(name)).transpose()
}
