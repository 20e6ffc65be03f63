//! RET-2, RET-4 to RET-6, RET-8, RET-9: what a decision promises, whatever the outcome, the policy and the time.

use std::time::Duration;

use lapse_policy::classifier::{Answer, Class, Failure, Outcome, StatusLists};
use lapse_policy::decision::{Action, Attempt, Counting, Decision, Rules, SHORTEST_PULL, decide};
use lapse_policy::reason::Reason;
use lapse_policy::retry_after::LONGEST_ASK;
use lapse_policy::retry_policy::{MAX_JITTER, RetryPolicy, cool_down};
use lapse_policy::timestamp::Timestamp;
use proptest::prelude::*;

use crate::retry_policy::{draws, policies};

const NOW: Timestamp = Timestamp::from_millis(1_764_504_000_000);
const HOUR_MS: i64 = 3_600_000;

/// One outcome and all that a decision about it may depend on.
#[derive(Debug, Clone)]
struct Case {
    outcome: Outcome,
    policy: RetryPolicy,
    statuses: StatusLists,
    require_decision: bool,
    timeout: Duration,
    attempt: Attempt,
}

impl Case {
    fn decide(&self) -> Decision {
        let Self { statuses, policy, timeout, require_decision, .. } = self;
        let rules = Rules { statuses, require_decision: *require_decision, retry: policy, timeout: *timeout };
        decide(&self.outcome, rules, self.attempt)
    }

    fn with(&self, attempt: Attempt) -> Self {
        Self { attempt, ..self.clone() }
    }

    fn asked(&self) -> Duration {
        match &self.outcome {
            Outcome::Answered(answer) => answer.asked.unwrap_or_default(),
            Outcome::Failed(_) => Duration::ZERO,
        }
    }

