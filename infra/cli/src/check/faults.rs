//! Each fault of a deployment is found, alone; a sound deployment has none.

use std::collections::BTreeMap;

use serde_json::json;

use super::contract::Contract;
use super::deployment::{Deployment, Function, Mapping, Queue, Table};
use super::finding::Severity::{self, Error, NotChecked, Warning};
use super::{load, settings};

/// What the template deploys, with nothing in it.
fn sound() -> Deployment {
    let contract = Contract::built_in().expect("the contract parses");
    let arn = |name: &str| format!("arn:aws:sqs:eu-west-1:1:lapse-{name}");
    let mut found = Deployment { destinations: Some(BTreeMap::new()), overdue: Some(0), ..Deployment::default() };
    for (name, terms) in &contract.queues {
        let mut attributes = BTreeMap::from([
            ("MessageRetentionPeriod".to_owned(), terms.retention.to_string()),
            ("MaximumMessageSize".to_owned(), "1048576".to_owned()),
            ("VisibilityTimeout".to_owned(), "180".to_owned()),
            ("ApproximateNumberOfMessages".to_owned(), "0".to_owned()),
        ]);
        if let Some(target) = &terms.dead_letter_queue {
            let policy = json!({"deadLetterTargetArn": arn(target), "maxReceiveCount": terms.max_receive_count});
            attributes.insert("RedrivePolicy".to_owned(), policy.to_string());
        }
        let sources: Vec<_> = terms.redrive_sources.iter().map(|source| arn(source)).collect();
        let policy = json!({"redrivePermission": "byQueue", "sourceQueueArns": sources});
        attributes.insert("RedriveAllowPolicy".to_owned(), policy.to_string());
        let queue =
            Queue { url: format!("https://a.example/1/lapse-{name}"), arn: arn(name), attributes, oldest: Some(0) };
        found.queues.insert(name.clone(), queue);
    }
    for (name, terms) in &contract.functions {
        let calls = terms.asynchronous_invocation.as_ref();
        let function = Function {
            timeout: terms.timeout,
            environment: BTreeMap::from([("LIMITS_TABLE".to_owned(), "lapse-limits".to_owned())]),
            reserved: Some(terms.reserved_concurrency),
            recursive_loop: terms.recursive_loop.clone(),
            asynchronous: calls.map(|calls| (calls.maximum_retry_attempts, calls.maximum_event_age)),
        };
        found.functions.insert(name.clone(), function);
        let mapping = |source: &super::contract::Source| Mapping {
            source: arn(&source.queue),
            state: "Enabled".to_owned(),
            batch_size: 10,
            reports_failures: true,
            maximum_concurrency: Some(source.maximum_concurrency),
            ..Mapping::default()
        };
        found.mappings.insert(name.clone(), terms.source.iter().map(mapping).collect());
    }
    for (name, terms) in &contract.tables {
        let keys = std::iter::once(&terms.hash).chain(&terms.range).map(|(key, _)| key.clone()).collect();
        let table = Table { name: format!("lapse-{name}"), keys, ttl: Some(terms.ttl.clone()), restorable: Some(true) };
        found.tables.insert(name.clone(), table);
    }
    found
}

/// The one finding of a deployment with this one fault.
#[track_caller]
fn check(severity: Severity, text: &str, fault: impl FnOnce(&mut Deployment)) {
    let contract = Contract::built_in().expect("the contract parses");
    let mut deployment = sound();
    fault(&mut deployment);
    let mut findings = settings::judge(&deployment, &contract);
    findings.extend(load::judge(&deployment, &contract));
    let [finding] = &findings[..] else { panic!("{text}: one finding, not {findings:#?}") };
    assert_eq!(finding.severity, severity, "{text}: {finding:?}");
    assert!(finding.what.contains(text), "{text}: {finding:?}");
}

fn set(name: &'static str, attribute: &'static str, value: &str) -> impl FnOnce(&mut Deployment) {
    let value = value.to_owned();
    move |found| drop(found.queues.get_mut(name).expect("there").attributes.insert(attribute.to_owned(), value))
}

fn function(name: &'static str, fault: impl FnOnce(&mut Function)) -> impl FnOnce(&mut Deployment) {
    move |found| fault(found.functions.get_mut(name).expect("there"))
}

fn mapping(fault: impl FnOnce(&mut Mapping)) -> impl FnOnce(&mut Deployment) {
    move |found| fault(&mut found.mappings.get_mut("triage").expect("there")[0])
}

#[test]
fn a_sound_deployment_has_no_findings() {
    let contract = Contract::built_in().expect("the contract parses");
    assert_eq!(settings::judge(&sound(), &contract), []);
    assert_eq!(load::judge(&sound(), &contract), []);
}

