//! What happens in the world, step by step, for whoever watches.
//!
//! Owns: the steps and the handle through which the parts tell them. Must not: judge; `sim::invariants` does.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use lapse_policy::clock::{Clocks, Write};
use lapse_policy::destination::Destination;
use lapse_policy::ledger::Record;
use lapse_policy::names::{DeliveryKey, DestinationName, EventId};
use lapse_policy::ports::Attempt;
use lapse_policy::timestamp::Timestamp;

use super::weather::Fault;

/// Where a copy of an event lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The queue `deliveries`.
    Deliveries,
    /// The queue `failures`.
    Failures,
    /// The queue `dead-letters`.
    DeadLetters,
    /// The table `schedule`.
    Schedule,
    /// Shard -1 of it: rows that cannot be sent.
    Aside,
}

/// Why a copy is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was acknowledged, or its row was deleted after it was sent.
    Done,
    /// SQS itself moved it.
    Moved,
    /// An operator moved it.
    Redriven,
    /// A producer took its row back (EMT-3).
    Cancelled,
    /// Its retention is over.
    Retention,
}

/// What the world did to a sandbox or a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It answered.
    Answered,
    /// It died.
    Crashed,
    /// It ran into its timeout.
    TimedOut,
    /// Its answer could not be read.
    Unreadable,
}

/// What becomes of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneStep {
    /// It is someone's now.
    Taken,
    /// It is free now.
    GivenBack,
    /// It is someone else's.
    Refused,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Step {
    /// A copy of an event was stored.
    Put(Place, Arc<str>),
    /// A copy was taken away for good.
    Gone(Place, Arc<str>, Why),
    /// A copy was handed out, for the n-th time.
    Received(Place, Arc<str>, u32),
    /// A copy was hidden for so many seconds.
    Hidden(Place, Arc<str>, i32),
    /// A record was written.
    Commit(DeliveryKey, Option<Box<Record>>, Box<Record>),
    /// TTL took a record away.
    Expired(DeliveryKey),
    /// A clock item was written: what it was, and what it is.
    Clock(DestinationName, Write, Box<[Clocks; 2]>),
    /// Someone saw that lanes of a destination are held.
    LaneHeld(DestinationName),
    /// A lane was taken or given back, by its number, or was not theirs to take or to give.
    Lane(DestinationName, u32, LaneStep),
    /// A request was started; the number names it.
    Started(u64, Box<Attempt>),
    /// The sender learned how it ended: the status, and the wait that was asked for in ms.
    Heard(u64, Option<u16>, Option<i64>),
    /// Nobody waits for its answer any more: its sender died.
    Orphaned(u64),
    /// A receiver has acted on a request as one that accepts it.
    Acted(DestinationName, EventId),
    /// The reference receiver answered a request with this status, a decision about it being stored or not.
    Told(EventId, u16, bool),
    /// A slot was released: whose, at which version, and whether it was paid for.
    Released(String, u64, bool),
    /// A reservation was paid.
    Paid(String),
    /// An invocation of a function began with so many messages, or a tick.
    Invoked(&'static str, usize),
    /// It ended.
    Returned(&'static str, Ended),
    /// A destination's row was put or taken away.
    Configured(DestinationName, Option<Arc<Destination>>),
    /// A pause was lifted.
    Resumed(DestinationName),
    /// An operator or a producer did something.
    Did(String),
    /// Something went wrong.
    Went(Fault, String),
}

/// Whoever watches.
pub trait Watcher {
    /// Sees a step at an instant of true time.
    fn see(&mut self, at: Timestamp, step: &Step);
}

/// A handle through which the parts tell what happens; nobody may be watching.
#[derive(Clone, Default)]
pub struct Eyes(Rc<RefCell<Option<Box<dyn Watcher>>>>);

impl fmt::Debug for Eyes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Eyes({})", if self.watched() { "open" } else { "closed" })
    }
}

impl Eyes {
    /// From now on this one watches.
    pub fn open(&self, watcher: Box<dyn Watcher>) {
        *self.0.borrow_mut() = Some(watcher);
    }

    /// Whether anybody watches.
    #[must_use]
    pub fn watched(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Tells a step, which is only made if somebody watches.
    pub fn see(&self, at: Timestamp, step: impl FnOnce() -> Step) {
        if let Some(watcher) = self.0.borrow_mut().as_mut() {
            watcher.see(at, &step());
        }
    }
}
