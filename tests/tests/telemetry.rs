//! OBS-1, OBS-2: code, schema and runbook name the same lines, metrics and fields.
//!
//! Owns: the comparison of the three as files. Must not: judge lines that were printed; the end-to-end tests do that
//! on those of the local stack.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lapse_local::Function;
use lapse_policy::reason::Reason;
use lapse_tests::telemetry_schema::Schema;
use serde_json::{Value, json};

fn schema() -> Schema {
    Schema::of_repository().expect("the schema can be read")
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).expect(path)
}

/// The messages that a folder's code logs: the last text of each event.
fn logged(folder: &str) -> BTreeSet<String> {
    let mut messages = BTreeSet::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)).expect(folder) {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for event in code.split("tracing::").skip(1) {
            let Some((level, arguments)) = event.split_once("!(") else { continue };
            if ["error", "warn", "info", "debug"].contains(&level) {
                messages.extend(last_text(arguments));
            }
        }
    }
    messages
}

/// The last text before the parenthesis that ends an event.
fn last_text(arguments: &str) -> Option<String> {
    let (mut depth, mut last) = (1, None);
    for (index, part) in arguments.split('"').enumerate() {
        if index % 2 == 1 {
            last = Some(part.to_owned());
            continue;
        }
        for character in part.chars() {
            depth += i32::from(character == '(') - i32::from(character == ')');
            if depth == 0 {
                return last;
            }
        }
    }
    None
}

#[test]
fn obs_1_every_line_of_the_code_has_a_form_and_every_form_a_line() {
    let shared = logged("shared/aws/src");
    let mut of_any = BTreeSet::new();
    for function in Function::ALL {
        let code = logged(&format!("functions/{function}/src"));
        assert!(!code.is_empty(), "{function} logs something");
        let forms = schema().forms(function).expect("forms").into_keys().flatten().collect::<BTreeSet<_>>();
        let without: Vec<_> = code.difference(&forms).collect();
        assert!(without.is_empty(), "{function}: infra/telemetry.schema.json has no form for {without:?}");
        let unused: Vec<_> = forms.difference(&code).filter(|name| !shared.contains(*name)).collect();
        assert!(unused.is_empty(), "{function}: no code logs {unused:?} of infra/telemetry.schema.json");
        of_any.extend(forms);
    }
    assert!(shared.is_subset(&of_any), "no function has a form for all of {shared:?}");
}

#[test]
fn obs_1_the_reasons_of_the_schema_are_those_of_the_code() {
    let text: Value = serde_json::from_str(&read("infra/telemetry.schema.json")).expect("JSON");
    let names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(text["$defs"]["reason"]["enum"], json!(names));
}

#[test]
fn obs_2_the_runbook_explains_every_line_and_names_every_metric() {
    let runbook = read("RUNBOOK.md");
    for function in Function::ALL {
        for (message, form) in schema().forms(function).expect("forms") {
            let fields = form["properties"].as_object().expect("properties");
            let metrics = fields.keys().filter(|name| name.starts_with(char::is_uppercase));
            for name in message.iter().chain(metrics) {
                assert!(runbook.contains(&format!("`{name}`")), "RUNBOOK.md does not name `{name}` of {function}");
            }
        }
    }
}

/// The queries of the runbook: the function on whose log each runs, and its text.
fn queries() -> Vec<(Function, String)> {
    let runbook = read("RUNBOOK.md");
    let mut blocks = runbook.split("```text\n");
    let mut before = blocks.next().unwrap_or_default().to_owned();
    let mut queries = Vec::new();
    for block in blocks {
        let (query, after) = block.split_once("```").expect("a block has an end");
        let question = before.trim_end().rsplit('\n').next().unwrap_or_default();
        let name = question.rsplit('`').nth(1).unwrap_or_default();
        let function = Function::named(name).expect("the line above a query ends with its function, as (`deliver`)");
        queries.push((function, query.to_owned()));
        after.clone_into(&mut before);
    }
    queries
}

