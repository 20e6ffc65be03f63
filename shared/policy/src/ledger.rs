//! LED-1 to LED-8: the ledger's record and the moves that it may make.
//!
//! Owns: [`Record`], [`standing`], and every transition. A store only knows "absent" and "version unchanged".
//! Must not: know tables or queues.

use std::time::Duration;

use crate::booking::INLINE;
use crate::classifier::Effect;
use crate::decision::{Counting, Decision};
use crate::message::Mark;
use crate::reason::Reason;
use crate::timestamp::{Micros, Timestamp};

/// A lease outlives the invocation's deadline by this: no one else sends while we might (LED-4).
pub const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// Crashes in a row at which a delivery is dead (LED-4).
pub const POISON: u32 = 3;
/// How long a record is kept after all that could need it (LED-8): a queue's retention of 14 days and one more.
pub const KEPT: Duration = Duration::from_hours(15 * 24);
/// How much of an error or an answer a record keeps.
pub const EXCERPT_BYTES: usize = 512;

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A worker holds it under a lease.
    Sending,
    /// It waits until `next_at`.
    Waiting,
    /// The receiver has decided.
    Delivered,
    /// A person is needed.
    Dead,
}

impl State {
    /// The word in the record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Sending, Self::Waiting, Self::Delivered, Self::Dead].into_iter().find(|state| state.name() == name)
    }
}

/// What is known of one delivery. No bodies: under 1 KB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Counts writes; every write compares it.
    pub version: u64,
    /// Where it stands.
    pub state: State,
    /// Counted attempts in this epoch.
    pub attempts: u32,
    /// Throttled answers in this epoch.
    pub throttles: u32,
    /// Crashes in a row.
    pub crashes: u32,
    /// Made per claim; a completion leaves it (LED-3).
    pub token: String,
    /// Until when the worker that sends holds it.
    pub lease: Option<Timestamp>,
    /// When to wake.
    pub next_at: Option<Timestamp>,
    /// Its planned time, in plan time (LIM-4).
    pub planned_at: Option<Micros>,
    /// Whether the receiver may have acted.
    pub unknown_outcome: bool,
    /// Why it is dead.
    pub reason: Option<Reason>,
    /// The last status that was answered.
    pub last_status: Option<u16>,
    /// What the last attempt came to, up to [`EXCERPT_BYTES`].
    pub last_error: Option<String>,
    /// Counts redrives, from 1.
    pub epoch: u32,
    /// The deadline of an epoch that a redrive began.
    pub redrive_until: Option<Timestamp>,
    /// The epoch whose letter `triage` has seen.
    pub triaged_epoch: Option<u32>,
    /// When it was first received.
    pub first_at: Timestamp,
    /// When it was last written.
    pub last_at: Timestamp,
    /// When DynamoDB may delete it, in epoch seconds (LED-8).
    pub ttl: i64,
}

/// What a record says about the message at hand (LED-4, LED-5, LED-10, DLQ-1, DLQ-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// No record: a first receive.
    Absent,
    /// Waiting, and its time has come (or comes within [`INLINE`]).
    Due,
    /// Waiting until later.
    NotYet(Timestamp),
    /// Someone else is sending until then at most.
    Busy(Timestamp),
    /// Its worker's lease is over: a crash.
    Crashed,
    /// Delivered: acknowledge.
    Delivered,
    /// Dead, and its letter is not seen by `triage` yet: send it again.
    LetterMissing,
    /// Dead, and its letter is there: acknowledge this copy.
    LetterThere,
    /// Dead, and this message is its redrive.
    Redriven,
}

/// Judges a message by its record.
#[must_use]
pub fn standing(record: Option<&Record>, mark: Option<Mark>, now: Timestamp) -> Standing {
    let Some(record) = record else { return Standing::Absent };
    match record.state {
        State::Delivered => Standing::Delivered,
        State::Dead if mark.and_then(|m| m.epoch) == Some(record.epoch) => Standing::Redriven,
        State::Dead if record.triaged_epoch == Some(record.epoch) => Standing::LetterThere,
        State::Dead => Standing::LetterMissing,
        State::Sending => match record.lease {
            Some(lease) if lease > now => Standing::Busy(lease),
            Some(_) | None => Standing::Crashed,
        },
        State::Waiting => match record.next_at {
            Some(next_at) if next_at > now.plus(INLINE) => Standing::NotYet(next_at),
            Some(_) | None => Standing::Due,
        },
    }
}

/// A move that LED-2 does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a delivery may not go from {from:?} to {to:?}")]
pub struct IllegalMove {
    from: State,
    to: State,
}

/// Why a record moves: only a redrive leaves Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Work,
    Redrive,
}

fn check(from: State, to: State, cause: Cause) -> Result<(), IllegalMove> {
    use State::{Dead, Delivered, Sending, Waiting};
    let allowed = match (from, to) {
        (Sending | Waiting, Sending | Waiting | Dead) => cause == Cause::Work,
        (Sending | Waiting | Dead, Delivered) => true,
        // A redriven delivery that must wait for a place keeps its planned time like any other.
        (Dead, Sending | Waiting) => cause == Cause::Redrive,
        (Dead, Dead) | (Delivered, Sending | Waiting | Delivered | Dead) => false,
    };
    if allowed { Ok(()) } else { Err(IllegalMove { from, to }) }
}

/// What every write needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Now.
    pub now: Timestamp,
    /// The deadline that holds.
    pub deadline: Timestamp,
}

