//! Events from flags or from lines, parsed as `deliver` parses them.
//!
//! Owns: [`Event`], and telling which line is none. Must not: send.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use lapse_local::driver;
use lapse_policy::message::{MAX_MESSAGE_BYTES, Message};
use lapse_policy::names::DeliveryKey;
use lapse_policy::timestamp::Timestamp;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::EventFlags;
use crate::commands::{read_input, say, usage};
use crate::span::When;

/// Whether events have a time at which they are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WithDue {
    /// They are for now.
    No,
    /// This one, by a flag.
    At(Timestamp),
    /// Each has its own, as the member `due` of its line.
    InLine,
}

/// An event that may be sent.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// Its delivery.
    pub(super) key: DeliveryKey,
    /// The message, as it was written.
    pub(super) body: Arc<str>,
    /// When it is due, if it is for later.
    pub(super) due: Option<Timestamp>,
    line: Option<usize>,
}

impl Event {
    /// Where it stood, for an error.
    pub(super) fn place(&self) -> String {
        self.line.map(|line| format!("line {line}: ")).unwrap_or_default()
    }
}

/// Where events come from.
#[derive(Debug)]
pub(super) struct Source {
    lines: Vec<(Option<usize>, String)>,
    due: WithDue,
}

impl Source {
    /// Flags, or the lines of a file.
    pub(super) fn of(flags: &EventFlags, due: WithDue, now: Timestamp) -> Result<Self> {
        if let Some(path) = &flags.file {
            let text = read_input(path).with_context(|| format!("cannot read --file {}", path.display()))?;
            let text = String::from_utf8(text).map_err(|_| usage("--file must be UTF-8"))?;
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            return Ok(Self { lines: lines.map(|(n, line)| (Some(n + 1), line.to_owned())).collect(), due });
        }
        let deadline = flags.deadline.as_deref().map(|text| when("--deadline", text, now)).transpose()?;
        let text = |flag: &Option<String>| flag.clone().unwrap_or_default();
        if serde_json::from_str::<IgnoredAny>(&text(&flags.payload)).is_err() {
            return Err(usage("--payload must be JSON"));
        }
        let occurred_at = if let WithDue::At(due) = due { due } else { now };
        let (id, destination, kind) = (text(&flags.id), text(&flags.destination), text(&flags.kind));
        let event = driver::Event { id, destination, kind, occurred_at, deadline, payload: text(&flags.payload) };
        let body = event.body();
        Message::parse(&body).map_err(|error| usage(&format!("--{}: {}", error.field, error.problem)))?;
        Ok(Self { lines: vec![(None, body)], due })
    }

    /// The events, and how many lines are none; each of these is told.
    pub(super) fn read(&self) -> (Vec<Event>, usize) {
        let (mut events, mut bad) = (Vec::with_capacity(self.lines.len()), 0);
        for (line, body) in &self.lines {
            match event(*line, body, self.due) {
                Ok(event) => events.push(event),
                Err(problem) => {
                    bad += 1;
                    say(&format!("{}{problem}", line.map(|line| format!("line {line}: ")).unwrap_or_default()));
                }
            }
        }
        (events, bad)
    }
}

fn event(line: Option<usize>, body: &str, due: WithDue) -> Result<Event, String> {
    let message = Message::parse(body).map_err(|error| format!("{} {}", error.field, error.problem))?;
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(format!("the message has {} bytes; at most {MAX_MESSAGE_BYTES} are accepted", body.len()));
    }
    let due = match due {
        WithDue::No => None,
        WithDue::At(due) => Some(due),
        WithDue::InLine => Some(due_of(body)?),
    };
    Ok(Event { key: message.key, body: body.into(), due, line })
}

fn due_of(body: &str) -> Result<Timestamp, String> {
    let object: Value = serde_json::from_str(body).map_err(|_| "no JSON object".to_owned())?;
    let due = object["due"].as_str().and_then(|text| Timestamp::parse(text).ok());
    due.ok_or_else(|| "due must be an RFC 3339 date-time".to_owned())
}

/// An instant that a flag gives.
pub(super) fn when(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    Ok(When::parse(text).map_err(|error| usage(&format!("{flag} {error}")))?.seen_from(now))
}
