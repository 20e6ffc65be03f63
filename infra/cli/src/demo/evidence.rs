//! What came of the play, from four sides: the partners' own counts, the receiver's log, the ledger, and the
//! functions' logs.
//!
//! Owns: reading these. Must not: judge; `proof` does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use lapse_local::driver::{Driver, Event};
use lapse_local::partner::{Checks, Seen};
use lapse_local::{Function, Stack};
use lapse_policy::ledger::{Record, State};
use lapse_policy::timestamp::Timestamp;
use serde_json::Value;

use super::cast::{CATALOG, Cast, Role, SILENT};

/// What came of one destination.
#[derive(Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Events that it was to get.
    pub events: usize,
    /// Deliveries that ended with a 2xx.
    pub delivered: usize,
    /// Deliveries that are dead, by reason.
    pub dead: BTreeMap<&'static str, usize>,
    /// Attempts and throttled answers, as the ledger has them.
    pub recorded_requests: u32,
    /// The partner's own counts.
    pub checks: Checks,
    /// Answered 429.
    pub throttled: usize,
    /// `received`, `deferred`, `republished`, `parked`, `duplicates`: what the batches' metrics say.
    pub counts: BTreeMap<String, u64>,
    /// How late requests started, in ms, sorted: against the end of the hold, the planned time, or the sending.
    pub lateness_ms: Vec<i64>,
}

/// Everything.
#[derive(Debug)]
pub struct Evidence {
    /// Per destination.
    pub parts: Vec<Part>,
    /// Decisions that the receiver made: released, by reservation.
    pub released: BTreeMap<String, usize>,
    /// Reservations whose event it refused.
    pub refused: BTreeSet<String>,
    /// Repeats that it answered with the decision that it had made.
    pub repeats: usize,
    /// Letters in `dead-letters`.
    pub letters: usize,
    /// Requests that started after their event's deadline.
    pub after_deadline: usize,
    /// The most memory that a process of `deliver` has had, in KiB.
    pub deliver_peak_kib: Option<u64>,
    /// How long the play took.
    pub took: Duration,
}

impl Evidence {
    /// Gathers it while the stack still runs.
    pub async fn gather(stack: &Stack, cast: &Cast, took: Duration) -> Result<Self> {
        let driver = Driver::of(stack);
        let records = driver.records(&cast.deliveries()?).await?;
        let log: Vec<Value> = lines(&stack.logs(Function::Deliver).await?);
        let decisions: Vec<Value> = lines(&stack.logs(Function::Receiver).await?);
        let mut parts = Vec::with_capacity(cast.roles.len());
        for role in &cast.roles {
            let record = |event: &Event| event.key().ok().and_then(|key| records.get(&key));
            let records: Vec<&Record> = role.events.iter().filter_map(record).collect();
            parts.push(part(cast, role, &records, &log));
        }
        let mut evidence = Self {
            parts,
            released: BTreeMap::new(),
            refused: BTreeSet::new(),
            repeats: 0,
            letters: driver.dead_letters().await?.len(),
            after_deadline: after_deadline(cast),
            deliver_peak_kib: peak_memory(stack)?,
            took,
        };
        for decision in decisions.iter().filter(|line| line["message"] == "decided") {
            let id = decision["event_id"].as_str().unwrap_or_default();
            let reservation = id.split(':').next().unwrap_or_default().to_owned();
            match (decision["repeated"].as_bool(), decision["decision"].as_str()) {
                (Some(true), _) => evidence.repeats += 1,
                (_, Some("released")) => *evidence.released.entry(reservation).or_default() += 1,
                _ => {
                    evidence.refused.insert(reservation);
                }
            }
        }
        Ok(evidence)
    }

    /// The sum of a count over all destinations.
    #[must_use]
    pub fn sum(&self, count: &str) -> u64 {
        self.parts.iter().filter_map(|part| part.counts.get(count)).sum()
    }

    /// A destination's part.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

fn lines(log: &[String]) -> Vec<Value> {
    log.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn part(cast: &Cast, role: &Role, records: &[&Record], log: &[Value]) -> Part {
    let checks = cast.partner.checks(role.name);
    let mut dead = BTreeMap::new();
    for reason in records.iter().filter(|r| r.state == State::Dead).filter_map(|record| record.reason) {
        *dead.entry(reason.name()).or_default() += 1;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for batch in log.iter().filter_map(|line| line.get("destinations")?.get(role.name)?.as_object()) {
        for (name, count) in batch {
            *counts.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
    }
    Part {
        name: role.name,
        events: role.events.len(),
        delivered: records.iter().filter(|record| record.state == State::Delivered).count(),
        dead,
        recorded_requests: records.iter().map(|record| record.attempts + record.throttles).sum(),
        throttled: checks.statuses.get(&429).copied().unwrap_or(0),
        lateness_ms: lateness(cast, role, log),
        checks,
        counts,
    }
}

fn lateness(cast: &Cast, role: &Role, log: &[Value]) -> Vec<i64> {
    let planned = |line: &Value| -> Option<i64> {
        let of_role = line["destination"] == role.name && line["message"] == "attempt";
        of_role.then(|| line["plan_lead_ms"].as_i64().map(|lead| (-lead).max(0))).flatten()
    };
    let mut late: Vec<i64> = if role.name == CATALOG {
        first_requests(cast, role).map(|(event, seen)| ms(&seen).millis() - event.occurred_at.millis()).collect()
    } else if role.row.get("rate").is_some() {
        log.iter().filter_map(planned).collect()
    } else {
        first_requests(cast, role).map(|(event, seen)| ms(&seen).millis() - event.occurred_at.millis()).collect()
    };
    late.sort_unstable();
    late
}

fn first_requests<'a>(cast: &Cast, role: &'a Role) -> impl Iterator<Item = (&'a Event, Seen)> {
    let seen = cast.partner.requests(role.name);
    role.events.iter().filter_map(move |event| {
        seen.iter().find(|request| request.event == event.id).map(|request| (event, request.clone()))
    })
}

fn ms(seen: &Seen) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seen.arrived_ms).unwrap_or(i64::MAX))
}

fn after_deadline(cast: &Cast) -> usize {
    let deadline = |id: &str| cast.role(SILENT)?.events.iter().find(|event| event.id == id)?.deadline;
    let seen = cast.partner.requests(SILENT);
    seen.iter().filter(|seen| deadline(&seen.event).is_some_and(|deadline| ms(seen) > deadline)).count()
}

fn peak_memory(stack: &Stack) -> Result<Option<u64>> {
    let peak = |pid: u32| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Ok(stack.processes(Function::Deliver)?.into_iter().filter_map(peak).max())
}
