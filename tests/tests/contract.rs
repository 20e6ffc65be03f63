//! `infra/contract.json` against the code and the SAM template.
//!
//! Owns: that a number or name which several places share is the same in all. Must not: deploy anything.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect(path)
}

fn contract() -> Value {
    serde_json::from_str(&text("infra/contract.json")).expect("JSON")
}

/// The template; short forms such as `!Ref X` are read as their plain values.
fn template() -> Yaml {
    YamlLoader::load_from_str(&text("infra/sam/template.yaml")).expect("YAML").remove(0)
}

fn objects<'a>(contract: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    contract[name].as_object().expect("an object").iter()
}

fn resource<'a>(template: &'a Yaml, of: &Value) -> &'a Yaml {
    let id = of["logical_id"].as_str().expect("a logical id");
    let resource = &template["Resources"][id];
    assert!(!resource.is_badvalue(), "the template has no resource {id}");
    resource
}

#[track_caller]
fn same(what: &str, template: &Yaml, contract: &Value) {
    if !contract.is_null() {
        assert_eq!(template.as_i64(), contract.as_i64(), "{what}");
    }
}

#[test]
fn the_code_has_the_contracts_numbers() {
    use lapse_policy::{destination, message, schedule, triage};
    let contract = contract();
    let seconds = |span: std::time::Duration| Some(span.as_secs());
    assert_eq!(contract["emission"]["shards"].as_u64(), Some(schedule::SHARDS.into()));
    assert_eq!(contract["emission"]["look_ahead"].as_u64(), seconds(schedule::LOOK_AHEAD));
    assert_eq!(contract["message"]["maximum_bytes"].as_u64(), u64::try_from(message::MAX_MESSAGE_BYTES).ok());
    let queue = &contract["queues"]["deliveries"]["maximum_message_size"];
    assert_eq!(queue.as_u64(), u64::try_from(message::MAX_SQS_BYTES).ok());
    let redrive = contract["parameters"]["RedriveAfterSeconds"].as_str().and_then(|n| n.parse().ok());
    assert_eq!(redrive, seconds(triage::REDRIVE_AFTER));
    let timeout = contract["functions"]["deliver"]["timeout"].as_u64().expect("a number");
    let longest = destination::MAX_TIMEOUT + destination::AROUND_ATTEMPT;
    assert!(longest.as_secs() <= timeout, "ACK-4: the longest attempt must fit the function");
}

