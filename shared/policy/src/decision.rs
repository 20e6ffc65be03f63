//! RET-2, RET-4 to RET-6, RET-8 and RET-9: what happens after an attempt.
//!
//! Owns: [`decide`], which turns an outcome into the one [`Decision`] that is stored, acted on and logged.
//! Must not: classify (that is `classifier`), nor act.

use std::time::Duration;

use crate::classifier::{Class, Classified, Context, Effect, Outcome, StatusLists, classify};
use crate::reason::Reason;
use crate::retry_after::LONGEST_ASK;
use crate::retry_policy::{RetryPolicy, cool_down};
use crate::timestamp::Timestamp;

/// A last attempt that is pulled forward must still be this far away (RET-6).
pub const SHORTEST_PULL: Duration = Duration::from_secs(1);

/// A destination's part in a decision.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Its own reading of statuses.
    pub statuses: &'a StatusLists,
    /// Whether a 202 is not yet a decision.
    pub require_decision: bool,
    /// Its schedule of retries.
    pub retry: &'a RetryPolicy,
    /// How long one attempt may take.
    pub timeout: Duration,
}

/// The delivery's part in a decision, as its record tells it.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// Counted attempts before this one.
    pub attempts: u32,
    /// The destination's pauses in a row before this answer (LIM-7).
    pub streak: u32,
    /// Whether an earlier attempt may have reached the receiver.
    pub unknown_before: bool,
    /// The event's deadline, or `redrive_until` in an epoch that a redrive began.
    pub deadline: Timestamp,
    /// When the outcome was known.
    pub now: Timestamp,
    /// Where in the jitter's span this one falls, 0 to 1.
    pub draw: f64,
}

/// What is done with the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The receiver has decided: acknowledge.
    Acknowledge,
    /// Another attempt, not before this instant.
    RetryAt(Timestamp),
    /// A person is needed.
    Dead(Reason),
}

/// Whether an attempt uses up one of `max_attempts` (RET-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// It does.
    Counted,
    /// The answer was throttled: it does not.
    Free,
}

/// Everything that was decided about one attempt (RET-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// What the outcome means.
    pub class: Class,
    /// The rule that classified it.
    pub rule: &'static str,
    /// The rule that chose the action.
    pub chosen_by: &'static str,
    /// What is done.
    pub action: Action,
    /// What the destination asked for.
    pub asked: Option<Duration>,
    /// What our own schedule, or the cool-down, says.
    pub scheduled: Duration,
    /// What jitter added.
    pub jitter: Duration,
    /// Until when nothing is sent to the destination, if this answer says so (LIM-7, CLS-8).
    pub pause_until: Option<Timestamp>,
    /// Whether the attempt counts.
    pub counting: Counting,
    /// Whether the receiver may have acted, on this attempt or an earlier one.
    pub effect: Effect,
    /// What was left until the deadline.
    pub deadline_left: Duration,
}

/// Decides what happens after an attempt. A function of its inputs, total, and never early (RET-2).
#[must_use]
pub fn decide(outcome: &Outcome, rules: Rules<'_>, attempt: Attempt) -> Decision {
    let context = Context {
        statuses: rules.statuses,
        require_decision: rules.require_decision,
        unknown_before: attempt.unknown_before,
    };
    let classified = classify(outcome, context);
    let asked = match outcome {
        Outcome::Answered(answer) => answer.asked,
        Outcome::Failed(_) => None,
    };
    let mut decision = Decision {
        class: classified.class,
        rule: classified.rule,
        chosen_by: classified.rule,
        action: Action::Acknowledge,
        asked,
        scheduled: Duration::ZERO,
        jitter: Duration::ZERO,
        pause_until: None,
        counting: Counting::Counted,
        effect: effect(classified, attempt),
        deadline_left: attempt.deadline.since(attempt.now),
    };
    match classified.class {
        Class::Delivered => {}
        Class::Permanent => {
            let reason = classified.reason.unwrap_or(Reason::PermanentStatus);
            decision.action = Action::Dead(reason);
            decision.pause_until = (reason == Reason::Gone).then_some(Timestamp::FAR_FUTURE);
        }
        Class::Throttled => throttled(&mut decision, rules, attempt),
        Class::Transient => transient(&mut decision, rules, attempt),
    }
    decision
}

/// An unknown outcome stays one until a 2xx: a later refusal says nothing about the earlier attempt.
fn effect(classified: Classified, attempt: Attempt) -> Effect {
    match (classified.class, classified.effect, attempt.unknown_before) {
        (Class::Delivered, _, _) | (_, Effect::Known, false) => Effect::Known,
        (_, Effect::Unknown, _) | (_, _, true) => Effect::Unknown,
    }
}

