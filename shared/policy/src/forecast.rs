//! RET-3, RET-5, RET-6: the whole schedule of a delivery that nobody ever takes.
//!
//! Owns: [`attempts`], the walk from the first attempt to the dead letter. Must not: have a rule of its own; every
//! step is what `decide` says.

use std::iter::successors;
use std::time::Duration;

use crate::classifier::{Failure, Outcome};
use crate::decision::{Action, Attempt, Decision, Rules, decide};
use crate::timestamp::Timestamp;

/// How fast the attempts of a walk follow each other: the truth is between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Every attempt fails at once, and no wait has any jitter.
    Earliest,
    /// Every attempt lasts its whole timeout, and every wait has all of its jitter.
    Latest,
}

/// What an attempt's time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The first attempt.
    First,
    /// The schedule (RET-3).
    Scheduled,
    /// The schedule's time was after the deadline, so the last attempt comes sooner (RET-6).
    PulledForward,
}

/// One attempt of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Counts the attempts, from 1.
    pub number: u32,
    /// What its time comes from.
    pub timing: Timing,
    /// The wait before it, from the end of the attempt before.
    pub wait: Duration,
    /// When it starts.
    pub starts_at: Timestamp,
    /// When it has failed.
    pub ends_at: Timestamp,
    /// What its failure leads to; the last step's is a death.
    pub decision: Decision,
}

/// Every attempt from `start` on if each one fails without an ask; none if the deadline has passed by then (RET-7).
pub fn attempts(rules: Rules<'_>, start: Timestamp, deadline: Timestamp, pace: Pace) -> impl Iterator<Item = Step> {
    let first = (start <= deadline).then_some((1, Timing::First, Duration::ZERO, start));
    let step = move |(number, timing, wait, starts_at): (u32, Timing, Duration, Timestamp)| {
        let (failure, lasts, draw) = match pace {
            Pace::Earliest => (Failure::Refused, Duration::ZERO, 0.0),
            Pace::Latest => (Failure::NoAnswer, rules.timeout, 1.0),
        };
        let ends_at = starts_at.plus(lasts);
        let attempts = number.saturating_sub(1);
        let attempt = Attempt { attempts, streak: 0, unknown_before: false, deadline, now: ends_at, draw };
        let decision = decide(&Outcome::Failed(failure), rules, attempt);
        Step { number, timing, wait, starts_at, ends_at, decision }
    };
    successors(first.map(step), move |last| match last.decision.action {
        Action::RetryAt(at) => {
            let wait = at.since(last.ends_at);
            let timing = if wait < last.decision.scheduled { Timing::PulledForward } else { Timing::Scheduled };
            Some(step((last.number.saturating_add(1), timing, wait, at)))
        }
        Action::Acknowledge | Action::Dead(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::StatusLists;
    use crate::reason::Reason;
    use crate::retry_policy::{RetryPolicy, Schedule};

    const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);
    const TIMEOUT: Duration = Duration::from_secs(10);

    fn walk(retry: &RetryPolicy, deadline_s: u64, pace: Pace) -> Vec<Step> {
        let rules = Rules { statuses: &StatusLists::default(), require_decision: false, retry, timeout: TIMEOUT };
        attempts(rules, START, START.plus(Duration::from_secs(deadline_s)), pace).collect()
    }

    /// Starts in milliseconds since the first, the last attempt's timing, and how it ends.
    #[track_caller]
    fn check(label: &str, deadline_s: u64, pace: Pace, starts_ms: &[u128], timing: Timing, end: (&str, Reason)) {
        let steps = walk(&RetryPolicy::default(), deadline_s, pace);
        let starts: Vec<_> = steps.iter().map(|step| step.starts_at.since(START).as_millis()).collect();
        assert_eq!(starts, starts_ms, "{label}");
        let last = steps.last().expect("a first attempt");
        assert_eq!(last.timing, timing, "{label}");
        assert_eq!((last.decision.chosen_by, last.decision.action), (end.0, Action::Dead(end.1)), "{label}");
    }

    #[test]
    fn ret_6_the_deadline_pulls_the_last_attempt_forward_and_ends_the_walk() {
        let dead = ("RET-6", Reason::NoRetryBeforeDeadline);
        let earliest = [0, 2000, 6000, 14_000, 30_000, 50_000];
        check("pulled forward", 60, Pace::Earliest, &earliest, Timing::PulledForward, dead);
        let latest = [0, 12_500, 27_500, 47_500, 62_000];
        check("also at the latest", 72, Pace::Latest, &latest, Timing::PulledForward, dead);
        check("no time for it", 60, Pace::Latest, &latest[..4], Timing::Scheduled, dead);
        check("nothing fits", 1, Pace::Earliest, &[0], Timing::First, dead);
    }

    #[test]
    fn ret_5_max_attempts_ends_it_and_a_walk_without_a_deadline_in_its_way_is_the_worst_case() {
        for schedule in [
            RetryPolicy::default().schedule,
            Schedule::Steps(vec![Duration::from_secs(300), Duration::ZERO, Duration::from_secs(7)]),
        ] {
            let retry = RetryPolicy { schedule, ..RetryPolicy::default() };
            let steps = walk(&retry, 604_800, Pace::Latest);
            let last = steps.last().expect("a first attempt");
            assert_eq!((last.number, last.decision.action), (12, Action::Dead(Reason::AttemptsExhausted)));
            assert_eq!(last.ends_at.since(START), retry.worst_case(TIMEOUT));
            assert!(steps[1..].iter().all(|step| step.timing == Timing::Scheduled));
        }
    }

    #[test]
    fn ret_3_the_earliest_walk_has_the_bare_schedule() {
        let retry = RetryPolicy::default();
        let waits: Vec<_> = walk(&retry, 604_800, Pace::Earliest).iter().skip(1).map(|step| step.wait).collect();
        let schedule: Vec<_> = (1..12).map(|n| retry.wait_after(n)).collect();
        assert_eq!(waits, schedule);
    }

    #[test]
    fn ret_7_past_the_deadline_there_is_no_attempt() {
        let retry = RetryPolicy::default();
        let rules =
            Rules { statuses: &StatusLists::default(), require_decision: false, retry: &retry, timeout: TIMEOUT };
        let just_before = START.minus(Duration::from_millis(1));
        assert_eq!(attempts(rules, START, just_before, Pace::Earliest).count(), 0);
        assert_eq!(attempts(rules, START, START, Pace::Earliest).count(), 1);
    }
}
