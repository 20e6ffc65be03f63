//! What a month of such days costs, from counted calls and infra/prices.json.
//!
//! Owns: which call is billed how. Must not: know prices; the file does.

use serde_json::{Map, Value, json};

use super::ledger::{Book, LogBytes};
use super::{Options, count_ratio};
use crate::fleet::Fleet;

const PRICES: &str = include_str!("../../../../infra/prices.json");
/// Days of a month.
const DAYS: f64 = 30.4;
/// The memory of `deliver` (infra/contract.json).
const GB: f64 = 0.25;
/// Producers send ten at a time.
const BATCH: u64 = 10;
/// The mapping's pollers ask so often a day although there is nothing: five of them, each 20 s, for two queues.
const IDLE_POLLS: u64 = 2 * 5 * 3 * 60 * 24;
/// Ticks a day, and the reads of each: a page of each shard, half a unit at least, strongly consistent.
const TICKS: u64 = 60 * 24;
const READS_OF_A_TICK: u64 = 17;
/// A metrics document (OBS-2), as the local stack logs it for a batch.
const METRICS_BYTES: u64 = 1400;
/// Metrics with values (RUNBOOK, "Metrics").
const METRICS: u64 = 28;

/// A month's bill.
#[derive(Debug)]
pub(super) struct Bill(Vec<(&'static str, f64)>);

/// What a month of this day costs.
pub(super) fn of_day(fleet: &Fleet, book: &Book, logs: &LogBytes, options: &Options) -> Bill {
    let prices: Value = serde_json::from_str(PRICES).unwrap_or_default();
    let price = |name: &str| {
        let of = &prices["prices"][name];
        of["usd"].as_f64().unwrap_or(f64::NAN) / of["per"].as_f64().unwrap_or(f64::NAN)
    };
    let cost = |name: &str, count: u64| price(name) * count_ratio(count, 1) * DAYS;
    let (queue, invocations) = (fleet.world.deliveries.counts(), fleet.mapping.counts());
    let letters = fleet.world.failures.counts();
    let (put, gone) = book.rows();
    let (mut writes, mut reads) = (put + gone, TICKS * READS_OF_A_TICK + fleet.world.destinations.reads());
    for entries in fleet.world.ledger.all_entries() {
        writes += entries.writes;
        reads += entries.reads;
    }
    for bookings in fleet.world.limits.all_bookings() {
        writes += bookings.writes;
        reads += bookings.reads;
    }
    // Each batch is received by one call and deleted by another; rows that are due are sent by `expiry`.
    let sent_by_producers = (u64::from(options.deliveries) - put.min(u64::from(options.deliveries))) / BATCH;
    let sqs =
        sent_by_producers + queue.send_calls + queue.hide_calls + letters.send_calls + 2 * invocations.all + IDLE_POLLS;
    let gb_ms = count_ratio(invocations.busy_ms, 1000) * GB;
    let bytes = logs.count() + METRICS_BYTES * invocations.all;
    Bill(vec![
        ("Lambda requests", cost("lambda_request", invocations.all + TICKS)),
        ("Lambda time", price("lambda_gb_second_arm64") * gb_ms * DAYS),
        ("SQS", cost("sqs_request", sqs)),
        ("DynamoDB writes", cost("dynamodb_write_unit", writes)),
        ("DynamoDB reads", cost("dynamodb_read_unit", reads)),
        ("CloudWatch logs", price("logs_gb") * count_ratio(bytes, 1_000_000_000) * DAYS),
        ("CloudWatch metrics", price("metric_month") * count_ratio(METRICS, 1)),
        ("Scheduler", cost("scheduler_invocation", TICKS)),
    ])
}

impl Bill {
    /// All of it, in dollars.
    pub(super) fn month(&self) -> f64 {
        cents(self.0.iter().map(|(_, usd)| usd).sum())
    }

    /// By service.
    pub(super) fn by_service(&self) -> Value {
        Value::Object(self.0.iter().map(|(name, usd)| ((*name).to_owned(), json!(cents(*usd)))).collect::<Map<_, _>>())
    }

    /// For a person.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("a month of such days costs ${:.2} (infra/prices.json, without free tiers):", self.month())];
        lines.extend(self.0.iter().map(|(name, usd)| format!("  {name:<20} ${usd:>9.2}")));
        lines
    }
}

fn cents(usd: f64) -> f64 {
    (usd * 100.0).round() / 100.0
}
