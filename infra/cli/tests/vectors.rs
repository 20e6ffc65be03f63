//! CLS, RET, LIM-7, SEC-1, SEC-2, SEC-4: the conformance vectors, and the lines that are none.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests fails the test it is called from")]

use lapse_cli::jsonl::{BadLine, Run, answer_all};
use lapse_cli::{explain, guard, sign};
use serde_json::{Map, Value, json};

type AnswerLine = fn(&str) -> Result<String, BadLine>;

/// Every vector of a file: the answer has all that the vector expects, and its name.
#[track_caller]
fn check_file(vectors: &str, answer_line: AnswerLine, least: usize) {
    let mut count = 0;
    for line in vectors.lines() {
        let vector: Map<String, Value> = serde_json::from_str(line).expect(line);
        let answer = answer_line(line).unwrap_or_else(|bad| panic!("{}: {line}", bad.line()));
        let answer: Map<String, Value> = serde_json::from_str(&answer).expect(&answer);
        let name = &vector["name"];
        assert_eq!(answer.get("name"), Some(name));
        for (field, expected) in vector["expect"].as_object().expect(line) {
            assert_eq!(answer.get(field), Some(expected), "{name}: {field}");
        }
        count += 1;
    }
    assert!(count >= least, "{count} vectors; the file was cut short");
}

#[test]
fn explain_decides_as_the_vectors_expect() {
    check_file(include_str!("../../../tests/data/explain.jsonl"), explain::answer_line, 92);
}

#[test]
fn guard_judges_as_the_vectors_expect() {
    check_file(include_str!("../../../tests/data/guard.jsonl"), guard::answer_line, 37);
}

#[test]
fn sec_4_sign_signs_as_the_vectors_expect() {
    check_file(include_str!("../../../tests/data/sign.jsonl"), sign::answer_line, 6);
}

const LINE: &str =
    r#"{"name":"n","outcome":{"status":429},"now":"2026-03-01T12:00:00Z","deadline":"2026-03-01T12:30:00Z"}"#;

/// The answer to [`LINE`] with some members replaced; null takes one away.
fn explained(change: &Value) -> Result<Value, Value> {
    let mut row: Map<String, Value> = serde_json::from_str(LINE).expect(LINE);
    row.extend(change.as_object().expect("an object").clone());
    let parse = |text: String| serde_json::from_str::<Value>(&text).expect("an answer is JSON");
    explain::answer_line(&Value::Object(row).to_string()).map(parse).map_err(|bad| parse(bad.line()))
}

#[test]
fn explain_leaves_out_what_does_not_apply() {
    let answer = explained(&json!({})).expect("a good line");
    assert_eq!(
        answer,
        json!({
            "name": "n", "class": "throttled", "action": "retry", "retry_at": "2026-03-01T12:00:02.000Z",
            "pause_until": "2026-03-01T12:00:02.000Z", "counted": false, "outcome_unknown": false,
            "rule": "CLS-3", "chosen_by": "RET-2",
        })
    );
    let dead = explained(&json!({"outcome": {"status": 410}, "name": 7})).expect("a good line");
    assert_eq!((&dead["reason"], &dead["name"], dead.get("retry_at")), (&json!("gone"), &json!(7), None));
    assert_eq!(dead["pause_until"], "9999-12-31T23:59:59.999Z");
    let unnamed = explained(&json!({"outcome": {"status": 200}, "name": null})).expect("a good line");
    assert_eq!(unnamed["name"], Value::Null, "copied through as it is");
}

#[track_caller]
fn check_bad(label: &str, change: &Value, named: &str) {
    let answer = explained(change).expect_err(label);
    assert_eq!(answer["name"], "n", "{label}");
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(error.contains(named), "{label}: {error}");
}

#[test]
fn explain_names_the_field_that_it_cannot_read() {
    check_bad("no outcome", &json!({"outcome": null}), "outcome");
    check_bad("an empty one", &json!({"outcome": {}}), "outcome.status");
    check_bad("an unknown error", &json!({"outcome": {"error": "bad_luck"}}), "outcome.error");
    check_bad("an error beside a status", &json!({"outcome": {"status": 200, "error": "dns"}}), "outcome.error");
    check_bad("a body without a head", &json!({"outcome": {"error": "body_read"}}), "outcome.error");
    check_bad("half a header", &json!({"outcome": {"status": 200, "headers": [["Date"]]}}), "outcome.headers");
    check_bad("no now", &json!({"now": null}), "now");
    check_bad("no deadline", &json!({"deadline": "soon"}), "deadline");
    check_bad("a negative count", &json!({"attempts": -1}), "attempts");
    check_bad("jitter beyond 1", &json!({"jitter": 1.1}), "jitter");
    check_bad("a policy", &json!({"destination": {"retry": {"factor": 0.5}}}), "retry.factor");
    check_bad("lists", &json!({"destination": {"statuses": {"transient": [99]}}}), "statuses.transient");
    check_bad("a timeout", &json!({"destination": {"timeout_ms": 20_001}}), "destination.timeout_ms");
}

