//! What the use cases need of the world, as traits over the words of this crate.
//!
//! Owns: the seams between rules and adapters; a fake and the real adapter of each pass one suite.
//! Must not: name an AWS type. The futures need not be `Send`: a sandbox runs one invocation at a time.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::classifier::Outcome;
use crate::clock::{Clocks, Write};
use crate::destination::Destination;
use crate::lanes::Lane;
use crate::ledger::Record;
use crate::names::{DeliveryKey, DestinationName, EventId};
use crate::schedule::{Origin, RowKey};
use crate::timestamp::Timestamp;

/// A store or a queue could not be used: what was asked may or may not have happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {cause}")]
pub struct Unavailable {
    /// What was tried, such as `UpdateItem limits`.
    pub operation: &'static str,
    /// The error with its causes.
    pub cause: String,
}

/// Time.
pub trait Clock {
    /// Now, by this sandbox's clock.
    fn now(&self) -> Timestamp;
    /// Returns at that instant or soon after it, never before.
    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()>;
}

/// Chance.
pub trait Chance {
    /// A number from 0 to 1, for jitter.
    fn draw(&self) -> f64;
    /// A token that no one else has.
    fn token(&self) -> String;
}

/// One conditional write of the ledger (LED-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerWrite {
    /// Put if there is none.
    Insert(Record),
    /// Replace if the stored version is one less than this record's.
    Swap(Record),
}

/// What became of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is stored.
    Stored,
    /// Its condition did not hold.
    Refused,
    /// It was throttled, or failed otherwise: it is not stored, and may be tried again.
    NotStored,
    /// It may be stored.
    Unknown,
}

/// The ledger, batch-shaped (LED-9).
pub trait Ledger {
    /// Strongly consistent reads of any number of records.
    fn read(&self, keys: &[DeliveryKey]) -> impl Future<Output = Result<HashMap<DeliveryKey, Record>, Unavailable>>;
    /// Conditional writes of different keys, at most 25, each answered on its own, in order. An error means that
    /// each of them may be stored.
    fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> impl Future<Output = Result<Vec<Written>, Unavailable>>;
}

/// The answer of the limiter's store to a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockAnswer {
    /// Done; the item afterwards.
    Done(Clocks),
    /// The condition did not hold; the item as it is (absent: the default).
    Refused(Clocks),
}

/// The limiter's store: a clock item per destination.
pub trait Limits {
    /// One conditional write.
    fn write(
        &self,
        destination: &DestinationName,
        write: &Write,
    ) -> impl Future<Output = Result<ClockAnswer, Unavailable>>;
    /// One strongly consistent read (LIM-9); absent is the default.
    fn read(&self, destination: &DestinationName) -> impl Future<Output = Result<Clocks, Unavailable>>;
}

/// The lanes of destinations (LAN-1).
pub trait Lanes {
    /// One strongly consistent read of all that are held, and of some whose lease is over.
    fn read(&self, destination: &DestinationName) -> impl Future<Output = Result<Vec<Lane>, Unavailable>>;
    /// Takes a lane if there is none of that number, or it yields to this owner ([`Lane::yields_to`]). Whether it is
    /// theirs now: asked twice, the answer is the same.
    fn take(
        &self,
        destination: &DestinationName,
        lane: &Lane,
        now: Timestamp,
    ) -> impl Future<Output = Result<bool, Unavailable>>;
    /// Gives a lane back. One that someone else holds by now, or nobody, stays as it is.
    fn release(&self, destination: &DestinationName, lane: &Lane) -> impl Future<Output = Result<(), Unavailable>>;
}

/// The destinations' rows.
pub trait Destinations {
    /// One strongly consistent read of a row.
    fn read(
        &self,
        destination: &DestinationName,
    ) -> impl Future<Output = Result<Option<Map<String, Value>>, Unavailable>>;
}

/// One HTTP request to be made.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// To whom.
    pub destination: Arc<Destination>,
    /// The event id: `webhook-id` and `Idempotency-Key`.
    pub id: EventId,
    /// The payload's own bytes.
    pub payload: Arc<str>,
    /// 1 for the first request of this delivery's epoch.
    pub number: u32,
    /// When it starts: `webhook-timestamp`.
    pub at: Timestamp,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// For the classifier.
    pub outcome: Outcome,
    /// The error, or the start of the answer's body, for the operator: at most 512 bytes, control
    /// characters escaped (SEC-3).
    pub excerpt: Option<String>,
}

/// The HTTP sender.
pub trait Sender {
    /// Makes one request and waits for its end, within the destination's timeout. Never follows redirects.
    fn send(&self, attempt: &Attempt) -> impl Future<Output = Sent>;
}

/// A message to be sent to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The body.
    pub body: Arc<str>,
    /// The queue's group for fair queues: the destination.
    pub group: Option<DestinationName>,
    /// `DelaySeconds`, 0 to 900.
    pub delay_seconds: i32,
    /// Whether a record exists that is to be read first: a hint (LED-10).
    pub origin: Origin,
}

/// Whether a queue took one entry of a batch call (ACK-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It did.
    Yes,
    /// It refused this entry for good, as the sender's fault.
    Never(String),
    /// It did not take it, or may not have.
    No(String),
}

/// Sending to one queue.
pub trait Outbox {
    /// Sends any number of messages, each answered on its own, in order.
    fn send(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Accepted>>;
}

/// Hiding received messages of one queue.
pub trait Visibility {
    /// Sets how long each message, named by its receipt handle, stays hidden; each answered on its own.
    fn hide(&self, messages: &[(String, i32)]) -> impl Future<Output = Vec<Accepted>>;
}

/// A row of the schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// When and what.
    pub key: RowKey,
    /// The message's body.
    pub body: Arc<str>,
    /// Whose it is.
    pub origin: Origin,
}

/// A row as it is stored: its key may be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRow {
    /// The sort key as it is.
    pub due: String,
    /// The body, if there is one.
    pub body: Option<Arc<str>>,
    /// Whose it is.
    pub origin: Origin,
}

/// A page of due rows, the earliest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows.
    pub rows: Vec<StoredRow>,
    /// Where the next page starts, if there is one.
    pub next: Option<String>,
}

/// Parking: the schedule as `deliver` uses it.
pub trait Parking {
    /// Puts rows, each answered on its own, in order. Putting the same row twice leaves one.
    fn put(&self, rows: &[Row]) -> impl Future<Output = Vec<Result<(), Unavailable>>>;
}

/// The schedule as `expiry` uses it.
pub trait Schedule {
    /// Due rows of one shard after `from`, at most a page.
    fn due(&self, shard: u32, until: &str, from: Option<&str>) -> impl Future<Output = Result<Page, Unavailable>>;
    /// Deletes rows that were sent, by shard and sort key.
    fn delete(&self, shard: u32, due: &[String]) -> impl Future<Output = Result<(), Unavailable>>;
    /// Moves a row to where it is not tried again (EMT-4).
    fn set_aside(&self, shard: u32, row: &StoredRow, reason: &str) -> impl Future<Output = Result<(), Unavailable>>;
}
