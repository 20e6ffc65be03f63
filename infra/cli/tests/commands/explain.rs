//! CLS, RET, LIM-7: `lapse explain` for a person, in the words for each decision.

use super::{Ran, check_usage, file, lapse, lapse_with};

const NOW: [&str; 2] = ["--now", "2026-03-01T12:00:00Z"];

fn explain(arguments: &[&str], input: &str) -> Ran {
    lapse_with(&[&["explain"], &NOW[..], arguments].concat(), input, &[])
}

#[test]
fn a_decision_is_told_in_columns_and_in_plain_words() {
    let ran = explain(
        &["--status", "429", "--header", "Retry-After: 12", "--attempts", "3", "--deadline", "+20m", "--jitter", "1"],
        "",
    );
    let expected = "\
decision  retry at 2026-03-01T12:00:15.000Z, in 15 s
class     throttled
rules     CLS-3 for the class, RET-2 for the decision
wait      asked 12 s, pause 12 s, jitter 3 s
pause     until 2026-03-01T12:00:12.000Z
counted   no
outcome   known
deadline  2026-03-01T12:20:00.000Z, 20 min left

The receiver asked for 12 s. The destination is paused until 2026-03-01T12:00:12.000Z, and the event is tried again at \
2026-03-01T12:00:15.000Z. This answer is not counted as an attempt.
";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), expected, ""));
}

/// What is decided, by which rules, and in which words. The deadline is in 30 minutes unless the arguments say another.
#[track_caller]
fn check(arguments: &str, decision: &str, rules: &str, words: &str) {
    let mut arguments: Vec<_> = arguments.split(' ').collect();
    if !arguments.contains(&"--deadline") {
        arguments.extend(["--deadline", "+30m"]);
    }
    let ran = explain(&arguments, "");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
    let value = |name: &str| {
        ran.out.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start).unwrap_or_default().to_owned()
    };
    assert_eq!((value("decision").as_str(), value("rules").as_str()), (decision, rules), "{arguments:?}");
    assert_eq!(ran.out.lines().last(), Some(words), "{arguments:?}");
}

#[test]
fn cls_1_to_cls_10_each_class_has_its_words() {
    check("--status 200", "acknowledge", "CLS-1", "The receiver has taken the event: it is acknowledged.");
    check(
        "--status 409 --unknown-before --attempts 1",
        "retry at 2026-03-01T12:00:04.000Z, in 4 s",
        "CLS-4 for the class, RET-2 for the decision",
        "The event is not delivered yet, and another attempt may succeed. The event is tried again at \
         2026-03-01T12:00:04.000Z. This counts as attempt 2 of 12. The receiver may have acted on this attempt or on an \
         earlier one.",
    );
    check(
        "--error connect_timeout",
        "retry at 2026-03-01T12:00:02.000Z, in 2 s",
        "CLS-5 for the class, RET-2 for the decision",
        "The event is not delivered yet, and another attempt may succeed. The event is tried again at \
         2026-03-01T12:00:02.000Z. This counts as attempt 1 of 12.",
    );
    check(
        "--status 301",
        "dead, redirect",
        "CLS-7",
        "The event is not delivered, and another attempt would end the same way. The receiver redirects, and redirects \
         are never followed. A dead letter is written. Set the destination's URL to where the receiver now lives, then \
         redrive.",
    );
    check(
        "--status 410",
        "dead, gone",
        "CLS-8",
        "The event is not delivered, and another attempt would end the same way. The receiver says that it is gone. The \
         destination is paused until a person resumes it. A dead letter is written. Ask the receiver's owner; then set \
         a new URL, resume the destination and redrive.",
    );
    check(
        "--error blocked",
        "dead, blocked_address",
        "CLS-9",
        "The event is not delivered, and another attempt would end the same way. The address may not be called. A dead \
         letter is written. Point the destination at a public address, or allow its range in the configuration.",
    );
}

#[test]
fn lim_7_a_pause_is_told_with_its_end() {
    check(
        "--status 429 --streak 3",
        "retry at 2026-03-01T12:00:16.000Z, in 16 s",
        "CLS-3 for the class, RET-2 for the decision",
        "The receiver wants fewer requests and does not say for how long. The destination is paused until \
         2026-03-01T12:00:16.000Z, and the event is tried again then. This answer is not counted as an attempt.",
    );
}

#[test]
fn ret_5_to_ret_8_what_ends_a_delivery_is_told() {
    check(
        "--status 500 --header Retry-After:30",
        "retry at 2026-03-01T12:00:30.000Z, in 30 s",
        "CLS-4 for the class, RET-2 for the decision",
        "The event is not delivered yet, and another attempt may succeed. The receiver asked for 30 s. The event is \
         tried again at 2026-03-01T12:00:30.000Z. This counts as attempt 1 of 12.",
    );
    check(
        "--status 503 --attempts 11",
        "dead, attempts_exhausted",
        "CLS-4 for the class, RET-5 for the decision",
        "The event is not delivered yet, and another attempt may succeed. This was the last attempt that the policy \
         allows. This counts as attempt 12 of 12. A dead letter is written. Find out from the receiver why it kept \
         failing; redrive when it answers again.",
    );
    check(
        "--status 503 --attempts 6 --deadline 2026-03-01T12:00:25Z",
        "retry at 2026-03-01T12:00:15.000Z, in 15 s",
        "CLS-4 for the class, RET-6 for the decision",
        "The event is not delivered yet, and another attempt may succeed. Its next time by the schedule would be after \
         the deadline, so a last attempt is pulled forward to 2026-03-01T12:00:15.000Z. This counts as attempt 7 of 12.",
    );
    check(
        "--error timeout --deadline +1s",
        "dead, no_retry_before_deadline",
        "CLS-6 for the class, RET-6 for the decision",
        "The event is not delivered yet, and another attempt may succeed. Before the deadline there is no time for \
         another attempt. This counts as attempt 1 of 12. The receiver may have acted on this attempt or on an earlier \
         one. A dead letter is written. Check the receiver's health and decide whether a late delivery is still right.",
    );
    check(
        "--status 429 --header Retry-After:1801",
        "dead, retry_after_exceeds_deadline",
        "CLS-3 for the class, RET-6 for the decision",
        "The receiver asked for 30 min 1 s. That is after the deadline. The destination is paused until \
         2026-03-01T12:30:01.000Z. This answer is not counted as an attempt. A dead letter is written. Decide whether a \
         late delivery is still right; redrive after the time that was asked for.",
    );
    check(
        "--status 503 --header Retry-After:604801 --deadline +8d",
        "dead, retry_after_exceeds_limit",
        "CLS-3 for the class, RET-8 for the decision",
        "The receiver asked for 7 d 1 s. That is more than 7 days. The destination is paused until \
         2026-03-08T12:00:00.000Z. This answer is not counted as an attempt. A dead letter is written. Ask the \
         receiver's owner why it wants such a wait, then redrive.",
    );
}

