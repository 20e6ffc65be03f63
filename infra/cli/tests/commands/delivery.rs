//! `lapse delivery` without a stack: its usage, and what it makes of a record.

use std::time::Duration;

use lapse_cli::delivery::story::{absent, lines, next};
use lapse_cli::delivery::{Around, Parked};
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;

use super::check_usage;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn record(state: State) -> Record {
    Record { state, ..Record::first("token", 1, Moment { now: NOW, deadline: NOW }) }
}

#[test]
fn a_delivery_that_cannot_be_named_is_wrong_usage() {
    check_usage(&["delivery", "show"], &["<DESTINATION>"]);
    check_usage(&["delivery", "show", "catalog"], &["destination#id", "catalog"]);
}

#[test]
fn what_happens_next_follows_the_record() {
    #[track_caller]
    fn check(label: &str, record: &Record, expected: &str) {
        assert_eq!(next(record, NOW), expected, "{label}");
    }
    let later = Some(NOW.plus(Duration::from_secs(200)));
    let at = later.map(|at| format!("{at} (in 3 min 20 s)")).unwrap_or_default();
    let waiting = Record { next_at: later, ..record(State::Waiting) };
    check("waiting", &waiting, &format!("it is tried again at {at}"));
    let sending = Record { lease: later, ..record(State::Sending) };
    check("sending", &sending, &format!("a worker is sending it, until {at} at most"));
    let crashed = "its worker's lease is over: the next receive counts a crash and tries again";
    check("crashed", &record(State::Sending), crashed);
    check("delivered", &record(State::Delivered), "nothing: the receiver has decided");
    let triaged = Record { triaged_epoch: Some(1), ..record(State::Dead) };
    check("dead, letter seen", &triaged, "nothing until a redrive");
}

#[test]
fn a_dead_delivery_tells_its_advice_and_an_unknown_outcome() {
    let key = DeliveryKey::parse("catalog#res_8472:3").unwrap();
    let dead = Record { reason: Some(Reason::AttemptsExhausted), unknown_outcome: true, ..record(State::Dead) };
    let around = Around { max_attempts: Some(12), paused_until: Some(Timestamp::FAR_FUTURE) };
    let told = lines(&key, &dead, &around, NOW);
    assert!(told.contains(&Reason::AttemptsExhausted.advice().to_owned()), "{told:?}");
    assert!(told.iter().any(|line| line.contains("it may have arrived; the key is kept")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("`attempts_exhausted`")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("0 of 12")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("paused until it is resumed")), "{told:?}");
}

#[test]
fn a_delivery_without_a_record_is_told_with_its_row() {
    let key = DeliveryKey::parse("catalog#res_8472:3").unwrap();
    let due = NOW.plus(Duration::from_secs(60));
    let expected = format!("catalog#res_8472:3 has no record; it is in the schedule, due {due} (in 1 min)");
    assert_eq!(absent(&key, &Parked::Until(due), NOW), [expected]);
    assert!(absent(&key, &Parked::Nowhere, NOW)[0].ends_with("no row in the schedule."));
    assert!(absent(&key, &Parked::NotSeen, NOW)[0].contains("first pages"));
}