fn throttled(decision: &mut Decision, rules: Rules<'_>, attempt: Attempt) {
    let pause = pause_of(decision.asked, attempt.streak);
    decision.counting = Counting::Free;
    decision.scheduled = pause;
    decision.pause_until = Some(attempt.now.plus(pause.min(LONGEST_ASK)));
    retry(decision, rules, attempt);
}

/// A first pause lasts a valid ask alone; a later one in a row at least the cool-down as well (LIM-7).
#[must_use]
pub fn pause_of(asked: Option<Duration>, streak: u32) -> Duration {
    match asked {
        Some(ask) if ask > Duration::ZERO && streak == 0 => ask,
        Some(ask) => ask.max(cool_down(streak)),
        None => cool_down(streak),
    }
}

fn transient(decision: &mut Decision, rules: Rules<'_>, attempt: Attempt) {
    let counted = attempt.attempts.saturating_add(1);
    decision.scheduled = rules.retry.wait_after(counted);
    if counted >= rules.retry.max_attempts.get() {
        decision.chosen_by = "RET-5";
        decision.action = Action::Dead(Reason::AttemptsExhausted);
    } else {
        retry(decision, rules, attempt);
    }
}

fn retry(decision: &mut Decision, rules: Rules<'_>, attempt: Attempt) {
    let asked = decision.asked.unwrap_or_default();
    let (chosen_by, action) = if asked > LONGEST_ASK {
        ("RET-8", Action::Dead(Reason::RetryAfterExceedsLimit))
    } else {
        let wait = decision.scheduled.max(asked);
        let next = attempt.now.plus(wait);
        if next <= attempt.deadline {
            let jitter = rules.retry.jitter_of(wait, attempt.draw).min(attempt.deadline.since(next));
            decision.jitter = jitter;
            ("RET-2", Action::RetryAt(next.plus(jitter)))
        } else {
            ("RET-6", past_the_deadline(decision, rules, attempt, asked))
        }
    };
    decision.chosen_by = chosen_by;
    decision.action = action;
}

