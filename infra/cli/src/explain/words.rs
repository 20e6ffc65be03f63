//! A decision for a person.
//!
//! Owns: the words for each of its values. Must not: decide, nor say anything that the decision does not.

use lapse_policy::classifier::{Class, Effect};
use lapse_policy::decision::{Action, Counting, Decision};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;

use super::context::Context;
use crate::columns::aligned;
use crate::span::words;

/// The decision in columns, then in a few sentences.
#[must_use]
pub fn lines(context: &Context, decision: &Decision) -> Vec<String> {
    let facts: Vec<_> = facts(context, decision).into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    let mut lines = aligned(&facts, 2);
    lines.push(String::new());
    lines.push(sentences(context, decision).join(" "));
    lines
}

fn facts(context: &Context, decision: &Decision) -> Vec<(&'static str, String)> {
    let now = context.attempt.now;
    let chosen = match decision.action {
        Action::Acknowledge => "acknowledge".to_owned(),
        Action::RetryAt(at) => format!("retry at {at}, in {}", words(at.since(now))),
        Action::Dead(reason) => format!("dead, {reason}"),
    };
    let (class, wait) = match decision.class {
        Class::Delivered => ("delivered", None),
        Class::Permanent => ("permanent", None),
        Class::Throttled => ("throttled", Some(wait(decision, "pause"))),
        Class::Transient => ("transient", Some(wait(decision, "schedule"))),
    };
    let rules = if decision.rule == decision.chosen_by {
        decision.rule.to_owned()
    } else {
        format!("{} for the class, {} for the decision", decision.rule, decision.chosen_by)
    };
    let counted = match decision.counting {
        Counting::Counted => "yes",
        Counting::Free => "no",
    };
    let effect = match decision.effect {
        Effect::Known => "known",
        Effect::Unknown => "unknown",
    };
    let deadline = format!("{}, {} left", context.attempt.deadline, words(decision.deadline_left));
    let facts = [
        ("decision", Some(chosen)),
        ("class", Some(class.to_owned())),
        ("rules", Some(rules)),
        ("wait", wait),
        ("pause", decision.pause_until.map(until)),
        ("counted", Some(counted.to_owned())),
        ("outcome", Some(effect.to_owned())),
        ("deadline", Some(deadline)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// What the wait was made of (RET-9); `own` is what our part of it is called.
fn wait(decision: &Decision, own: &str) -> String {
    let asked = decision.asked.map_or_else(|| "nothing asked".to_owned(), |ask| format!("asked {}", words(ask)));
    format!("{asked}, {own} {}, jitter {}", words(decision.scheduled), words(decision.jitter))
}

fn until(end: Timestamp) -> String {
    if end == Timestamp::FAR_FUTURE { "until a person resumes it".to_owned() } else { format!("until {end}") }
}

fn sentences(context: &Context, decision: &Decision) -> Vec<String> {
    let mut said = vec![meaning(decision)];
    said.extend(next(context, decision));
    said.extend(count(context, decision));
    said.extend(doubt(decision.effect).map(str::to_owned));
    said.extend(advice(decision.action));
    said
}

fn meaning(decision: &Decision) -> String {
    match (decision.class, decision.asked) {
        // These two heed no ask.
        (Class::Delivered, _) => "The receiver has taken the event: it is acknowledged.".to_owned(),
        (Class::Permanent, _) => "The event is not delivered, and another attempt would end the same way.".to_owned(),
        (Class::Throttled, None) => "The receiver wants fewer requests and does not say for how long.".to_owned(),
        (Class::Throttled, Some(ask)) => format!("The receiver asked for {}.", words(ask)),
        (Class::Transient, None) => "The event is not delivered yet, and another attempt may succeed.".to_owned(),
        (Class::Transient, Some(ask)) => {
            format!(
                "The event is not delivered yet, and another attempt may succeed. The receiver asked for {}.",
                words(ask)
            )
        }
    }
}

fn next(context: &Context, decision: &Decision) -> Option<String> {
    match (decision.action, decision.pause_until) {
        (Action::Acknowledge, _) => None,
        (Action::RetryAt(at), Some(end)) if at == end => {
            Some(format!("The destination is paused {}, and the event is tried again then.", until(end)))
        }
        (Action::RetryAt(at), Some(end)) => {
            Some(format!("The destination is paused {}, and the event is tried again at {at}.", until(end)))
        }
        (Action::RetryAt(at), None) if at < context.attempt.now.plus(decision.scheduled) => Some(format!(
            "Its next time by the schedule would be after the deadline, so a last attempt is pulled forward to {at}."
        )),
        (Action::RetryAt(at), None) => Some(format!("The event is tried again at {at}.")),
        (Action::Dead(reason), Some(end)) => {
            Some(format!("{} The destination is paused {}.", cause(reason), until(end)))
        }
        (Action::Dead(reason), None) => Some(cause(reason).to_owned()),
    }
}

fn cause(reason: Reason) -> &'static str {
    match reason {
        Reason::PermanentStatus => "The receiver has refused the event.",
        Reason::Redirect => "The receiver redirects, and redirects are never followed.",
        Reason::Gone => "The receiver says that it is gone.",
        Reason::BlockedAddress => "The address may not be called.",
        Reason::InvalidUrl => "The URL may not be called.",
        Reason::AttemptsExhausted => "This was the last attempt that the policy allows.",
        Reason::RetryAfterExceedsDeadline => "That is after the deadline.",
        Reason::RetryAfterExceedsLimit => "That is more than 7 days.",
        Reason::NoRetryBeforeDeadline => "Before the deadline there is no time for another attempt.",
        // An attempt's outcome does not lead to these; they are found before it.
        Reason::MalformedMessage
        | Reason::UnknownDestination
        | Reason::InvalidDestination
        | Reason::DisabledDestination
        | Reason::DeadlinePassed
        | Reason::NoPlaceBeforeDeadline
        | Reason::Poison => "No attempt was made.",
    }
}

fn count(context: &Context, decision: &Decision) -> Option<String> {
    let number = context.attempt.attempts.saturating_add(1);
    match (decision.class, decision.counting) {
        // Nothing comes after these that a count could end.
        (Class::Delivered | Class::Permanent, _) => None,
        (Class::Throttled | Class::Transient, Counting::Free) => {
            Some("This answer is not counted as an attempt.".to_owned())
        }
        (Class::Throttled | Class::Transient, Counting::Counted) => {
            Some(format!("This counts as attempt {number} of {}.", context.policy.retry.max_attempts))
        }
    }
}

fn doubt(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Known => None,
        Effect::Unknown => Some("The receiver may have acted on this attempt or on an earlier one."),
    }
}

fn advice(action: Action) -> Option<String> {
    match action {
        Action::Acknowledge | Action::RetryAt(_) => None,
        Action::Dead(reason) => Some(format!("A dead letter is written. {}", reason.advice())),
    }
}
