//! CLS-1 to CLS-10: what an attempt's outcome means.
//!
//! Owns: [`Outcome`], [`Class`] and the one function from the first to the second.
//! Must not: decide what happens next (that is `retry_policy`), nor look into texts of errors.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::reason::Reason;

/// How one HTTP request ended, as the sender saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A complete response head arrived.
    Answered(Answer),
    /// None did.
    Failed(Failure),
}

/// The part of a response that decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The longest valid `Retry-After`, already read (RET-1).
    pub asked: Option<Duration>,
    /// The host of the `Location` header, for the operator (CLS-7).
    pub location_host: Option<String>,
}

/// Why there was no response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The name did not resolve.
    Dns,
    /// The connection was refused, or its network unreachable.
    Refused,
    /// The connection broke before the first byte of the request was written.
    Reset,
    /// The TLS handshake failed.
    Tls,
    /// No connection within the time for one.
    ConnectTimeout,
    /// The request was written, at least in part, and no complete head came: the receiver may have acted.
    NoAnswer,
    /// The address may not be called (SEC-2).
    Blocked,
    /// The URL is none that may be called (SEC-1).
    InvalidUrl,
}

/// What an outcome means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The receiver has durably decided.
    Delivered,
    /// The receiver asks for less.
    Throttled,
    /// Worth another attempt.
    Transient,
    /// Another attempt would end the same way.
    Permanent,
}

/// Whether the receiver may have acted on an attempt that did not end in a 2xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It told us that it did not accept the event, or it never saw it.
    Known,
    /// It may have acted: only the same event id may be sent again.
    Unknown,
}

/// A class with the rule that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The class.
    pub class: Class,
    /// Whether the receiver may have acted.
    pub effect: Effect,
    /// The rule's id, for the log and for `lapse explain`.
    pub rule: &'static str,
    /// The reason that a dead letter gets if this ends the delivery.
    pub reason: Option<Reason>,
}

/// A destination's own reading of statuses (CLS-10).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusLists {
    /// Statuses that count as delivered.
    pub delivered: BTreeSet<u16>,
    /// Statuses that are worth another attempt.
    pub transient: BTreeSet<u16>,
    /// Statuses that are not.
    pub permanent: BTreeSet<u16>,
}

/// What the classifier must know beside the outcome.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The destination's own lists.
    pub statuses: &'a StatusLists,
    /// Whether a 202 is not yet a decision (CLS-2).
    pub require_decision: bool,
    /// Whether an earlier attempt may have reached the receiver (CLS-4).
    pub unknown_before: bool,
}

/// The class of an outcome (CLS-1 to CLS-10).
#[must_use]
pub fn classify(outcome: &Outcome, context: Context<'_>) -> Classified {
    match outcome {
        Outcome::Answered(answer) => {
            listed(answer.status, context.statuses).unwrap_or_else(|| by_status(answer, context))
        }
        Outcome::Failed(failure) => by_failure(*failure),
    }
}

fn listed(status: u16, lists: &StatusLists) -> Option<Classified> {
    if lists.delivered.contains(&status) {
        Some(delivered("CLS-10"))
    } else if lists.transient.contains(&status) {
        Some(transient("CLS-10", Effect::Known))
    } else if lists.permanent.contains(&status) {
        Some(permanent("CLS-10", Reason::PermanentStatus))
    } else {
        None
    }
}

#[expect(clippy::match_same_arms, reason = "in the order of the rules")]
fn by_status(answer: &Answer, context: Context<'_>) -> Classified {
    match answer.status {
        202 if context.require_decision => transient("CLS-2", Effect::Unknown),
        200..=299 => delivered("CLS-1"),
        429 => throttled(),
        503 if answer.asked.is_some() => throttled(),
        409 if context.unknown_before => transient("CLS-4", Effect::Unknown),
        408 | 425 => transient("CLS-4", Effect::Known),
        501 | 505 => permanent("CLS-7", Reason::PermanentStatus),
        500..=599 => transient("CLS-4", Effect::Known),
        410 => permanent("CLS-8", Reason::Gone),
        300..=399 => permanent("CLS-7", Reason::Redirect),
        _ => permanent("CLS-7", Reason::PermanentStatus),
    }
}

fn by_failure(failure: Failure) -> Classified {
    match failure {
        Failure::Dns | Failure::Refused | Failure::Reset | Failure::Tls | Failure::ConnectTimeout => {
            transient("CLS-5", Effect::Known)
        }
        Failure::NoAnswer => transient("CLS-6", Effect::Unknown),
        Failure::Blocked => permanent("CLS-9", Reason::BlockedAddress),
        Failure::InvalidUrl => permanent("CLS-9", Reason::InvalidUrl),
    }
}

const fn delivered(rule: &'static str) -> Classified {
    Classified { class: Class::Delivered, effect: Effect::Known, rule, reason: None }
}

