//! LED-2 to LED-8, DLQ-3: which moves there are, and what each leaves in the record.

use lapse_policy::classifier::{Failure, Outcome};
use lapse_policy::ledger::{EXCERPT_BYTES, Moment, Record, State, excerpt};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::{STATES, answered, at, decision, first, moment, record, work};

/// 15 days in seconds (LED-8).
const KEPT: i64 = 1_296_000;

#[test]
fn led_2_work_makes_the_listed_moves_and_no_other() {
    use State::{Dead, Delivered, Sending, Waiting};
    let legal = [
        (Waiting, Sending),
        (Waiting, Waiting),
        (Waiting, Dead),
        // Only over an expired lease (LED-4).
        (Sending, Sending),
        (Sending, Waiting),
        (Sending, Dead),
        // A 2xx is a fact (LED-6).
        (Sending, Delivered),
        (Waiting, Delivered),
        (Dead, Delivered),
    ];
    let expired = moment(35_000);
    for (from, to) in STATES.into_iter().flat_map(|from| STATES.map(|to| (from, to))) {
        let moved = work(&record(from), to, expired);
        assert_eq!(moved.is_ok(), legal.contains(&(from, to)), "{from:?} to {to:?}");
        if let Ok(moved) = moved {
            assert_eq!((moved.state, moved.version), (to, 8), "{from:?} to {to:?}: one write");
            assert_eq!((moved.epoch, moved.triaged_epoch, moved.first_at), (2, Some(1), record(from).first_at));
            assert_eq!(moved.last_at, expired.now);
        }
    }
}

#[test]
fn led_2_a_first_receive_sends_waits_or_dies() {
    for to in [State::Sending, State::Waiting, State::Dead, State::Delivered] {
        let moved = work(&first(), to, moment(0)).expect("none to anything");
        assert_eq!((moved.state, moved.version, moved.epoch, moved.crashes), (to, 1, 1, 0), "{to:?}");
    }
}

#[test]
fn led_2_an_illegal_move_tells_both_states() {
    let error = record(State::Delivered).delivered(moment(0)).expect_err("delivered once");
    assert_eq!(error.to_string(), "a delivery may not go from Delivered to Delivered");
}

#[test]
fn dlq_3_only_a_dead_record_is_redriven() {
    for state in STATES {
        let redriven = record(state).redriven(at(86_400_000), moment(0));
        assert_eq!(redriven.is_ok(), state == State::Dead, "{state:?}");
    }
    let once = record(State::Dead).redriven(at(86_400_000), moment(0)).expect("dead");
    assert!(once.redriven(at(86_400_000), moment(0)).is_err(), "not twice");
}

#[test]
fn dlq_3_a_redrive_starts_a_new_epoch() {
    let dead = Record { unknown_outcome: true, crashes: 3, triaged_epoch: Some(2), ..record(State::Dead) };
    let until = at(90_000_000);
    let redriven = dead.redriven(until, moment(1000)).expect("dead");
    assert_eq!((redriven.epoch, redriven.attempts, redriven.throttles, redriven.crashes), (3, 0, 0, 0));
    assert_eq!((redriven.redrive_until, redriven.reason), (Some(until), None));
    assert!(redriven.unknown_outcome, "what an earlier epoch may have done stays");
    assert_eq!(redriven.version, 7, "the claim is the write");
    let claimed = redriven.claimed("t9", at(40_000), moment(1000)).expect("waiting");
    assert_eq!((claimed.version, claimed.state, claimed.crashes), (8, State::Sending, 0));
    assert_eq!(claimed.deadline(at(1_800_000)), until, "the redrive's own deadline");
    let waiting = redriven.waiting("t9", at(40_000), None, moment(1000)).expect("waiting");
    assert_eq!((waiting.version, waiting.state, waiting.epoch), (8, State::Waiting, 3));
}