impl Record {
    /// The record of a first receive, before it is given a state.
    #[must_use]
    pub fn first(token: &str, epoch: u32, moment: Moment) -> Self {
        Self {
            version: 0,
            state: State::Waiting,
            attempts: 0,
            throttles: 0,
            crashes: 0,
            token: token.to_owned(),
            lease: None,
            next_at: None,
            planned_at: None,
            unknown_outcome: false,
            reason: None,
            last_status: None,
            last_error: None,
            epoch,
            redrive_until: None,
            triaged_epoch: None,
            first_at: moment.now,
            last_at: moment.now,
            ttl: ttl(None, moment),
        }
    }

    /// An expired lease was a crash, whatever becomes of the delivery next (LED-4).
    fn moved(&self, to: State, moment: Moment) -> Result<Self, IllegalMove> {
        check(self.state, to, Cause::Work)?;
        let crashed = self.lease.is_some_and(|lease| lease <= moment.now);
        Ok(Self {
            version: self.version + 1,
            state: to,
            crashes: self.crashes + u32::from(crashed),
            lease: None,
            next_at: None,
            planned_at: None,
            unknown_outcome: self.unknown_outcome || crashed,
            last_at: moment.now,
            ttl: ttl(self.redrive_until, moment),
            ..self.clone()
        })
    }

    /// Claims it for sending; refused while another worker's lease lasts (LED-4).
    pub fn claimed(&self, token: &str, lease: Timestamp, moment: Moment) -> Result<Self, IllegalMove> {
        if self.lease.is_some_and(|live| live > moment.now) {
            return Err(IllegalMove { from: self.state, to: State::Sending });
        }
        Ok(Self {
            token: token.to_owned(),
            lease: Some(lease),
            // Kept for the case that the gate refuses it.
            planned_at: self.planned_at,
            ..self.moved(State::Sending, moment)?
        })
    }

    /// Whether it has crashed once too often (LED-4); one that is found under an expired lease has once more than
    /// it says.
    #[must_use]
    pub fn is_poison(&self) -> bool {
        self.crashes + u32::from(self.state == State::Sending) >= POISON
    }

    /// Lets it wait until `next_at`, with the planned time that it has, if any (LIM-4). `token` is this
    /// writer's: a lost reply is told from a lost race by it (LED-3).
    pub fn waiting(
        &self,
        token: &str,
        next_at: Timestamp,
        planned_at: Option<Micros>,
        moment: Moment,
    ) -> Result<Self, IllegalMove> {
        let next_at = Some(next_at);
        let token = token.to_owned();
        Ok(Self { token, next_at, planned_at, ..self.moved(State::Waiting, moment)? })
    }

    /// Starts the epoch of a redrive (DLQ-3); the caller then claims it or lets it wait.
    pub fn redriven(&self, until: Timestamp, moment: Moment) -> Result<Self, IllegalMove> {
        check(self.state, State::Sending, Cause::Redrive)?;
        Ok(Self {
            // Not a write of its own: the claim that follows counts it.
            state: State::Waiting,
            epoch: self.epoch + 1,
            attempts: 0,
            throttles: 0,
            crashes: 0,
            reason: None,
            redrive_until: Some(until),
            ttl: ttl(Some(until), moment),
            ..self.clone()
        })
    }

    /// Ends it for a person. `error` is what the operator reads.
    pub fn dead(
        &self,
        token: &str,
        reason: Reason,
        error: Option<String>,
        moment: Moment,
    ) -> Result<Self, IllegalMove> {
        Ok(Self {
            token: token.to_owned(),
            reason: Some(reason),
            last_error: error.map(|e| excerpt(&e)).or_else(|| self.last_error.clone()),
            ..self.moved(State::Dead, moment)?
        })
    }

    /// What a completed attempt makes of it: the counts, the outcome, and no crash any more.
    #[must_use]
    pub fn attempted(&self, decision: &Decision, status: Option<u16>, error: Option<String>) -> Self {
        let counted = u32::from(decision.counting == Counting::Counted);
        Self {
            attempts: self.attempts + counted,
            throttles: self.throttles + 1 - counted,
            crashes: 0,
            // However late it is stored, this worker did not crash.
            lease: None,
            unknown_outcome: decision.effect == Effect::Unknown,
            last_status: status,
            last_error: error.map(|e| excerpt(&e)),
            ..self.clone()
        }
    }

    /// Records the receiver's decision. Never refused but for Delivered: a 2xx is a fact (LED-6).
    pub fn delivered(&self, moment: Moment) -> Result<Self, IllegalMove> {
        Ok(Self {
            crashes: 0,
            unknown_outcome: false,
            reason: None,
            last_error: None,
            ..self.moved(State::Delivered, moment)?
        })
    }

    /// The deadline that holds: the event's, or `redrive_until` in an epoch that a redrive began.
    #[must_use]
    pub fn deadline(&self, of_event: Timestamp) -> Timestamp {
        self.redrive_until.unwrap_or(of_event)
    }
}

fn ttl(redrive_until: Option<Timestamp>, moment: Moment) -> i64 {
    let latest = moment.deadline.max(moment.now).max(redrive_until.unwrap_or(Timestamp::EPOCH));
    latest.plus(KEPT).seconds()
}

/// The start of a text, at most [`EXCERPT_BYTES`] long, cut between characters.
#[must_use]
pub fn excerpt(text: &str) -> String {
    text[..text.floor_char_boundary(EXCERPT_BYTES)].to_owned()
}
