//! DLQ-2: what `triage` does with a message on `failures`.
//!
//! Owns: the judgement by body and times alone. Must not: look at receive counts, ids or attributes.

use std::time::Duration;

use crate::ledger::{Record, State};
use crate::message::{Letter, Mark};
use crate::timestamp::Timestamp;

/// A letter sent this much after its death was redriven (DLQ-2), unless configured otherwise.
pub const REDRIVE_AFTER: Duration = Duration::from_secs(60);
/// How long a message that SQS itself moved waits before it is delivered again: its sender may still run.
pub const UNMARKED_DELAY: Duration = Duration::from_secs(60);

/// What is done with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Write the disposition if the record is Dead in this epoch, then hand the message to SQS for `dead-letters`.
    Fresh(Option<u32>),
    /// Send it unchanged to `deliveries`, then acknowledge.
    Redriven,
    /// Send it to `deliveries` with a delay, then acknowledge.
    Unmarked,
    /// Hand it to SQS for `dead-letters`.
    Unreadable,
}

/// Judges a letter by its mark and by when it was sent to `failures`.
#[must_use]
pub fn judge(letter: &Letter, sent_at: Timestamp, redrive_after: Duration) -> Verdict {
    match letter {
        Letter::Marked { mark: Mark { epoch, at }, .. } => {
            if sent_at.since(*at) < redrive_after {
                Verdict::Fresh(*epoch)
            } else {
                Verdict::Redriven
            }
        }
        Letter::Unmarked(_) => Verdict::Unmarked,
        Letter::Unreadable => Verdict::Unreadable,
    }
}

/// What a fresh letter's record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is Dead in the letter's epoch: write what the operator reads.
    Write,
    /// It was delivered after all: the letter is void.
    Delivered,
    /// It moved on, or is gone: nothing to write, the letter stands.
    None,
}

/// Judges a fresh letter by its record.
#[must_use]
pub fn disposition(record: Option<&Record>, epoch: Option<u32>) -> Disposition {
    match record {
        Some(record) if record.state == State::Delivered => Disposition::Delivered,
        Some(record) if record.state == State::Dead && Some(record.epoch) == epoch => Disposition::Write,
        Some(_) | None => Disposition::None,
    }
}