/// RET-6: the destination's wish ends the delivery; our own schedule yields, if that leaves time.
fn past_the_deadline(decision: &Decision, rules: Rules<'_>, attempt: Attempt, asked: Duration) -> Action {
    let earliest = attempt.now.plus(asked);
    if asked > Duration::ZERO && earliest > attempt.deadline {
        return Action::Dead(Reason::RetryAfterExceedsDeadline);
    }
    // Pulled forward, but never before what was asked for.
    let last = attempt.deadline.minus(rules.timeout).max(earliest);
    let own_schedule = decision.class == Class::Transient;
    if own_schedule && last.since(attempt.now) >= SHORTEST_PULL {
        Action::RetryAt(last)
    } else {
        Action::Dead(Reason::NoRetryBeforeDeadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::{Answer, Failure};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);

    fn answered(status: u16, asked: Option<u64>) -> Outcome {
        let asked = asked.map(Duration::from_secs);
        Outcome::Answered(Answer { status, asked, location_host: None })
    }

    fn attempt(attempts: u32, deadline_s: u64) -> Attempt {
        Attempt {
            attempts,
            streak: 0,
            unknown_before: false,
            deadline: NOW.plus(Duration::from_secs(deadline_s)),
            now: NOW,
            draw: 0.0,
        }
    }

    fn decided(outcome: &Outcome, attempt: Attempt) -> Decision {
        let retry = RetryPolicy::default();
        let statuses = StatusLists::default();
        let timeout = Duration::from_secs(10);
        let rules = Rules { statuses: &statuses, require_decision: false, retry: &retry, timeout };
        decide(outcome, rules, attempt)
    }

    fn at(seconds: u64) -> Action {
        Action::RetryAt(NOW.plus(Duration::from_secs(seconds)))
    }

    #[track_caller]
    fn check(label: &str, outcome: &Outcome, attempt: Attempt, rule: &str, expected: Action) {
        let decision = decided(outcome, attempt);
        assert_eq!((decision.chosen_by, decision.action), (rule, expected), "{label}");
    }

    #[test]
    fn ret_2_the_longer_of_schedule_and_ask() {
        check("ask is longer", &answered(500, Some(30)), attempt(0, 1800), "RET-2", at(30));
        check("schedule is longer", &answered(500, Some(1)), attempt(3, 1800), "RET-2", at(16));
        let late = Attempt { draw: 1.0, ..attempt(0, 101) };
        check("jitter ends at the deadline", &answered(429, Some(100)), late, "RET-2", at(101));
    }

    #[test]
    fn ret_4_a_throttled_answer_does_not_count() {
        let decision = decided(&answered(429, Some(12)), attempt(11, 1800));
        assert_eq!(decision.counting, Counting::Free);
        assert_eq!(decision.action, at(12));
        assert_eq!(decided(&answered(503, None), attempt(0, 1800)).counting, Counting::Counted);
    }

    #[test]
    fn ret_5_the_last_attempt_ends_it() {
        let dead = Action::Dead(Reason::AttemptsExhausted);
        check("twelfth", &answered(503, None), attempt(11, 1800), "RET-5", dead);
        check("beyond", &answered(503, None), attempt(u32::MAX, 1800), "RET-5", dead);
    }

    #[test]
    fn ret_6_past_the_deadline() {
        let dead = Action::Dead;
        check("pulled forward", &answered(503, None), attempt(6, 25), "RET-6", at(15));
        check("pulled to exactly 1 s", &answered(503, None), attempt(6, 11), "RET-6", at(1));
        let none = dead(Reason::NoRetryBeforeDeadline);
        check("less than 1 s away", &answered(503, None), attempt(6, 10), "RET-6", none);
        check("our own cool-down", &answered(429, None), attempt(0, 1), "RET-6", none);
        let over = Attempt { now: NOW.plus(Duration::from_secs(30)), ..attempt(0, 25) };
        check("ended after the deadline, without an ask", &Outcome::Failed(Failure::NoAnswer), over, "RET-6", none);
        check("an ask of 0 is none", &answered(503, Some(0)), over, "RET-6", none);
        let asked = dead(Reason::RetryAfterExceedsDeadline);
        check("throttled ask", &answered(429, Some(1801)), attempt(0, 1800), "RET-6", asked);
        check("ask of a 500", &answered(500, Some(1801)), attempt(0, 1800), "RET-6", asked);
        check("never before the ask", &answered(500, Some(20)), attempt(6, 25), "RET-6", at(20));
        check("an ask for the deadline itself", &answered(500, Some(20)), attempt(6, 20), "RET-6", at(20));
        check("exactly at the deadline", &answered(429, Some(1800)), attempt(0, 1800), "RET-2", at(1800));
    }

    #[test]
    fn ret_8_more_than_seven_days_is_never_scheduled() {
        let dead = Action::Dead(Reason::RetryAfterExceedsLimit);
        check("one more", &answered(429, Some(604_801)), attempt(0, 700_000), "RET-8", dead);
        check("before RET-6", &answered(429, Some(604_801)), attempt(0, 5), "RET-8", dead);
        check("the limit", &answered(429, Some(604_800)), attempt(0, 700_000), "RET-2", at(604_800));
    }

    #[test]
    fn cls_8_gone_pauses_without_end() {
        let decision = decided(&answered(410, None), attempt(0, 1800));
        assert_eq!(decision.action, Action::Dead(Reason::Gone));
        assert_eq!(decision.pause_until, Some(Timestamp::FAR_FUTURE));
    }

    #[test]
    fn lim_7_how_long_a_pause_lasts() {
        let second = Duration::from_secs;
        assert_eq!(pause_of(Some(second(1)), 0), second(1), "a first one: the ask alone");
        assert_eq!(pause_of(Some(second(1)), 3), second(16), "in a row: the cool-down too");
        assert_eq!(pause_of(Some(second(900)), 3), second(900), "an ask is not capped");
        assert_eq!(pause_of(Some(Duration::ZERO), 0), second(2), "an ask of 0 is none");
        assert_eq!(pause_of(None, 0), second(2));
    }

    #[test]
    fn ret_9_an_unknown_outcome_is_remembered_until_a_2xx() {
        let before = Attempt { unknown_before: true, ..attempt(1, 1800) };
        assert_eq!(decided(&answered(503, None), before).effect, Effect::Unknown);
        assert_eq!(decided(&answered(422, None), before).effect, Effect::Unknown);
        assert_eq!(decided(&answered(200, None), before).effect, Effect::Known);
        let first = decided(&Outcome::Failed(Failure::NoAnswer), attempt(0, 1800));
        assert_eq!(first.effect, Effect::Unknown);
        assert_eq!(first.deadline_left, Duration::from_mins(30));
    }
}
