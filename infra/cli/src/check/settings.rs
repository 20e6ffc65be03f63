//! The settings of a deployment against the contract and against each other (ACK-4, DLQ-5, EMT-2).
//!
//! Owns: what is wrong with queues, functions, mappings and tables. Must not: read them, or look at load.

use std::collections::BTreeMap;

use serde_json::Value;

use super::contract::{Contract, FunctionTerms, QueueTerms, Source};
use super::deployment::{Deployment, Function, Mapping, Queue};
use super::finding::{Finding, Severity};

const DEPLOY: &str = "deploy the template again (it sets this)";

/// Everything that is wrong with the settings, and what could not be read.
#[must_use]
pub fn judge(deployment: &Deployment, contract: &Contract) -> Vec<Finding> {
    let mut judge = Judge { deployment, contract, findings: Vec::new() };
    for (name, terms) in &contract.queues {
        if let Some(queue) = deployment.queues.get(name) {
            judge.queue(name, queue, terms);
        }
    }
    for (name, terms) in &contract.functions {
        if let Some(function) = deployment.functions.get(name) {
            judge.function(name, function, terms);
        }
        if let (Some(source), Some(mappings)) = (&terms.source, deployment.mappings.get(name)) {
            judge.mappings(name, mappings, source);
        }
    }
    judge.tables();
    judge.unread();
    judge.findings
}

