//! LED-2 to LED-8, LED-10, DLQ-1, DLQ-3: the ledger's rules, each move alone and any sequence of them.

#![expect(clippy::expect_used, reason = "a helper of tests fails the test it is called from")]

use std::time::Duration;

use lapse_policy::classifier::{Answer, Outcome, StatusLists};
use lapse_policy::decision::{Attempt, Decision, Rules, decide};
use lapse_policy::ledger::{IllegalMove, Moment, Record, State};
use lapse_policy::reason::Reason;
use lapse_policy::retry_policy::RetryPolicy;
use lapse_policy::timestamp::{Micros, Timestamp};

mod model;
mod moves;
mod standing;

const NOW: Timestamp = Timestamp::from_millis(1_764_504_000_000);
const STATES: [State; 4] = [State::Sending, State::Waiting, State::Delivered, State::Dead];

fn at(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

/// An event whose deadline is half an hour after [`NOW`].
fn moment(ms: u64) -> Moment {
    Moment { now: at(ms), deadline: at(1_800_000) }
}

fn first() -> Record {
    Record::first("t0", 1, moment(0))
}

/// A record of the second epoch with a value in every field that some move must keep or clear.
fn record(state: State) -> Record {
    Record {
        version: 7,
        state,
        attempts: 3,
        throttles: 2,
        crashes: 1,
        token: "t1".to_owned(),
        lease: (state == State::Sending).then(|| at(35_000)),
        next_at: (state == State::Waiting).then(|| at(0)),
        planned_at: (state == State::Waiting).then_some(Micros(77)),
        unknown_outcome: false,
        reason: (state == State::Dead).then_some(Reason::Redirect),
        last_status: Some(503),
        last_error: Some("busy".to_owned()),
        epoch: 2,
        redrive_until: Some(at(86_400_000)),
        triaged_epoch: Some(1),
        first_at: NOW.minus(Duration::from_hours(1)),
        last_at: NOW,
        ttl: 0,
    }
}

fn answered(status: u16) -> Outcome {
    Outcome::Answered(Answer { status, ..Answer::default() })
}

fn decision(outcome: &Outcome, unknown_before: bool) -> Decision {
    let (retry, statuses) = (RetryPolicy::default(), StatusLists::default());
    let timeout = Duration::from_secs(10);
    let rules = Rules { statuses: &statuses, require_decision: false, retry: &retry, timeout };
    let attempt = Attempt { attempts: 0, streak: 0, unknown_before, deadline: at(1_800_000), now: NOW, draw: 0.0 };
    decide(outcome, rules, attempt)
}

/// Every way in which a record is moved to a state by work, at an instant.
fn work(from: &Record, to: State, moment: Moment) -> Result<Record, IllegalMove> {
    match to {
        State::Sending => from.claimed("t9", at(99_000), moment),
        State::Waiting => from.waiting("t9", at(5000), Some(Micros(9)), moment),
        State::Delivered => from.delivered(moment),
        State::Dead => from.dead("t9", Reason::Poison, None, moment),
    }
}
