//! One invocation: what its records share.
//!
//! Owns: the batch calls, the answers per message, the counts. Must not: decide anything about a delivery.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{
    Accepted, Chance as _, Clock as _, LedgerWrite, Outbox as _, Outgoing, Parking as _, Row, Unavailable,
    Visibility as _,
};
use lapse_policy::timestamp::Timestamp;

use crate::batcher::{Activity, Batcher};
use crate::commit::{Committed, WRITE_MOST, commit};
use crate::configuration::Configuration;
use crate::lane::Held;
use crate::limiter::{Limiter, Seen};
use crate::tally::{Counts, Tally};
use crate::world::World;

/// What a sandbox keeps between invocations.
#[derive(Debug, Default)]
pub struct Memory {
    /// Destinations.
    pub configuration: Configuration,
    /// Clock items.
    pub seen: Seen,
}

/// One invocation.
pub struct Run<'a, W: World> {
    /// The ports.
    pub world: &'a W,
    /// What the sandbox remembers.
    pub memory: &'a Memory,
    /// When the invocation ends, whatever still runs.
    pub ends_at: Timestamp,
    /// How long an invocation may take.
    pub function_timeout: Duration,
    /// Who is at work.
    pub activity: Activity,
    /// Ledger writes.
    pub ledger: Batcher<(DeliveryKey, LedgerWrite), Committed>,
    /// Messages to hide.
    pub hides: Batcher<(String, i32), Accepted>,
    /// Messages to send again.
    pub republishes: Batcher<Outgoing, Accepted>,
    /// Letters.
    pub letters: Batcher<Outgoing, Accepted>,
    /// Rows to park.
    pub parks: Batcher<Row, Result<(), Unavailable>>,
    /// Lanes that are held, or may be.
    pub held: RefCell<Vec<Held>>,
    /// The counts.
    pub tally: RefCell<Tally>,
    done: RefCell<Vec<bool>>,
}

/// Entries of one SQS batch call (SQS quota).
const QUEUE_MOST: usize = 10;

impl<'a, W: World> Run<'a, W> {
    /// An invocation with so many messages.
    pub fn new(world: &'a W, memory: &'a Memory, count: usize, ends_at: Timestamp, function_timeout: Duration) -> Self {
        Self {
            world,
            memory,
            ends_at,
            function_timeout,
            activity: Activity::default(),
            ledger: Batcher::new(WRITE_MOST),
            hides: Batcher::new(QUEUE_MOST),
            republishes: Batcher::new(QUEUE_MOST),
            letters: Batcher::new(QUEUE_MOST),
            parks: Batcher::new(WRITE_MOST),
            held: RefCell::default(),
            tally: RefCell::default(),
            done: RefCell::new(vec![false; count]),
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.world.clock().now()
    }

    /// The limiter.
    pub fn limiter(&self) -> Limiter<'a, W::Limits> {
        Limiter::new(self.world.limits(), &self.memory.seen)
    }

    /// A random span between two.
    pub fn between(&self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.world.chance().draw().clamp(0.0, 1.0))
    }

    /// Marks a message as done: it will be acknowledged.
    pub fn acknowledge(&self, index: usize) {
        if let Some(done) = self.done.borrow_mut().get_mut(index) {
            *done = true;
        }
    }

    /// Which messages stay in the queue: all that are not done.
    pub fn remaining(&self) -> Vec<usize> {
        self.done.borrow().iter().enumerate().filter(|(_, done)| !**done).map(|(index, _)| index).collect()
    }

    /// Changes a destination's counts.
    pub fn count(&self, destination: &DestinationName, change: impl FnOnce(&mut Counts)) {
        change(self.tally.borrow_mut().of(destination));
    }

    /// Runs `work` beside the batch calls, and stops at `until` whatever still runs (ACK-6).
    pub async fn drive(&self, work: impl Future<Output = ()>, until: Timestamp) {
        let (world, clock, activity) = (self.world, self.world.clock(), &self.activity);
        let calls = futures::future::join5(
            self.ledger.run(activity, clock, |writes| commit(world.ledger(), writes)),
            self.hides.run(activity, clock, |items: Vec<_>| async move { world.deliveries().hide(&items).await }),
            self.republishes.run(activity, clock, |items: Vec<_>| async move { world.deliveries().send(&items).await }),
            self.letters.run(activity, clock, |items: Vec<_>| async move { world.failures().send(&items).await }),
            self.parks.run(activity, clock, |items: Vec<_>| async move { world.parking().put(&items).await }),
        );
        let calls = pin!(calls);
        let work = pin!(work);
        let work = pin!(select(work, calls));
        let end = pin!(clock.sleep_until(until));
        match select(work, end).await {
            Either::Left(_) => {}
            Either::Right(_) => tracing::warn!("invocation_out_of_time"),
        }
    }
}