    /// Whether this attempt is the last one of the policy.
    fn is_last(&self) -> bool {
        self.attempt.attempts.saturating_add(1) >= self.policy.max_attempts.get()
    }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    use Failure::{Blocked, ConnectTimeout, Dns, InvalidUrl, NoAnswer, Refused, Reset, Tls};
    let failures = [Dns, Refused, Reset, Tls, ConnectTimeout, NoAnswer, Blocked, InvalidUrl];
    let status = prop_oneof![
        4 => prop::sample::select(vec![200, 202, 302, 400, 408, 409, 410, 422, 500, 501]),
        6 => prop::sample::select(vec![429, 503]),
        1 => any::<u16>(),
    ];
    let longest = LONGEST_ASK.as_secs();
    let seconds = prop_oneof![Just(0), 1..100_u64, 1..=longest, longest - 2..longest + 3, Just(u64::MAX)];
    let asked = prop::option::of(seconds.prop_map(Duration::from_secs));
    let answers = (status, asked).prop_map(|(status, asked)| Answer { status, asked, location_host: None });
    prop_oneof![4 => answers.prop_map(Outcome::Answered), 1 => prop::sample::select(failures.to_vec()).prop_map(Outcome::Failed)]
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let counted = prop_oneof![8 => 0..25_u32, 1 => Just(u32::MAX)];
    let streak = prop_oneof![Just(0), 0..12_u32, Just(u32::MAX)];
    let left = prop_oneof![-HOUR_MS..HOUR_MS, 0..30_000_i64, 0..8 * 24 * HOUR_MS];
    (counted, streak, any::<bool>(), left, draws()).prop_map(|(attempts, streak, unknown_before, left, draw)| Attempt {
        attempts,
        streak,
        unknown_before,
        deadline: Timestamp::from_millis(NOW.millis() + left),
        now: NOW,
        draw,
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let listed = || prop::collection::btree_set(prop::sample::select(vec![202_u16, 404, 429, 503]), 0..2);
    let statuses = (listed(), listed(), listed()).prop_map(|(delivered, transient, permanent)| StatusLists {
        delivered,
        transient,
        permanent,
    });
    let statuses = prop_oneof![3 => Just(StatusLists::default()), 1 => statuses];
    let timeout = (1..=20_000_u64).prop_map(Duration::from_millis);
    (outcomes(), policies(), statuses, any::<bool>(), timeout, attempts()).prop_map(
        |(outcome, policy, statuses, require_decision, timeout, attempt)| Case {
            outcome,
            policy,
            statuses,
            require_decision,
            timeout,
            attempt,
        },
    )
}

/// What RET-5, RET-8, RET-2 and RET-6 say about a case that is tried again, jitter left aside.
fn retried(case: &Case, decision: &Decision) -> Action {
    let Attempt { now, deadline, .. } = case.attempt;
    let (asked, throttled) = (case.asked(), decision.class == Class::Throttled);
    if !throttled && case.is_last() {
        return Action::Dead(Reason::AttemptsExhausted);
    }
    if asked > LONGEST_ASK {
        return Action::Dead(Reason::RetryAfterExceedsLimit);
    }
    let (wanted, earliest) = (now.plus(decision.scheduled.max(asked)), now.plus(asked));
    let pulled = deadline.minus(case.timeout).max(earliest);
    if wanted <= deadline {
        Action::RetryAt(wanted)
    } else if asked > Duration::ZERO && earliest > deadline {
        Action::Dead(Reason::RetryAfterExceedsDeadline)
    } else if throttled || pulled < now.plus(SHORTEST_PULL) {
        Action::Dead(Reason::NoRetryBeforeDeadline)
    } else {
        Action::RetryAt(pulled)
    }
}

fn shifted(at: Timestamp, by: i64) -> Timestamp {
    if at == Timestamp::FAR_FUTURE { at } else { Timestamp::from_millis(at.millis() + by) }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn ret_2_a_retry_is_never_before_the_ask_and_ret_6_never_after_the_deadline(case in cases()) {
        if let Action::RetryAt(at) = case.decide().action {
            prop_assert!(at >= case.attempt.now.plus(case.asked()), "earlier than asked");
            prop_assert!(at <= case.attempt.deadline, "after the deadline");
        }
    }

    #[test]
    fn ret_2_jitter_only_adds_and_is_bounded(case in cases()) {
        let decision = case.decide();
        let plain = case.with(Attempt { draw: 0.0, ..case.attempt }).decide();
        let wait = decision.scheduled.max(case.asked()).min(LONGEST_ASK);
        prop_assert!(decision.jitter <= MAX_JITTER.min(wait.mul_f64(case.policy.jitter)));
        prop_assert!(plain.jitter.is_zero());
        let later = match plain.action {
            Action::RetryAt(at) => Action::RetryAt(at.plus(decision.jitter)),
            Action::Acknowledge | Action::Dead(_) => plain.action,
        };
        prop_assert_eq!(Decision { action: later, jitter: decision.jitter, ..plain }, decision, "nothing else changes");
    }

    #[test]
    fn ret_2_the_schedule_is_that_of_the_policy_or_of_the_pause(case in cases()) {
        let decision = case.decide();
        let expected = match decision.class {
            Class::Delivered | Class::Permanent => Duration::ZERO,
            Class::Transient => case.policy.wait_after(case.attempt.attempts.saturating_add(1)),
            Class::Throttled if case.attempt.streak == 0 && case.asked() > Duration::ZERO => case.asked(),
            Class::Throttled => cool_down(case.attempt.streak).max(case.asked()),
        };
        prop_assert_eq!(decision.scheduled, expected);
        let pause = match (decision.class, decision.action) {
            (Class::Throttled, _) => Some(case.attempt.now.plus(expected.min(LONGEST_ASK))),
            (Class::Permanent, Action::Dead(Reason::Gone)) => Some(Timestamp::FAR_FUTURE),
            (Class::Delivered | Class::Transient | Class::Permanent, _) => None,
        };
        prop_assert_eq!(decision.pause_until, pause, "LIM-7, CLS-8");
    }

    #[test]
    fn ret_5_ret_6_ret_8_every_retry_that_may_be_is_made_and_no_other(case in cases()) {
        let plain = case.with(Attempt { draw: 0.0, ..case.attempt });
        let decision = plain.decide();
        match decision.class {
            Class::Delivered => prop_assert_eq!(decision.action, Action::Acknowledge),
            Class::Permanent => prop_assert!(matches!(decision.action, Action::Dead(_))),
            Class::Throttled | Class::Transient => prop_assert_eq!(decision.action, retried(&plain, &decision)),
        }
    }

    #[test]
    fn ret_5_a_transient_outcome_is_exhausted_exactly_at_the_last_attempt(case in cases()) {
        let decision = case.decide();
        let exhausted = decision.action == Action::Dead(Reason::AttemptsExhausted);
        prop_assert_eq!(exhausted, decision.class == Class::Transient && case.is_last());
    }

    #[test]
    fn ret_4_a_throttled_answer_is_free_whatever_was_counted_before(case in cases(), counted in any::<u32>()) {
        let decision = case.decide();
        prop_assert_eq!(decision.counting == Counting::Free, decision.class == Class::Throttled);
        let other = case.with(Attempt { attempts: counted, ..case.attempt }).decide();
        prop_assert!(decision.class != Class::Throttled || decision == other);
    }

    #[test]
    fn ret_8_an_ask_of_more_than_seven_days_is_never_scheduled(mut case in cases(), more in prop_oneof![1..100_000_000_u64, 1..u64::MAX / 2]) {
        // Even where the deadline leaves time for it.
        case.attempt.deadline = NOW.plus(LONGEST_ASK * 2);
        let asked = Some(LONGEST_ASK.saturating_add(Duration::from_millis(more)));
        case.outcome = match case.outcome {
            Outcome::Answered(answer) => Outcome::Answered(Answer { asked, ..answer }),
            Outcome::Failed(_) => Outcome::Answered(Answer { status: 429, asked, location_host: None }),
        };
        let action = case.decide().action;
        prop_assert!(!matches!(action, Action::RetryAt(_)), "{action:?}");
    }

    #[test]
    fn ret_9_a_decision_is_a_function_of_its_inputs_and_of_no_absolute_time(case in cases(), by in 0..HOUR_MS * 100_000) {
        let decision = case.decide();
        prop_assert_eq!(case.decide(), decision, "asked twice");
        let (now, deadline) = (shifted(case.attempt.now, by), shifted(case.attempt.deadline, by));
        let action = match decision.action {
            Action::RetryAt(at) => Action::RetryAt(shifted(at, by)),
            Action::Acknowledge | Action::Dead(_) => decision.action,
        };
        let pause_until = decision.pause_until.map(|until| shifted(until, by));
        let later = case.with(Attempt { now, deadline, ..case.attempt }).decide();
        prop_assert_eq!(later, Decision { action, pause_until, ..decision });
    }
}