/// The names of fields in a query: what is no text, number, keyword, call or alias.
fn fields_of(query: &str) -> BTreeSet<String> {
    const WORDS: [&str; 14] =
        ["fields", "filter", "stats", "sort", "limit", "by", "as", "and", "or", "not", "in", "like", "asc", "desc"];
    let code: String = query.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let spaced = code.replace('(', "( ");
    let part_of_name = |c: char| c.is_alphanumeric() || ['_', '@', '.', '('].contains(&c);
    let tokens: Vec<_> = spaced.split(|c| !part_of_name(c)).filter(|token| !token.is_empty()).collect();
    let aliases: BTreeSet<_> = tokens.windows(2).filter(|pair| pair[0] == "as").map(|pair| pair[1]).collect();
    let is_field = |token: &&str| {
        let call_or_number = token.ends_with('(') || token.starts_with(|c: char| c.is_ascii_digit());
        !call_or_number && !token.starts_with('@') && !WORDS.contains(token) && !aliases.contains(token)
    };
    tokens.into_iter().filter(is_field).map(str::to_owned).collect()
}

#[test]
fn obs_1_the_fields_of_the_runbooks_queries_are_in_the_schema() {
    let queries = queries();
    assert!(queries.len() >= 8, "{} queries found", queries.len());
    for (function, query) in queries {
        let known = schema().fields(function).expect("fields");
        let asked = fields_of(&query);
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty() && !asked.is_empty(), "{function} logs no {unknown:?}:\n{query}");
        let messages: BTreeSet<_> = schema().forms(function).expect("forms").into_keys().flatten().collect();
        for part in query.split("message = \"").skip(1) {
            let message = part.split('"').next().unwrap_or_default();
            assert!(messages.contains(message), "{function} logs no {message}:\n{query}");
        }
    }
}

#[test]
fn a_querys_fields_are_found() {
    let query =
        "filter message = \"attempt\" and wait_ms > 10\n| stats pct(duration_ms, 95) as p95_ms by class, bin(5m)";
    let found: Vec<_> = fields_of(&query.replace("bin(5m)", "@timestamp")).into_iter().collect();
    assert_eq!(found, ["class", "duration_ms", "message", "wait_ms"]);
}

/// Whether the schema takes a line of `triage`; the error must name what is wrong.
#[track_caller]
fn check(label: &str, change: impl FnOnce(&mut Value), wrong: Option<&str>) {
    let mut line = json!({"timestamp": "t", "level": "INFO", "target": "lapse_triage::triage", "message": "dead_letter",
        "event_id": "res:1", "destination": "catalog", "epoch": 1, "reason": "gone"});
    change(&mut line);
    match (schema().check(Function::Triage, &line), wrong) {
        (Ok(message), None) => assert_eq!(message.as_deref(), Some("dead_letter"), "{label}"),
        (Err(error), Some(wrong)) => assert!(format!("{error:#}").contains(wrong), "{label}: {error:#}"),
        (outcome, _) => assert_eq!(format!("{outcome:?}"), format!("{wrong:?}"), "{label}"),
    }
}

#[test]
fn obs_1_the_schema_refuses_what_it_does_not_describe() {
    check("as it is", |_| {}, None);
    check("without an optional field", |line| drop(line.as_object_mut().map(|line| line.remove("reason"))), None);
    check("a field more", |line| line["payload"] = json!("x"), Some("payload"));
    check("a field less", |line| drop(line.as_object_mut().map(|line| line.remove("event_id"))), Some("event_id"));
    check("another type", |line| line["epoch"] = json!("1"), Some("epoch"));
    check("out of range", |line| line["epoch"] = json!(0), Some("below"));
    check("another level", |line| line["level"] = json!("WARN"), Some("level"));
    check("an unknown reason", |line| line["reason"] = json!("bad_luck"), Some("reason"));
    check("another message", |line| line["message"] = json!("dead_leter"), Some("no form"));
}