#[test]
fn both_forms_give_the_same_decision() {
    let row = r#"{"require_decision":true,"timeout_ms":5000,"policy":{"schedule_s":[60],"max_attempts":3}}"#;
    let flags = ["--status", "202", "--attempts", "1", "--deadline", "+40s", "--json", "--destination", "-"];
    let by_flags = explain(&flags, row);
    let line = format!(
        r#"{{"outcome":{{"status":202}},"attempts":1,"now":"{}","deadline":"2026-03-01T12:00:40Z","destination":{}}}"#,
        NOW[1],
        row.replace("policy", "retry")
    );
    let by_line = lapse_with(&["explain", "--jsonl"], &line, &[]);
    assert_eq!((by_flags.code, &by_flags.out), (Some(0), &by_line.out));
    assert!(by_line.out.contains(r#""retry_at":"2026-03-01T12:00:35.000Z""#), "the row was used: {}", by_line.out);
}

#[test]
fn a_destination_is_read_as_dynamodb_prints_it_and_gives_the_deadline() {
    let item = r#"{"Item":{"max_age":{"N":"60"},"statuses":{"M":{"transient":{"L":[{"N":"404"}]}}}}}"#;
    let ran = explain(&["--status", "404", "--destination", &file("item.json", item)], "");
    assert!(ran.out.contains("class     transient\nrules     CLS-10 for the class"), "{ran:?}");
    assert!(ran.out.contains("deadline  2026-03-01T12:01:00.000Z, 1 min left"), "{ran:?}");
    let now = lapse(&["explain", "--status", "200"]);
    assert!(now.out.contains(", 1 d left\n"), "by default max_age is 24 h from now: {now:?}");
}

#[test]
fn explain_names_the_wrong_flag_and_what_it_accepts() {
    let with = |more: &[&'static str]| [&["explain", "--status", "503"], more].concat();
    check_usage(&["explain"], &["--status <CODE>", "--error <ERROR>", "--schedule", "--jsonl"]);
    check_usage(&["explain", "--status", "99"], &["--status <CODE>", "100..=999"]);
    check_usage(&["explain", "--error", "bad_luck"], &["--error <ERROR>", "connect_timeout", "invalid_url"]);
    check_usage(&with(&["--error", "dns"]), &["--status", "--error"]);
    check_usage(&with(&["--schedule"]), &["--status", "--schedule"]);
    check_usage(&["explain", "--error", "dns", "--header", "Retry-After: 1"], &["--error", "--header"]);
    check_usage(&["explain", "--schedule", "--header", "Retry-After: 1"], &["--schedule", "--header"]);
    check_usage(&["explain", "--schedule", "--unknown-before"], &["--schedule", "--unknown-before"]);
    check_usage(&["explain", "--schedule", "--streak", "1"], &["--schedule", "--streak"]);
    check_usage(&["explain", "--schedule", "--attempts", "1"], &["--schedule", "--attempts"]);
    check_usage(&["explain", "--schedule", "--jitter", "1"], &["--schedule", "--jitter"]);
    check_usage(&with(&["--header", "Retry-After 12"]), &["--header <NAME: VALUE>", "a colon"]);
    check_usage(&with(&["--attempts", "-1"]), &["--attempts <N>", "0..=4294967295"]);
    check_usage(&with(&["--streak", "many"]), &["--streak <N>"]);
    check_usage(&with(&["--jitter", "1.1"]), &["--jitter <PART>", "from 0 to 1"]);
    check_usage(&with(&["--jitter", "-0.1"]), &["--jitter <PART>"]);
    check_usage(&with(&["--jitter", "NaN"]), &["--jitter <PART>"]);
    check_usage(&with(&["--deadline", "20m"]), &["--deadline <WHEN>", "RFC 3339", "+20m"]);
    check_usage(&with(&["--now", "noon"]), &["--now <INSTANT>", "RFC 3339"]);
    check_usage(&with(&["--destination", "/none"]), &["--destination /none", "cannot be read"]);
    let wrong = |content: &str, named: &[&str]| {
        let path = file("wrong.json", content);
        check_usage(&["explain", "--status", "503", "--destination", &path], &[&["--destination"], named].concat());
    };
    wrong("[]", &["one JSON object"]);
    wrong(r#"{"policy":{"factor":0.5}}"#, &["policy.factor must be a number from 1 to 100"]);
    wrong(r#"{"timeout_ms":{"N":"20001"}}"#, &["timeout_ms must be a whole number from 1 to 20000"]);
}