#[test]
fn guard_says_why_in_the_words_of_a_dead_letter() {
    let answer = |line: &str| serde_json::from_str::<Value>(&guard::answer_line(line).expect(line)).expect(line);
    let blocked = answer(r#"{"url":"https://hooks.example.com/","resolved":["10.0.0.1"]}"#);
    let detail = "the address 10.0.0.1 is not public";
    assert_eq!(blocked, json!({"allowed": false, "reason": "blocked_address", "detail": detail, "rule": "SEC-2"}));
    assert_eq!(answer(r#"{"url":"ftp://hooks.example.com/"}"#)["reason"], "invalid_url");
    assert_eq!(answer(r#"{"url":"https://hooks.example.com/"}"#), json!({"allowed": true}));
}

#[test]
fn guard_names_the_field_that_it_cannot_read() {
    for (line, named) in [
        ("{}", "url"),
        (r#"{"url":"https://a.example/","resolved":["a.example"]}"#, "resolved"),
        (r#"{"url":"https://a.example/","allow_cidrs":["10.9/16"]}"#, "allow_cidrs"),
        (r#"{"url":"https://a.example/","allow_http":"yes"}"#, "allow_http"),
    ] {
        let bad = guard::answer_line(line).expect_err(line).line();
        assert!(bad.contains(named), "{line}: {bad}");
    }
}

#[test]
fn sec_4_sign_names_the_field_that_it_cannot_read_and_shows_no_secret() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let line = json!({"name": "n", "secrets": [secret], "id": "res_1:3", "timestamp": 1, "body": "{}"});
    for (named, wrong) in [
        ("secrets", json!(null)),
        ("secrets", json!([])),
        ("secrets", json!([secret, secret, secret, secret, secret])),
        ("secrets", json!([[secret]])),
        ("id", json!("a.b")),
        ("timestamp", json!(-1)),
        ("timestamp", json!("noon")),
        ("body", json!({})),
    ] {
        let mut changed = line.clone();
        changed[named] = wrong;
        let bad = sign::answer_line(&changed.to_string()).expect_err(named).line();
        assert!(bad.contains(named) && !bad.contains(secret), "{named}: {bad}");
    }
    for line in [format!("\"{secret}\""), secret.to_owned(), format!("[\"{secret}\"]")] {
        let bad = sign::answer_line(&line).expect_err("no object").line();
        assert!(!bad.contains(secret), "{bad}");
    }
}

#[track_caller]
fn check_run(label: &str, input: &[u8], expected: Run, errors: &[bool]) {
    let mut output = Vec::new();
    let run = answer_all(input, &mut output, explain::answer_line).expect("in memory");
    let output = String::from_utf8(output).expect("JSON is UTF-8");
    let told: Vec<_> = output
        .lines()
        .map(|line| serde_json::from_str::<Map<String, Value>>(line).expect(line).contains_key("error"))
        .collect();
    assert_eq!((run, told.as_slice()), (expected, errors), "{label}: {output}");
}

#[test]
fn a_line_that_is_no_json_is_told_and_the_run_goes_on() {
    let lines = |middle: &[u8]| [LINE.as_bytes(), b"\n", middle, b"\n", LINE.as_bytes()].concat();
    check_run("nothing", b"", Run::Clean, &[]);
    check_run("good lines, the last without its end", &lines(LINE.as_bytes()), Run::Clean, &[false; 3]);
    check_run("carriage returns", format!("{LINE}\r\n{LINE}\r\n").as_bytes(), Run::Clean, &[false; 2]);
    check_run("no JSON", &lines(b"hello"), Run::Errors, &[false, true, false]);
    check_run("no object", &lines(b"[1]"), Run::Errors, &[false, true, false]);
    check_run("an empty line", &lines(b""), Run::Errors, &[false, true, false]);
    check_run("no UTF-8", &lines(b"\xff"), Run::Errors, &[false, true, false]);
    check_run("a field that is missing", &lines(b"{}"), Run::Errors, &[false, true, false]);
}
