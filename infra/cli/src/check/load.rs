//! What a deployment carries: its destinations, and whether the budgets hold for them (DST-1, ACK-4, EMT-2).
//!
//! Owns: the sums of ARCHITECTURE.md, "Budgets", and ages and depths. Must not: read, or judge settings.

use std::time::Duration;

use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;

use super::contract::Contract;
use super::deployment::{Deployment, Queue};
use super::finding::{Finding, Severity};

/// Messages in flight that stay clear of what SQS allows.
const IN_FLIGHT_MOST: f64 = 70_000.0;
/// Seconds that a message of a backlog is in flight.
const IN_FLIGHT_SECONDS: f64 = 30.0;
/// With twice the sum of the rates, a healthy destination stays punctual beside a backlog.
const CONCURRENCY_PER_RATE: f64 = 2.0;
/// A tick comes every minute: one that was missed is chance, two are not.
const OVERDUE_MOST: u64 = 120;
/// Half of what a queue keeps is left by then.
const OLD: u64 = 604_800;

/// Everything that is wrong with the load, and what nobody knows about it.
#[must_use]
pub fn judge(deployment: &Deployment, contract: &Contract) -> Vec<Finding> {
    let mut findings = Vec::new();
    let timeout = contract.functions.get("deliver").map_or(0, |terms| terms.timeout);
    let timeout = deployment.functions.get("deliver").map_or(timeout, |function| function.timeout);
    let destinations = destinations(deployment, Duration::from_secs(timeout), &mut findings);
    budgets(deployment, contract, &destinations, &mut findings);
    for (name, queue) in &deployment.queues {
        ages_and_depths(name, queue, &mut findings);
    }
    if let Some(overdue) = deployment.overdue.filter(|overdue| *overdue > OVERDUE_MOST) {
        findings.push(Finding {
            severity: Severity::Error,
            what: format!("table schedule: its oldest row has been due for {overdue} s"),
            breaks: "what was parked is late, and may pass its deadline".to_owned(),
            mend: "RUNBOOK.md, \"The scheduler was out\"".to_owned(),
        });
    }
    findings
}

fn destinations(deployment: &Deployment, timeout: Duration, findings: &mut Vec<Finding>) -> Vec<Destination> {
    let mut good = Vec::new();
    for (name, row) in deployment.destinations.iter().flatten() {
        let problem = match DestinationName::parse(name) {
            Ok(parsed) => match Destination::parse(&parsed, row).and_then(|destination| destination.fits(timeout)) {
                Ok(destination) => {
                    good.push(destination);
                    continue;
                }
                Err(error) => format!("{} {}", error.field, error.problem),
            },
            Err(_) => "its name is none".to_owned(),
        };
        findings.push(Finding {
            severity: Severity::Error,
            what: format!("destination {name}: {problem}"),
            breaks: "every delivery to it becomes a dead letter".to_owned(),
            mend: "RUNBOOK.md, `invalid_destination`".to_owned(),
        });
    }
    good
}

fn per_second(destination: &Destination) -> Option<f64> {
    let rate = destination.rate.filter(|_| !destination.disabled)?;
    Some(f64::from(rate.limit.get()) / f64::from(rate.per_seconds.get()))
}

fn budgets(deployment: &Deployment, contract: &Contract, destinations: &[Destination], findings: &mut Vec<Finding>) {
    let rates: f64 = destinations.iter().filter_map(per_second).sum();
    let in_flight = rates * IN_FLIGHT_SECONDS;
    if in_flight >= IN_FLIGHT_MOST {
        findings.push(Finding {
            severity: Severity::Warning,
            what: format!("{in_flight:.0} messages would be in flight if all limited destinations had a backlog"),
            breaks: format!("from {IN_FLIGHT_MOST:.0} on, SQS may hand out nothing more to any destination"),
            mend: "lower the rates, or give some destinations a stack of their own".to_owned(),
        });
    }
    let mappings = deployment.mappings.get("deliver");
    let most = mappings.into_iter().flatten().find_map(|mapping| mapping.maximum_concurrency);
    let Ok(batch) = u32::try_from(contract.event_source.batch_size) else { return };
    let wanted = (CONCURRENCY_PER_RATE * rates / f64::from(batch.max(1))).ceil();
    let Some(most) = most.and_then(|most| u32::try_from(most).ok()).filter(|most| f64::from(*most) < wanted) else {
        return;
    };
    findings.push(Finding {
        severity: Severity::Warning,
        what: format!("function deliver: MaximumConcurrency is {most}; {rates:.0} requests/s want {wanted:.0}"),
        breaks: "with all limited destinations backlogged, healthy ones wait behind them; the limits hold".to_owned(),
        mend: "raise the parameter DeliverMaximumConcurrency: ARCHITECTURE.md, \"Budgets\"".to_owned(),
    });
}

fn ages_and_depths(name: &str, queue: &Queue, findings: &mut Vec<Finding>) {
    let depth = queue.attributes.get("ApproximateNumberOfMessages").and_then(|text| text.parse::<u64>().ok());
    let (letters, mend) = match name {
        "dead-letters" => ("dead letters wait", "RUNBOOK.md, \"Reasons\" and \"Redrive\""),
        "schedule-failures" => ("ticks could not be started", "RUNBOOK.md, \"The scheduler was out\""),
        // Here a depth is work, and its age tells whether it is done.
        _ => ("", "RUNBOOK.md, \"Where to look first\""),
    };
    if let Some(depth) = depth.filter(|depth| *depth > 0 && !letters.is_empty()) {
        findings.push(Finding {
            severity: Severity::Warning,
            what: format!("queue {name}: about {depth} {letters}"),
            breaks: "what they stand for was not done".to_owned(),
            mend: mend.to_owned(),
        });
    }
    match queue.oldest {
        Some(age) if age > OLD => findings.push(Finding {
            severity: Severity::Warning,
            what: format!("queue {name}: its oldest message is {age} s old"),
            breaks: "SQS deletes it after 1,209,600 s, whatever it is".to_owned(),
            mend: mend.to_owned(),
        }),
        Some(_) => {}
        None => findings.push(Finding {
            severity: Severity::NotChecked,
            what: format!("queue {name}: the age of its oldest message is unknown"),
            breaks: "not known: CloudWatch has no data of the last 15 minutes, as for a queue not in use".to_owned(),
            mend: "none, if the queue is not in use".to_owned(),
        }),
    }
}