#[test]
fn a_queue_that_differs_is_an_error() {
    check(Error, "retention is 60 s", set("schedule-failures", "MessageRetentionPeriod", "60"));
    check(Error, "not 1048576", set("deliveries", "MaximumMessageSize", "262144"));
    check(Error, "less than 180 s", set("deliveries", "VisibilityTimeout", "179"));
    let policy = |target: &str, count| json!({"deadLetterTargetArn": target, "maxReceiveCount": count}).to_string();
    let own = "arn:aws:sqs:eu-west-1:1:lapse-dead-letters";
    check(Error, "this stack's dead-letters", set("failures", "RedrivePolicy", &policy("another", 3)));
    check(Error, "maxReceiveCount is 5, not 1000", set("deliveries", "RedrivePolicy", &policy(own, 5)));
    check(Error, "keeps letters for less time", set("failures", "MessageRetentionPeriod", "1209601"));
    check(Error, "redrive-allow", set("dead-letters", "RedriveAllowPolicy", "{}"));
}

#[test]
fn a_function_that_differs_is_an_error() {
    check(Error, "its timeout is 54 s", function("expiry", |f| f.timeout = 54));
    check(Error, "set to Terminate", function("triage", |f| f.recursive_loop = Some("Terminate".to_owned())));
    check(Error, "reserved concurrency is not set", function("expiry", |f| f.reserved = Some(None)));
    check(Error, "have 2 retries", function("expiry", |f| f.asynchronous = Some((2, 60))));
    check(Error, "1 are reserved", function("triage", |f| f.reserved = Some(Some(1))));
    let other = |f: &mut Function| drop(f.environment.insert("LIMITS_TABLE".to_owned(), "other".to_owned()));
    check(Error, "LIMITS_TABLE does not name", function("deliver", other));
}

#[test]
fn a_mapping_that_differs_is_an_error() {
    check(Error, "is Disabled", mapping(|m| m.state = "Disabled".to_owned()));
    check(Error, "batches have 1 messages", mapping(|m| m.batch_size = 1));
    check(Error, "window of 5 s", mapping(|m| m.window = 5));
    check(Error, "ReportBatchItemFailures", mapping(|m| m.reports_failures = false));
    check(Error, "1 filters", mapping(|m| m.filters = 1));
    check(Error, "no MaximumConcurrency", mapping(|m| m.maximum_concurrency = None));
    check(Error, "MaximumConcurrency is 3, not 2", mapping(|m| m.maximum_concurrency = Some(3)));
    check(Error, "0 mappings", |found| found.mappings.get_mut("triage").expect("there").clear());
}

#[test]
fn a_table_that_differs_is_found() {
    let table =
        |found: &mut Deployment, fault: fn(&mut Table)| fault(found.tables.get_mut("deliveries").expect("there"));
    check(Error, "its key is id", |found| table(found, |t| t.keys = vec!["id".to_owned()]));
    check(Error, "rows expire by none, not ttl", |found| table(found, |t| t.ttl = Some(None)));
    check(Warning, "no recovery", |found| table(found, |t| t.restorable = Some(false)));
}

#[test]
fn load_that_the_deployment_cannot_carry_is_found() {
    let row = |row: serde_json::Value| {
        move |found: &mut Deployment| {
            let row = row.as_object().expect("a row").clone();
            drop(found.destinations.get_or_insert_default().insert("a".to_owned(), row));
        }
    };
    check(Error, "destination a: url", row(json!({})));
    let good = |more: serde_json::Value| {
        let mut row = json!({"url": "https://a.example/", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]});
        row.as_object_mut().expect("a row").extend(more.as_object().expect("fields").clone());
        row
    };
    // A function's timeout that refuses a destination is itself a finding of the settings: only the load is asked.
    let mut short = sound();
    row(good(json!({})))(&mut short);
    short.functions.get_mut("deliver").expect("there").timeout = 1;
    let findings = load::judge(&short, &Contract::built_in().expect("the contract parses"));
    assert!(matches!(&findings[..], [one] if one.what.contains("timeout_ms must be at most")), "{findings:?}");
    let rate = |limit: u32| good(json!({"rate": {"limit": limit, "per_seconds": 1, "burst": 1}}));
    check(Warning, "MaximumConcurrency is 50; 251 requests/s want 51", row(rate(251)));
    check(Warning, "75000 messages would be in flight", |found| {
        row(rate(2500))(found);
        found.mappings.get_mut("deliver").expect("there")[0].maximum_concurrency = Some(500);
    });
    check(Warning, "about 2 dead letters", set("dead-letters", "ApproximateNumberOfMessages", "2"));
    check(Warning, "about 1 ticks", set("schedule-failures", "ApproximateNumberOfMessages", "1"));
    check(Error, "due for 121 s", |found| found.overdue = Some(121));
    check(Warning, "604801 s old", |found| found.queues.get_mut("failures").expect("there").oldest = Some(604_801));
}

#[test]
fn what_was_not_read_is_not_checked() {
    check(NotChecked, "is unknown", |found| found.queues.get_mut("failures").expect("there").oldest = None);
    check(NotChecked, "table x", |found| found.unread.push(("table x".to_owned(), "AccessDenied".to_owned())));
}