#[test]
fn the_functions_read_the_variables_that_the_template_sets() {
    let (contract, template) = (contract(), template());
    let global = &template["Globals"]["Function"];
    for (name, function) in objects(&contract, "functions") {
        let properties = &resource(&template, function)["Properties"];
        let wanted: BTreeSet<_> =
            function["environment"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        let keys = |of: &'static str, yaml: &'_ Yaml| -> BTreeSet<String> {
            let variables =
                yaml["Environment"]["Variables"].as_hash().unwrap_or_else(|| panic!("{name}: no variables in {of}"));
            variables.keys().filter_map(|key| key.as_str().map(str::to_owned)).collect()
        };
        let mut set = keys("the function", properties);
        set.extend(keys("the globals", global));
        assert_eq!(set, wanted.iter().map(|name| (*name).to_owned()).collect(), "{name}: the template's variables");
        let config = text(&format!("functions/{name}/src/config.rs"));
        for variable in wanted.iter().filter(|variable| **variable != "LOG_LEVEL") {
            assert!(config.contains(&format!("\"{variable}\"")), "{name} does not read {variable}");
        }
        let timeout = if properties["Timeout"].is_badvalue() { &global["Timeout"] } else { &properties["Timeout"] };
        same(&format!("{name}: timeout"), timeout, &function["timeout"]);
        let reserved = &properties["ReservedConcurrentExecutions"];
        same(&format!("{name}: reserved concurrency"), reserved, &function["reserved_concurrency"]);
        let recursive = properties["RecursiveLoop"].as_str();
        assert_eq!(recursive, function["recursive_loop"].as_str(), "SEC-6: {name}: recursion is allowed knowingly");
    }
}

#[test]
fn dlq_5_the_queues_are_as_the_contract_has_them() {
    let (contract, template) = (contract(), template());
    for (name, queue) in objects(&contract, "queues") {
        let properties = &resource(&template, queue)["Properties"];
        same(&format!("{name}: visibility"), &properties["VisibilityTimeout"], &queue["visibility_timeout"]);
        same(&format!("{name}: retention"), &properties["MessageRetentionPeriod"], &queue["retention"]);
        same(&format!("{name}: size"), &properties["MaximumMessageSize"], &queue["maximum_message_size"]);
        same(
            &format!("{name}: receives"),
            &properties["RedrivePolicy"]["maxReceiveCount"],
            &queue["max_receive_count"],
        );
    }
    for (name, function) in objects(&contract, "functions") {
        if let Some(queue) = function["source"]["queue"].as_str() {
            let visibility = contract["queues"][queue]["visibility_timeout"].as_u64().expect("a number");
            let factor = contract["visibility_per_timeout"].as_u64().expect("a number");
            let timeout = function["timeout"].as_u64().expect("a number");
            assert!(visibility >= factor * timeout, "{name}: visibility of {queue} is under {factor} x the timeout");
        }
    }
}

#[test]
fn the_event_sources_answer_per_message() {
    let (contract, template) = (contract(), template());
    let source = &contract["event_source"];
    for (name, function) in objects(&contract, "functions").filter(|(_, f)| !f["source"].is_null()) {
        let events = resource(&template, function)["Properties"]["Events"].as_hash().expect("events");
        for event in events.values() {
            let properties = &event["Properties"];
            same(&format!("{name}: batch"), &properties["BatchSize"], &source["batch_size"]);
            same(&format!("{name}: window"), &properties["MaximumBatchingWindowInSeconds"], &source["batching_window"]);
            let types = properties["FunctionResponseTypes"][0].as_str();
            assert_eq!(types, source["response_type"].as_str(), "ACK-1: {name} answers per message");
            assert!(properties["FilterCriteria"].is_badvalue(), "{name}: a filter would delete what it does not match");
        }
    }
}

#[test]
fn the_tables_have_the_contracts_keys() {
    let (contract, template) = (contract(), template());
    for (name, table) in objects(&contract, "tables") {
        let properties = &resource(&template, table)["Properties"];
        for (role, place) in [("hash", 0), ("range", 1)] {
            let key = properties["KeySchema"][place]["AttributeName"].as_str();
            assert_eq!(key, table[role][0].as_str(), "{name}: {role} key");
        }
        let ttl = properties["TimeToLiveSpecification"]["AttributeName"].as_str();
        assert_eq!(ttl, table["ttl"].as_str(), "{name}: time to live");
        let index = properties["GlobalSecondaryIndexes"][0]["IndexName"].as_str();
        assert_eq!(index, table["index"]["name"].as_str(), "{name}: index");
    }
}

#[test]
fn parameters_and_outputs_are_the_contracts() {
    let (contract, template) = (contract(), template());
    let keys = |yaml: &Yaml| -> BTreeSet<String> {
        yaml.as_hash().expect("a mapping").keys().filter_map(|key| key.as_str().map(str::to_owned)).collect()
    };
    let of = |name: &str| objects(&contract, name).map(|(key, _)| key.clone()).collect::<BTreeSet<_>>();
    assert_eq!(keys(&template["Parameters"]), of("parameters"));
    assert_eq!(keys(&template["Outputs"]), of("outputs"));
    for (name, default) in objects(&contract, "parameters") {
        let set = &template["Parameters"][name.as_str()]["Default"];
        let set = set.as_i64().map(|n| n.to_string()).or_else(|| set.as_str().map(str::to_owned));
        assert_eq!(set.as_deref(), default.as_str(), "{name}: default");
    }
}

#[test]
fn sec_5_every_queue_is_tls_only_and_no_function_may_do_anything_to_everything() {
    let template = template();
    let resources = template["Resources"].as_hash().expect("resources");
    let of_type = |kind: &'static str| resources.iter().filter(move |(_, r)| r["Type"].as_str() == Some(kind));
    assert_eq!(of_type("AWS::SQS::Queue").count(), of_type("AWS::SQS::QueuePolicy").count());
    for (name, policy) in of_type("AWS::SQS::QueuePolicy") {
        let statement = &policy["Properties"]["PolicyDocument"]["Statement"][0];
        assert_eq!(statement["Effect"].as_str(), Some("Deny"), "{name:?}");
        let condition = &statement["Condition"]["Bool"]["aws:SecureTransport"];
        assert!(condition.as_bool() == Some(false) || condition.as_str() == Some("false"), "{name:?}: TLS only");
    }
    for (name, role) in of_type("AWS::IAM::Role") {
        let policies = role["Properties"]["Policies"].as_vec().expect("policies");
        let statements =
            policies.iter().flat_map(|policy| policy["PolicyDocument"]["Statement"].as_vec().expect("statements"));
        // `!If [condition, statement, nothing]` is read as a list.
        for statement in statements.map(|s| if s.as_vec().is_some() { &s[1] } else { s }) {
            let action = &statement["Action"];
            let actions: Vec<_> = match action.as_vec() {
                Some(actions) => actions.iter().filter_map(Yaml::as_str).collect(),
                None => action.as_str().into_iter().collect(),
            };
            assert!(!actions.is_empty(), "{name:?}: a statement without actions");
            assert!(!actions.iter().any(|action| action.contains('*')), "{name:?}: {actions:?} has a wildcard");
            assert!(!actions.contains(&"dynamodb:PartiQLDelete") && !actions.contains(&"dynamodb:PartiQLSelect"));
            // X-Ray has no resources to name.
            let traces = actions.iter().all(|action| action.starts_with("xray:"));
            assert!(traces || statement["Resource"].as_str() != Some("*"), "{name:?}: {actions:?} on everything");
        }
    }
}

#[test]
fn obs_3_what_needs_a_person_raises_an_alarm() {
    let template = template();
    let resources = template["Resources"].as_hash().expect("resources");
    let alarms: BTreeSet<_> = resources
        .values()
        .filter(|resource| resource["Type"].as_str() == Some("AWS::CloudWatch::Alarm"))
        .map(|alarm| {
            let properties = &alarm["Properties"];
            let dimension = properties["Dimensions"][0]["Value"].as_str().unwrap_or_default();
            (properties["MetricName"].as_str().unwrap_or_default(), dimension)
        })
        .collect();
    let letters =
        alarms.iter().any(|(metric, on)| *metric == "ApproximateNumberOfMessagesVisible" && on.contains("DeadLetters"));
    assert!(letters, "dead-letters: {alarms:?}");
    for function in ["Deliver", "Expiry", "Triage"] {
        let errors = alarms.iter().any(|(metric, on)| *metric == "Errors" && on.contains(function));
        assert!(errors, "errors of {function}: {alarms:?}");
    }
}
