//! `lapse explain`: what would be done after an outcome, decided by the code that decides in `deliver`.
//!
//! Owns: the command's forms, and a decision as JSON. Must not: decide.

pub mod context;
pub mod flags;
pub mod policy;
pub mod schedule;
pub mod words;

use std::process::ExitCode;

use anyhow::Result;
use lapse_aws::system::SystemClock;
use lapse_policy::classifier::Effect;
use lapse_policy::decision::{Action, Attempt, Counting, Decision};
use lapse_policy::ports::Clock as _;
use serde_json::{Map, Value, json};

use crate::commands::{answer_lines, show};
use crate::jsonl::{self, BadLine};
use context::Context;
use flags::Flags;
use policy::Policy;
use schedule::Forecast;

/// Answers one line.
pub fn answer_line(line: &str) -> Result<String, BadLine> {
    jsonl::answer(line, |row| Context::of(&row).map(|context| told(&context.decide())))
}

/// Runs the command.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    if flags.jsonl {
        return answer_lines(answer_line);
    }
    let now = flags.now.unwrap_or_else(|| SystemClock.now());
    let policy = flags.destination.as_deref().map_or_else(|| Ok(Policy::default()), Policy::read)?;
    let deadline = flags.deadline.map_or_else(|| now.plus(policy.max_age), |when| when.seen_from(now));
    let Some(outcome) = flags.outcome(now) else {
        let forecast = Forecast::of(&policy, now, deadline);
        show(flags.json, &forecast.json(), &forecast.lines())?;
        return Ok(ExitCode::SUCCESS);
    };
    let (attempts, streak, unknown_before) = (flags.attempts, flags.streak, flags.unknown_before);
    let attempt = Attempt { attempts, streak, unknown_before, deadline, now, draw: flags.jitter };
    let context = Context { outcome, policy, attempt };
    let decision = context.decide();
    show(flags.json, &Value::Object(told(&decision)), &words::lines(&context, &decision))?;
    Ok(ExitCode::SUCCESS)
}

/// A decision as an object: what does not apply is left out.
fn told(decision: &Decision) -> Map<String, Value> {
    let (action, retry_at, reason) = match decision.action {
        Action::Acknowledge => ("ack", None, None),
        Action::RetryAt(at) => ("retry", Some(at), None),
        Action::Dead(reason) => ("dead", None, Some(reason)),
    };
    let fields = [
        ("class", Some(json!(decision.class))),
        ("action", Some(json!(action))),
        ("retry_at", retry_at.map(|at| json!(at))),
        ("pause_until", decision.pause_until.map(|until| json!(until))),
        ("reason", reason.map(|reason| json!(reason))),
        ("advice", reason.map(|reason| json!(reason.advice()))),
        ("counted", Some(json!(decision.counting == Counting::Counted))),
        ("outcome_unknown", Some(json!(decision.effect == Effect::Unknown))),
        ("rule", Some(json!(decision.rule))),
        ("chosen_by", Some(json!(decision.chosen_by))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