#[test]
fn led_3_a_claim_writes_its_token_and_a_completion_leaves_it() {
    let claimed = record(State::Waiting).claimed("t9", at(35_000), moment(0)).expect("waiting");
    assert_eq!((claimed.token.as_str(), claimed.lease), ("t9", Some(at(35_000))));
    assert_eq!(claimed.planned_at, Some(Micros(77)), "kept for the case that the gate refuses it");
    assert_eq!(claimed.next_at, None);
    let delivered = claimed.delivered(moment(100)).expect("sending");
    assert_eq!((delivered.token.as_str(), delivered.lease, delivered.planned_at), ("t9", None, None));
    let waiting = claimed.waiting("t10", at(9000), Some(Micros(5)), moment(100)).expect("sending");
    assert_eq!((waiting.token.as_str(), waiting.lease), ("t10", None));
    assert_eq!((waiting.next_at, waiting.planned_at), (Some(at(9000)), Some(Micros(5))));
    let dead = claimed.dead("t11", Reason::Gone, None, moment(100)).expect("sending");
    assert_eq!((dead.token.as_str(), dead.lease, dead.reason), ("t11", None, Some(Reason::Gone)));
}

#[test]
fn led_4_a_live_lease_is_not_taken_over() {
    let held = record(State::Sending);
    let claim = |ms| held.claimed("t9", at(70_000), moment(ms));
    assert!(claim(34_999).is_err());
    assert!(claim(35_000).is_ok());
}

/// What becomes of the crashes and the outcome of a record that is found under a lease until 35 s.
#[track_caller]
fn check_crash(label: &str, to: State, ms: u64, crashes: u32, unknown: bool) {
    let moved = work(&record(State::Sending), to, moment(ms)).expect(label);
    assert_eq!((moved.crashes, moved.unknown_outcome), (crashes, unknown), "{label}");
}

#[test]
fn led_4_an_expired_lease_is_a_crash_whatever_becomes_of_the_delivery() {
    check_crash("claimed", State::Sending, 35_000, 2, true);
    check_crash("must wait for a place", State::Waiting, 35_000, 2, true);
    check_crash("past its deadline", State::Dead, 35_000, 2, true);
    check_crash("its own worker lets it wait", State::Waiting, 34_999, 1, false);
    check_crash("its own worker ends it", State::Dead, 34_999, 1, false);
    check_crash("a 2xx all the same", State::Delivered, 35_000, 0, false);
}

#[test]
fn led_4_three_crashes_in_a_row_are_poison() {
    let claim = |record: &Record, ms| record.claimed("t9", at(ms + 35_000), moment(ms));
    let mut record = claim(&first(), 0).expect("first");
    let mut history = Vec::new();
    for crash in 1..=3 {
        history.push((record.crashes, record.is_poison()));
        record = claim(&record, crash * 40_000).expect("expired");
    }
    assert_eq!(history, [(0, false), (1, false), (2, true)], "judged when it is found");
    let found = claim(&first(), 0)
        .and_then(|r| claim(&r, 40_000))
        .and_then(|r| claim(&r, 80_000))
        .and_then(|r| r.dead("t9", Reason::Poison, None, moment(120_000)))
        .expect("expired");
    assert_eq!((found.crashes, found.reason, found.unknown_outcome), (3, Some(Reason::Poison), true));
}

#[test]
fn led_4_waiting_between_crashes_does_not_forget_them() {
    let mut record = first();
    for crash in 1..=3_u32 {
        let ms = u64::from(crash) * 100_000;
        assert!(!record.is_poison(), "before crash {crash}");
        let sending = record.claimed("t9", at(ms + 35_000), moment(ms)).expect("due");
        record = sending.waiting("t10", at(ms + 60_000), None, moment(ms + 40_000)).expect("expired");
        assert_eq!(record.crashes, crash);
    }
    assert!(record.is_poison());
}

#[test]
fn led_4_a_completed_attempt_ends_the_row_of_crashes() {
    let sending = Record { crashes: 2, unknown_outcome: true, ..record(State::Sending) };
    let attempted = sending.attempted(&decision(&answered(503), true), Some(503), None);
    assert_eq!((attempted.crashes, attempted.unknown_outcome), (0, true), "what the crash did stays unknown");
    for ms in [1000, 36_000] {
        let waiting = attempted.waiting("t9", at(60_000), None, moment(ms)).expect("sending");
        assert_eq!(waiting.crashes, 0, "stored after {ms} ms, however late");
    }
}

#[test]
fn led_6_a_2xx_is_written_over_anything_but_itself() {
    for state in [State::Sending, State::Waiting, State::Dead] {
        let delivered = record(state).delivered(moment(0)).expect("a fact");
        assert_eq!(
            (delivered.state, delivered.reason, delivered.last_error.clone()),
            (State::Delivered, None, None),
            "{state:?}"
        );
        assert!(delivered.delivered(moment(1)).is_err(), "{state:?}: once");
    }
}