struct Judge<'a> {
    deployment: &'a Deployment,
    contract: &'a Contract,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn add(&mut self, severity: Severity, what: String, breaks: &str, mend: &str) {
        self.findings.push(Finding { severity, what, breaks: breaks.to_owned(), mend: mend.to_owned() });
    }

    fn error(&mut self, what: String, breaks: &str) {
        self.add(Severity::Error, what, breaks, DEPLOY);
    }

    fn queue(&mut self, name: &str, queue: &Queue, terms: &QueueTerms) {
        let retention = number(queue, "MessageRetentionPeriod");
        if retention < terms.retention {
            let what = format!("queue {name}: retention is {retention} s, not {} s", terms.retention);
            self.error(what, "messages and letters vanish before their time, without a trace");
        }
        if let Some(size) = terms.maximum_message_size {
            let found = number(queue, "MaximumMessageSize");
            if found < size {
                let what = format!("queue {name}: messages may have {found} bytes, not {size}");
                self.error(what, "large messages and their letters are refused");
            }
        }
        let policy = policy(queue, "RedrivePolicy");
        if let Some(target) = &terms.dead_letter_queue {
            let dead = self.deployment.queues.get(target);
            if dead.is_some_and(|dead| policy["deadLetterTargetArn"] != dead.arn.as_str()) {
                let what = format!("queue {name}: its dead letters do not go to this stack's {target}");
                self.error(what, "what cannot be handled is received for ever, or lands where nobody looks");
            }
            if dead.is_some_and(|dead| number(dead, "MessageRetentionPeriod") < retention) {
                let what = format!("queue {target}: it keeps letters for less time than {name} keeps messages");
                self.error(what, "a letter's age counts from its first send: it is gone soon after it came");
            }
        }
        if let Some(count) = terms.max_receive_count {
            let found = whole(&policy["maxReceiveCount"]);
            if found != Some(count) {
                let found = found.map_or("not set".to_owned(), |found| found.to_string());
                let what = format!("queue {name}: maxReceiveCount is {found}, not {count}");
                self.error(what, "messages that only wait die early, or poison never leaves");
            }
        }
        if !terms.redrive_sources.is_empty() {
            self.redrive_allow(name, queue, &terms.redrive_sources);
        }
    }

    fn redrive_allow(&mut self, name: &str, queue: &Queue, sources: &[String]) {
        let policy = policy(queue, "RedriveAllowPolicy");
        let allowed = policy["sourceQueueArns"].as_array().map_or(&[][..], Vec::as_slice);
        let takes = |source: &String| {
            self.deployment.queues.get(source).is_none_or(|queue| allowed.iter().any(|arn| *arn == queue.arn.as_str()))
        };
        if policy["redrivePermission"] != "byQueue" || !sources.iter().all(takes) {
            let what = format!("queue {name}: its redrive-allow policy does not name {} alone", sources.join(" and "));
            self.error(what, "SQS cannot move letters there, or other queues' letters mix with these");
        }
    }

    fn function(&mut self, name: &str, function: &Function, terms: &FunctionTerms) {
        if function.timeout != terms.timeout {
            let what = format!("function {name}: its timeout is {} s, not {} s", function.timeout, terms.timeout);
            self.error(what, "it is cut off in its work, or outlasts the visibility of its messages");
        }
        if let (Some(wanted), Some(found)) = (&terms.recursive_loop, &function.recursive_loop)
            && wanted != found
        {
            let what = format!("function {name}: recursive loops are set to {found}, not {wanted}");
            self.error(what, "Lambda stops it after some 16 rounds through its own queue");
        }
        if let (Some(wanted), Some(found)) = (terms.reserved_concurrency, function.reserved)
            && found != Some(wanted)
        {
            let found = found.map_or("not set".to_owned(), |found| found.to_string());
            let what = format!("function {name}: reserved concurrency is {found}, not {wanted}");
            self.error(what, "two ticks may run at once, or none can");
        }
        if let (Some(wanted), Some((attempts, age))) = (&terms.asynchronous_invocation, function.asynchronous)
            && (attempts, age) != (wanted.maximum_retry_attempts, wanted.maximum_event_age)
        {
            let what = format!("function {name}: asynchronous calls have {attempts} retries and an age of {age} s");
            self.error(what, "old ticks run again beside new ones");
        }
        self.environment(name, &function.environment);
    }

    /// A variable is named after the output: `DELIVERIES_QUEUE_URL`, `SCHEDULE_TABLE`.
    fn environment(&mut self, name: &str, environment: &BTreeMap<String, String>) {
        for (variable, value) in environment {
            let part = |suffix| variable.strip_suffix(suffix).map(str::to_lowercase);
            let queue = part("_QUEUE_URL").and_then(|queue| self.deployment.queues.get(&queue)).map(|queue| &queue.url);
            let table = part("_TABLE").and_then(|table| self.deployment.tables.get(&table)).map(|table| &table.name);
            if queue.or(table).is_some_and(|own| last_part(own) != last_part(value)) {
                let what = format!("function {name}: {variable} does not name this stack's own");
                self.error(what, "it reads or writes another stack's deliveries");
            }
        }
    }

    fn mappings(&mut self, name: &str, mappings: &[Mapping], source: &Source) {
        let queue = self.deployment.queues.get(&source.queue);
        let own: Vec<_> = mappings.iter().filter(|m| queue.is_none_or(|queue| m.source == queue.arn)).collect();
        let [mapping] = own[..] else {
            let what = format!("function {name}: {} mappings from the queue {}, not 1", own.len(), source.queue);
            return self.error(what, "its messages are not worked on, or past the concurrency limit");
        };
        if mapping.state != "Enabled" {
            let what = format!("function {name}: its mapping is {}, not Enabled", mapping.state);
            let mend = "enable it: RUNBOOK.md, \"Stop and drain\"";
            self.add(Severity::Error, what, "nothing is delivered while it is so", mend);
        }
        let terms = &self.contract.event_source;
        if (mapping.batch_size, mapping.window) != (terms.batch_size, terms.batching_window) {
            let what = format!(
                "function {name}: batches have {} messages and a window of {} s, not {} and {} s",
                mapping.batch_size, mapping.window, terms.batch_size, terms.batching_window
            );
            self.error(what, "the sums of concurrency and time do not hold");
        }
        if !mapping.reports_failures {
            let what = format!("function {name}: its mapping has no ReportBatchItemFailures");
            self.error(what, "messages that were to be tried again are deleted");
        }
        if mapping.filters > 0 {
            let what = format!("function {name}: its mapping has {} filters, not 0", mapping.filters);
            self.error(what, "SQS deletes what a filter refuses, without a letter");
        }
        self.concurrency(name, mapping, source);
        self.visibility(name, source);
    }

    fn concurrency(&mut self, name: &str, mapping: &Mapping, source: &Source) {
        let Some(most) = mapping.maximum_concurrency else {
            let what = format!("function {name}: its mapping has no MaximumConcurrency");
            return self.error(what, "it takes what other functions of the account need");
        };
        // The template's parameter sets that of `deliver`: the sum in `load` judges it.
        if name != "deliver" && most != source.maximum_concurrency {
            let what = format!("function {name}: MaximumConcurrency is {most}, not {}", source.maximum_concurrency);
            self.error(what, "it works slower than planned, or takes more than its share");
        }
        let reserved = self.deployment.functions.get(name).and_then(|function| function.reserved).flatten();
        if let Some(reserved) = reserved.filter(|reserved| *reserved < most) {
            let what = format!("function {name}: {reserved} are reserved, fewer than MaximumConcurrency {most}");
            let mend = "raise or remove the function's reserved concurrency";
            self.add(Severity::Error, what, "throttled batches count as receives and move towards dead-letters", mend);
        }
    }

    fn visibility(&mut self, name: &str, source: &Source) {
        let function = self.deployment.functions.get(name);
        let (Some(queue), Some(function)) = (self.deployment.queues.get(&source.queue), function) else { return };
        let least = function.timeout.saturating_mul(self.contract.visibility_per_timeout);
        let found = number(queue, "VisibilityTimeout");
        if found < least {
            let what = format!("queue {}: visibility is {found} s, less than {least} s", source.queue);
            self.error(what, "a batch is handed out again while it still runs");
        }
    }

    fn tables(&mut self) {
        for (name, terms) in &self.contract.tables {
            let Some(table) = self.deployment.tables.get(name) else { continue };
            let keys: Vec<_> = std::iter::once(&terms.hash).chain(&terms.range).map(|(key, _)| key.clone()).collect();
            if table.keys != keys {
                let what = format!("table {name}: its key is {}, not {}", table.keys.join(", "), keys.join(", "));
                self.error(what, "every read and write of it fails");
            }
            if table.ttl.as_ref().is_some_and(|ttl| *ttl != terms.ttl) {
                let word = |ttl: &Option<String>| ttl.clone().unwrap_or_else(|| "none".to_owned());
                let found = table.ttl.as_ref().map_or_else(String::new, word);
                let what = format!("table {name}: rows expire by {found}, not {}", word(&terms.ttl));
                self.error(what, "rows are kept for ever, or deleted while they are needed");
            }
            if table.restorable == Some(false) {
                let what = format!("table {name}: no recovery to a point in time");
                self.add(Severity::Warning, what, "what is deleted by mistake is lost", DEPLOY);
            }
        }
    }

    fn unread(&mut self) {
        for what in &self.deployment.dropped {
            let breaks = "not known: the local emulator does not keep it";
            self.add(Severity::NotChecked, what.clone(), breaks, "nothing here: check a stack on AWS");
        }
        for (what, error) in &self.deployment.unread {
            let mend = "grant the permission to read it, or look in the console";
            self.add(Severity::NotChecked, what.clone(), &format!("not known: {error}"), mend);
        }
    }
}

fn number(queue: &Queue, attribute: &str) -> u64 {
    queue.attributes.get(attribute).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// SQS gives policies as text, and numbers in them as either.
fn policy(queue: &Queue, attribute: &str) -> Value {
    queue.attributes.get(attribute).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A queue has more than one host name: its own name decides.
fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
