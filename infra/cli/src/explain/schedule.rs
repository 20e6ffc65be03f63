//! `lapse explain --schedule`: the attempts of an event that nobody takes.
//!
//! Owns: the two walks, the soonest and the slowest, side by side. Must not: compute a time; `lapse_policy::forecast`
//! has walked both.

use std::time::Duration;

use lapse_policy::decision::Action;
use lapse_policy::forecast::{Pace, Step, Timing, attempts};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Timestamp, millis};
use serde_json::{Value, json};

use super::policy::Policy;
use crate::columns::aligned;
use crate::span::words;

/// More attempts than this with the same waits are told in one line.
const FOLD_OVER: usize = 8;

const HEAD: [&str; 5] = ["attempt", "wait, no jitter", "wait, all jitter", "earliest start", "latest start"];
/// A cell for which a walk has no value.
const NONE: &str = "-";

type Row = [String; HEAD.len()];
/// The same attempt of both walks; one of them may have ended before it.
type Pair<'a> = (Option<&'a Step>, Option<&'a Step>);

/// The whole schedule.
#[derive(Debug)]
pub struct Forecast {
    start: Timestamp,
    deadline: Timestamp,
    max_attempts: u32,
    timeout: Duration,
    worst_case: Duration,
    earliest: Vec<Step>,
    latest: Vec<Step>,
}

impl Forecast {
    /// From a first attempt at `start`.
    #[must_use]
    pub fn of(policy: &Policy, start: Timestamp, deadline: Timestamp) -> Self {
        let walk = |pace| attempts(policy.rules(), start, deadline, pace).collect();
        Self {
            start,
            deadline,
            max_attempts: policy.retry.max_attempts.get(),
            timeout: policy.timeout,
            worst_case: policy.retry.worst_case(policy.timeout),
            earliest: walk(Pace::Earliest),
            latest: walk(Pace::Latest),
        }
    }

    /// The schedule for a person.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let timeout = words(self.timeout);
        let mut lines = aligned(&self.rows(), 0);
        lines.push(String::new());
        let facts = [
            ("attempts", format!("at most {} (RET-5), each of at most {timeout}", self.max_attempts)),
            ("deadline", format!("{} after the start", words(self.deadline.since(self.start)))),
            ("earliest", format!("each attempt fails at once, no jitter: {}", self.end(&self.earliest))),
            ("latest", format!("each attempt lasts {timeout}, all of the jitter: {}", self.end(&self.latest))),
            ("worst case", format!("{} if no deadline is in the way", words(self.worst_case))),
        ];
        lines.extend(aligned(&facts.map(|(name, value)| [name.to_owned(), value]), 2));
        lines.push(String::new());
        lines.push("Throttled answers and waits for the rate come on top; they are not counted (RET-4).".to_owned());
        lines
    }

    fn rows(&self) -> Vec<Row> {
        let most = self.earliest.len().max(self.latest.len());
        let pairs: Vec<_> = (0..most).map(|index| (self.earliest.get(index), self.latest.get(index))).collect();
        let alike = |(a, b): &Pair<'_>, (c, d): &Pair<'_>| wait(*a) == wait(*c) && wait(*b) == wait(*d);
        let mut rows = vec![HEAD.map(str::to_owned)];
        for run in pairs.chunk_by(alike) {
            match run {
                [first, between @ .., last] if run.len() > FOLD_OVER => {
                    rows.extend([self.row(first), folded(between), self.row(last)]);
                }
                _ => rows.extend(run.iter().map(|pair| self.row(pair))),
            }
        }
        rows
    }

    fn row(&self, pair: &Pair<'_>) -> Row {
        let start =
            |step: Option<&Step>| step.map_or_else(|| NONE.to_owned(), |step| words(step.starts_at.since(self.start)));
        [number(pair), wait(pair.0), wait(pair.1), start(pair.0), start(pair.1)]
    }

    /// How a walk ends, and where the deadline moved an attempt.
    fn end(&self, walk: &[Step]) -> String {
        let since_start = |at: Timestamp| words(at.since(self.start));
        let pulled = walk.iter().filter(|step| step.timing == Timing::PulledForward).map(|step| {
            format!("attempt {} is pulled forward to {} (RET-6), ", step.number, since_start(step.starts_at))
        });
        let end = death(walk).map_or_else(
            || "no attempt, the deadline has passed (RET-7)".to_owned(),
            |dead| format!("dead after {}, {} ({})", since_start(dead.at), dead.reason, dead.rule),
        );
        pulled.chain([end]).collect()
    }

    /// The schedule as one JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "start": self.start,
            "deadline": self.deadline,
            "max_attempts": self.max_attempts,
            "timeout_ms": millis(self.timeout),
            "worst_case_ms": millis(self.worst_case),
            "earliest": self.walk_json(&self.earliest),
            "latest": self.walk_json(&self.latest),
        })
    }

    fn walk_json(&self, walk: &[Step]) -> Value {
        let step = |step: &Step| {
            json!({
                "attempt": step.number,
                "wait_ms": millis(step.wait),
                "starts_at": step.starts_at,
                "since_start_ms": millis(step.starts_at.since(self.start)),
                "pulled_forward": step.timing == Timing::PulledForward,
            })
        };
        let dead = death(walk).map(|dead| json!({"at": dead.at, "reason": dead.reason, "rule": dead.rule}));
        json!({"attempts": walk.iter().map(step).collect::<Vec<_>>(), "dead": dead})
    }
}

/// How a walk ends; one without an attempt does not.
struct Death {
    at: Timestamp,
    reason: Reason,
    rule: &'static str,
}

fn death(walk: &[Step]) -> Option<Death> {
    let last = walk.last()?;
    match last.decision.action {
        Action::Dead(reason) => Some(Death { at: last.ends_at, reason, rule: last.decision.chosen_by }),
        Action::Acknowledge | Action::RetryAt(_) => None,
    }
}

fn number((earliest, latest): &Pair<'_>) -> String {
    earliest.or(*latest).map(|step| step.number.to_string()).unwrap_or_default()
}

fn wait(step: Option<&Step>) -> String {
    match step.map(|step| (step.timing, step.wait)) {
        None | Some((Timing::First, _)) => NONE.to_owned(),
        Some((Timing::Scheduled, wait)) => words(wait),
        Some((Timing::PulledForward, wait)) => format!("{} (RET-6)", words(wait)),
    }
}

/// One row for attempts that follow each other with the same waits.
fn folded(run: &[Pair<'_>]) -> Row {
    let [first, last] = [run.first(), run.last()].map(|pair| pair.map(number).unwrap_or_default());
    let waits = run.first().map_or((None, None), |pair| *pair);
    [format!("{first} to {last}"), wait(waits.0), wait(waits.1), "..".to_owned(), "..".to_owned()]
}
