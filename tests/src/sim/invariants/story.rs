//! What is known of one event for one destination: where its copies are, and what its receiver has said.
//!
//! Owns: [`Story`], and which body belongs to which. Must not: judge.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lapse_policy::classifier::StatusLists;
use lapse_policy::destination::{Destination, MAX_AGE};
use lapse_policy::ledger::{Record, State};
use lapse_policy::message::Message;
use lapse_policy::names::DeliveryKey;
use lapse_policy::timestamp::Timestamp;
use serde_json::Value;

use crate::fleet::steps::Place;

/// Whose story it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A delivery's.
    Delivery(DeliveryKey),
    /// That of a body which is no message.
    Malformed(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(key) => key.fmt(f),
            Self::Malformed(body) => write!(f, "malformed {body:?}"),
        }
    }
}

/// What is known of a destination.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Whether there is a row.
    pub exists: bool,
    /// `max_attempts`.
    pub max_attempts: u32,
    /// `max_age`.
    pub max_age: Duration,
    /// Its own reading of statuses.
    pub statuses: StatusLists,
    /// Whether 202 is no decision.
    pub require_decision: bool,
    /// The most lanes that someone may still believe in, and until when.
    pub lanes: Option<(u32, Timestamp)>,
    /// The lanes by its row.
    pub max_in_flight: Option<u32>,
    /// How often someone found lanes held.
    pub lane_waits: u64,
    /// How often a pause was set or made longer.
    pub pauses: u64,
}

impl Rules {
    /// Those of a row; the counts stay.
    pub fn set(&mut self, destination: &Destination) {
        self.exists = true;
        self.max_attempts = destination.retry.max_attempts.get();
        self.max_age = destination.max_age;
        self.statuses = destination.statuses.clone();
        self.require_decision = destination.require_decision;
        self.max_in_flight = destination.max_in_flight.map(NonZeroU32::get);
    }

    /// Whether this status ends a delivery as delivered (CLS-1, CLS-2, CLS-10).
    #[must_use]
    pub fn delivers(&self, status: u16) -> bool {
        let listed = self.statuses.transient.contains(&status) || self.statuses.permanent.contains(&status);
        let decided = (200..300).contains(&status) && !(status == 202 && self.require_decision);
        self.statuses.delivered.contains(&status) || (decided && !listed)
    }
}

/// A wait that a receiver asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Not before then, in true time.
    pub until: Timestamp,
    /// Whether a record was written since: the ask is known then, whatever crashes.
    pub known: bool,
}

/// What is known of one event for one destination.
#[derive(Debug, Default)]
pub struct Story {
    /// How many copies lie where.
    pub copies: BTreeMap<Place, i64>,
    /// The payload's bytes.
    pub payload: Option<Arc<str>>,
    /// The deadline by the event.
    pub deadline: Option<Timestamp>,
    /// Whether its sender heard that the receiver has decided.
    pub delivered: bool,
    /// Whether its producer took it back.
    pub cancelled: bool,
    /// Its record as it was written last.
    pub record: Option<Box<Record>>,
    /// The number of a request that is under way, and until when it may be.
    pub under_way: BTreeMap<u64, Timestamp>,
    /// What was asked for last.
    pub asked: Option<Ask>,
    /// Counted attempts of this epoch that were recorded.
    pub recorded: u32,
    /// Requests whose end was not recorded, in a row.
    pub unrecorded: u32,
    /// Whether the last request that ended counts as an attempt, until that is recorded.
    pub counts: Option<bool>,
    /// How often an operator moved one of its letters.
    pub redrives: u32,
    /// Receives so far.
    pub receives: u64,
    /// Requests so far.
    pub requests: u64,
    /// Planned times that took the place of others so far, and looks at a full plan.
    pub replans: u64,
    /// When it was first received.
    pub first_received: Option<Timestamp>,
    /// The most copies that there were at once.
    pub most_copies: u64,
    /// Counts of its destination when it was first seen: lane waits and pauses.
    pub before: (u64, u64),
}

impl Story {
    /// How many copies there are.
    #[must_use]
    pub fn alive(&self) -> i64 {
        self.copies.values().sum()
    }

    /// How it ended, in a word.
    #[must_use]
    pub fn end(&self) -> &'static str {
        let state = self.record.as_ref().map(|record| record.state);
        match state {
            _ if self.cancelled && self.requests == 0 => "cancelled",
            Some(State::Delivered) => "delivered",
            _ if self.delivered => "delivered_unrecorded",
            Some(State::Dead) => "dead",
            Some(State::Sending | State::Waiting) => "moved_by_sqs",
            None if self.copies.get(&Place::Aside).is_some_and(|n| *n > 0) => "set_aside",
            None => "malformed",
        }
    }
}

/// Whose body this is, and what it says.
#[must_use]
pub fn read(body: &str) -> (Key, Option<Message>) {
    match Message::parse(body) {
        Ok(message) => (Key::Delivery(message.key.clone()), Some(message)),
        Err(_) => (Key::Malformed(original(body)), None),
    }
}

/// A malformed body, whatever mark and wrapper it carries by now.
fn original(body: &str) -> String {
    let Ok(Value::Object(mut object)) = serde_json::from_str(body) else { return body.to_owned() };
    object.remove("dead");
    match object.get("malformed") {
        Some(Value::String(wrapped)) if object.len() == 1 => wrapped.clone(),
        _ => Value::Object(object).to_string(),
    }
}

/// The deadline by the event and its destination.
#[must_use]
pub fn deadline(message: &Message, rules: Option<&Rules>) -> Timestamp {
    let max_age = rules.filter(|rules| rules.exists).map_or(MAX_AGE, |rules| rules.max_age);
    message.deadline.unwrap_or_else(|| message.occurred_at.plus(max_age))
}