const fn throttled() -> Classified {
    Classified { class: Class::Throttled, effect: Effect::Known, rule: "CLS-3", reason: None }
}

const fn transient(rule: &'static str, effect: Effect) -> Classified {
    Classified { class: Class::Transient, effect, rule, reason: None }
}

const fn permanent(rule: &'static str, reason: Reason) -> Classified {
    Classified { class: Class::Permanent, effect: Effect::Known, rule, reason: Some(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(delivered: &[u16], transient: &[u16], permanent: &[u16]) -> StatusLists {
        let set = |statuses: &[u16]| statuses.iter().copied().collect();
        StatusLists { delivered: set(delivered), transient: set(transient), permanent: set(permanent) }
    }

    fn class_of(outcome: &Outcome, statuses: &StatusLists, decision: bool, unknown: bool) -> Classified {
        let context = Context { statuses, require_decision: decision, unknown_before: unknown };
        classify(outcome, context)
    }

    fn status(status: u16) -> Outcome {
        Outcome::Answered(Answer { status, ..Answer::default() })
    }

    #[track_caller]
    fn check(label: &str, outcome: &Outcome, expected: Classified) {
        assert_eq!(class_of(outcome, &StatusLists::default(), false, false), expected, "{label}");
    }

    #[test]
    fn cls_1_every_2xx_is_delivered() {
        for code in 200..=299 {
            check(&code.to_string(), &status(code), delivered("CLS-1"));
        }
    }

    #[test]
    fn cls_2_202_is_undecided_where_a_decision_is_required() {
        let none = StatusLists::default();
        let class = class_of(&status(202), &none, true, false);
        assert_eq!(class, transient("CLS-2", Effect::Unknown));
        assert_eq!(class_of(&status(200), &none, true, false), delivered("CLS-1"));
    }

    #[test]
    fn cls_3_429_and_503_with_an_ask_are_throttled() {
        check("429", &status(429), throttled());
        let asked = Answer { status: 503, asked: Some(Duration::ZERO), location_host: None };
        check("503 with an ask", &Outcome::Answered(asked), throttled());
        let asked = Answer { status: 500, asked: Some(Duration::from_secs(1)), location_host: None };
        check("500 with an ask", &Outcome::Answered(asked), transient("CLS-4", Effect::Known));
    }

    #[test]
    fn cls_4_transient_statuses() {
        for code in (500..=599).filter(|code| ![501, 505].contains(code)).chain([408, 425]) {
            check(&code.to_string(), &status(code), transient("CLS-4", Effect::Known));
        }
        let none = StatusLists::default();
        let conflict = class_of(&status(409), &none, false, true);
        assert_eq!(conflict, transient("CLS-4", Effect::Unknown), "409 after an unknown outcome");
    }

    #[test]
    fn cls_5_the_receiver_never_saw_the_request() {
        use Failure::{ConnectTimeout, Dns, Refused, Reset, Tls};
        for failure in [Dns, Refused, Reset, Tls, ConnectTimeout] {
            let label = format!("{failure:?}");
            check(&label, &Outcome::Failed(failure), transient("CLS-5", Effect::Known));
        }
    }

    #[test]
    fn cls_6_the_receiver_may_have_acted() {
        check("", &Outcome::Failed(Failure::NoAnswer), transient("CLS-6", Effect::Unknown));
    }

    #[test]
    fn cls_7_what_another_attempt_would_not_change() {
        for code in [400, 401, 403, 404, 405, 409, 413, 415, 422, 501, 505, 600, 999, 100, 0, 65_535] {
            check(&code.to_string(), &status(code), permanent("CLS-7", Reason::PermanentStatus));
        }
        for code in 300..=399 {
            check(&code.to_string(), &status(code), permanent("CLS-7", Reason::Redirect));
        }
    }

    #[test]
    fn cls_8_410_is_gone() {
        check("410", &status(410), permanent("CLS-8", Reason::Gone));
    }

    #[test]
    fn cls_9_what_may_not_be_called() {
        let blocked = Outcome::Failed(Failure::Blocked);
        check("blocked", &blocked, permanent("CLS-9", Reason::BlockedAddress));
        let invalid = Outcome::Failed(Failure::InvalidUrl);
        check("invalid", &invalid, permanent("CLS-9", Reason::InvalidUrl));
    }

    #[test]
    fn cls_10_a_destinations_list_wins() {
        let own = lists(&[404], &[422, 429], &[500, 202]);
        let class = |code| class_of(&status(code), &own, true, false);
        assert_eq!(class(404), delivered("CLS-10"));
        assert_eq!(class(422), transient("CLS-10", Effect::Known));
        assert_eq!(class(429), transient("CLS-10", Effect::Known));
        assert_eq!(class(500), permanent("CLS-10", Reason::PermanentStatus));
        assert_eq!(class(202), permanent("CLS-10", Reason::PermanentStatus));
        assert_eq!(class(201), delivered("CLS-1"), "what no list names keeps its class");
    }
}