/// Attempts, throttles and whether the outcome is unknown after one more attempt.
#[track_caller]
fn check_attempt(label: &str, outcome: &Outcome, unknown_before: bool, expected: (u32, u32, bool)) {
    let before = Record { unknown_outcome: unknown_before, ..record(State::Sending) };
    let after = before.attempted(&decision(outcome, unknown_before), None, None);
    assert_eq!((after.attempts, after.throttles, after.unknown_outcome), expected, "{label}");
    assert_eq!((after.version, after.state), (before.version, before.state), "{label}: not a write of its own");
}

#[test]
fn ret_4_an_attempt_counts_unless_it_was_throttled() {
    check_attempt("503", &answered(503), false, (4, 2, false));
    check_attempt("429", &answered(429), false, (3, 3, false));
    check_attempt("422", &answered(422), false, (4, 2, false));
    check_attempt("no answer", &Outcome::Failed(Failure::NoAnswer), false, (4, 2, true));
    check_attempt("429 after no answer", &answered(429), true, (3, 3, true));
    check_attempt("200 after no answer", &answered(200), true, (4, 2, false));
}

#[test]
fn an_attempt_leaves_what_the_operator_reads() {
    let long = format!("{}\u{e9}", "x".repeat(511));
    let after = record(State::Sending).attempted(&decision(&answered(500), false), Some(500), Some(long));
    assert_eq!((after.last_status, after.last_error), (Some(500), Some("x".repeat(511))));
    let quiet = record(State::Sending).attempted(&decision(&answered(500), false), None, None);
    assert_eq!((quiet.last_status, quiet.last_error), (None, None), "not that of an earlier attempt");
    let dead = |error: Option<&str>| {
        let dead = record(State::Sending).dead("t9", Reason::Poison, error.map(str::to_owned), moment(0));
        dead.expect("sending").last_error
    };
    assert_eq!(dead(None).as_deref(), Some("busy"), "the last attempt's, where death has none of its own");
    assert_eq!(dead(Some("gone")).as_deref(), Some("gone"));
}

#[test]
fn an_excerpt_is_at_most_512_bytes_of_whole_characters() {
    for (label, text, bytes) in [
        ("empty", String::new(), 0),
        ("short", "é".to_owned(), 2),
        ("exactly", "x".repeat(512), 512),
        ("one more", "x".repeat(513), 512),
        ("two bytes across the cut", format!("{}é", "x".repeat(511)), 511),
        ("two bytes before it", format!("{}é!", "x".repeat(510)), 512),
        ("four bytes across the cut", format!("{}\u{1f512}", "x".repeat(509)), 509),
        ("four bytes before it", format!("{}\u{1f512}!", "x".repeat(508)), 512),
    ] {
        let cut = excerpt(&text);
        assert_eq!(cut.len(), bytes, "{label}");
        assert!(text.starts_with(&cut) && cut.len() <= EXCERPT_BYTES, "{label}");
    }
}

#[track_caller]
fn check_ttl(label: &str, redrive_until: Option<Timestamp>, moment: Moment, latest: Timestamp) {
    for state in [State::Sending, State::Waiting, State::Delivered, State::Dead] {
        let from = Record { redrive_until, ..record(State::Waiting) };
        let ttl = work(&from, state, moment).expect(label).ttl;
        assert_eq!(ttl, latest.seconds() + KEPT, "{label}: {state:?}");
    }
}

#[test]
fn led_8_a_record_is_kept_15_days_after_all_that_could_need_it() {
    check_ttl("the deadline", None, moment(0), at(1_800_000));
    check_ttl("now, after the deadline", None, moment(1_800_001), at(1_800_001));
    check_ttl("the redrive's", Some(at(86_400_000)), moment(0), at(86_400_000));
    check_ttl("the deadline, after the redrive's", Some(at(1000)), moment(0), at(1_800_000));
    let redriven = record(State::Dead).redriven(at(604_800_000), moment(0)).expect("dead");
    assert_eq!(redriven.ttl, at(604_800_000).seconds() + KEPT);
    assert_eq!(first().ttl, at(1_800_000).seconds() + KEPT);
}
