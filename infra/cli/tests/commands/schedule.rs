//! RET-3, RET-5, RET-6: `lapse explain --schedule`.

use super::{Ran, lapse_with};

/// The schedule of a destination with this row.
#[track_caller]
fn schedule(row: &str, deadline: &str, more: &[&str]) -> String {
    let fixed =
        ["explain", "--schedule", "--now", "2026-03-01T12:00:00Z", "--destination", "-", "--deadline", deadline];
    let Ran { code, out, err } = lapse_with(&[&fixed, more].concat(), row, &[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    out
}

#[test]
fn ret_6_the_deadline_is_met_at_the_earliest_and_at_the_latest() {
    let expected = "\
attempt  wait, no jitter  wait, all jitter  earliest start  latest start
      1                -                 -             0 s           0 s
      2              2 s             2.5 s             2 s        12.5 s
      3              4 s               5 s             6 s        27.5 s
      4              8 s              10 s            14 s        47.5 s
      5             16 s                 -            30 s             -
      6     20 s (RET-6)                 -            50 s             -

attempts    at most 12 (RET-5), each of at most 10 s
deadline    1 min after the start
earliest    each attempt fails at once, no jitter: attempt 6 is pulled forward to 50 s (RET-6), dead after 50 s, \
no_retry_before_deadline (RET-6)
latest      each attempt lasts 10 s, all of the jitter: dead after 57.5 s, no_retry_before_deadline (RET-6)
worst case  11 min 17.5 s if no deadline is in the way

Throttled answers and waits for the rate come on top; they are not counted (RET-4).
";
    assert_eq!(schedule("{}", "+60s", &[]), expected);
}

#[test]
fn ret_5_a_long_schedule_is_folded_where_it_repeats() {
    let row = r#"{"timeout_ms":1000,"policy":{"max_attempts":1000,"schedule_s":[1,60],"jitter":0.5}}"#;
    let out = schedule(row, "+7d", &[]);
    let expected = "
 attempt  wait, no jitter  wait, all jitter   earliest start           latest start
       1                -                 -              0 s                    0 s
       2              1 s             1.5 s              1 s                  2.5 s
       3            1 min        1 min 30 s        1 min 1 s           1 min 33.5 s
4 to 999            1 min        1 min 30 s               ..                     ..
    1000            1 min        1 min 30 s  16 h 38 min 1 s  1 d 1 h 13 min 40.5 s

attempts    at most 1000 (RET-5), each of at most 1 s
deadline    7 d after the start
earliest    each attempt fails at once, no jitter: dead after 16 h 38 min 1 s, attempts_exhausted (RET-5)
latest      each attempt lasts 1 s, all of the jitter: dead after 1 d 1 h 13 min 41.5 s, attempts_exhausted (RET-5)
worst case  1 d 1 h 13 min 41.5 s if no deadline is in the way

Throttled answers and waits for the rate come on top; they are not counted (RET-4).
";
    assert_eq!(out, expected.trim_start_matches('\n'));
}

#[test]
fn ret_7_a_deadline_that_has_passed_leaves_no_attempt() {
    let out = schedule("{}", "2026-03-01T11:59:59Z", &[]);
    assert!(out.contains("no jitter: no attempt, the deadline has passed (RET-7)\n"), "{out}");
    let json: serde_json::Value =
        serde_json::from_str(&schedule("{}", "2026-03-01T11:59:59Z", &["--json"])).expect("JSON");
    assert_eq!(json["earliest"], serde_json::json!({"attempts": [], "dead": null}));
}

#[test]
fn ret_3_the_schedule_as_json() {
    let row = r#"{"timeout_ms":1000,"policy":{"max_attempts":2}}"#;
    let json: serde_json::Value = serde_json::from_str(&schedule(row, "+1h", &["--json"])).expect("JSON");
    let expected = serde_json::json!({
        "start": "2026-03-01T12:00:00.000Z", "deadline": "2026-03-01T13:00:00.000Z",
        "max_attempts": 2, "timeout_ms": 1000, "worst_case_ms": 4500,
        "earliest": {
            "attempts": [
                {"attempt": 1, "wait_ms": 0, "starts_at": "2026-03-01T12:00:00.000Z", "since_start_ms": 0, "pulled_forward": false},
                {"attempt": 2, "wait_ms": 2000, "starts_at": "2026-03-01T12:00:02.000Z", "since_start_ms": 2000, "pulled_forward": false},
            ],
            "dead": {"at": "2026-03-01T12:00:02.000Z", "reason": "attempts_exhausted", "rule": "RET-5"},
        },
        "latest": {
            "attempts": [
                {"attempt": 1, "wait_ms": 0, "starts_at": "2026-03-01T12:00:00.000Z", "since_start_ms": 0, "pulled_forward": false},
                {"attempt": 2, "wait_ms": 2500, "starts_at": "2026-03-01T12:00:03.500Z", "since_start_ms": 3500, "pulled_forward": false},
            ],
            "dead": {"at": "2026-03-01T12:00:04.500Z", "reason": "attempts_exhausted", "rule": "RET-5"},
        },
    });
    assert_eq!(json, expected);
}
