//! The event source mapping and Lambda: batches of what is visible, to as many sandboxes as the concurrency allows.
//!
//! Owns: who polls when, and what becomes of a batch. Must not: know deliveries.
//! As documented: batches of up to 10 without a window, partial responses, and a batch that fails as a whole stays
//! hidden until its visibility ends. Left out: the ramp from five concurrent batches, cold starts, crashes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use lapse_deliver::batch::deliver;
use lapse_deliver::world::World as _;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;

use super::chance::{Dice, Span};
use super::queue::Queue;
use super::sandbox::Sandbox;
use super::time::{Time, first};

/// Messages of one batch (infra/contract.json).
const BATCH: usize = 10;
/// The timeout of `deliver` (infra/contract.json).
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// From a message's being visible to its being in a function's hands.
const POLL: Span = Span(2, 15);

/// A handle to one mapping.
#[derive(Clone)]
pub struct Mapping(Rc<Inner>);

struct Inner {
    time: Time,
    dice: Dice,
    queue: Queue,
    workers: usize,
    /// The one that was used last is used next, as Lambda does.
    idle: RefCell<Vec<Rc<Sandbox>>>,
    polling: Cell<usize>,
    stalled_until: Cell<Timestamp>,
    counts: Cell<Invocations>,
}

/// What a mapping has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Invocations {
    /// Invocations.
    pub all: u64,
    /// Of those, ended by the function's timeout.
    pub timed_out: u64,
    /// The most at any one time.
    pub most_at_once: usize,
    /// The sum of their lengths, in ms.
    pub busy_ms: u64,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} of {} at work)", self.at_work(), self.0.workers)
    }
}

impl Mapping {
    /// Starts to poll the queue for these sandboxes.
    #[must_use]
    pub fn start(time: &Time, dice: Dice, queue: Queue, sandboxes: Vec<Rc<Sandbox>>) -> Self {
        let mapping = Self(Rc::new(Inner {
            time: time.clone(),
            dice,
            queue,
            workers: sandboxes.len(),
            idle: RefCell::new(sandboxes),
            polling: Cell::new(0),
            stalled_until: Cell::new(Timestamp::EPOCH),
            counts: Cell::default(),
        }));
        time.spawn(mapping.clone().dispatch());
        mapping
    }

    /// No worker takes a message before then; those at work go on.
    pub fn stall_until(&self, end: Timestamp) {
        self.0.stalled_until.set(end);
        self.0.queue.changed().raise();
    }

    /// How many workers poll or run.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.0.workers - self.0.idle.borrow().len()
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> Invocations {
        self.0.counts.get()
    }

    async fn dispatch(self) {
        let changed = self.0.queue.changed();
        loop {
            let now = self.0.time.now();
            let stalled = Some(self.0.stalled_until.get()).filter(|end| *end > now);
            while stalled.is_none() && self.0.polling.get() * BATCH < self.0.queue.visible() {
                let Some(sandbox) = self.0.idle.borrow_mut().pop() else { break };
                self.0.polling.set(self.0.polling.get() + 1);
                self.0.time.spawn(self.clone().work(sandbox));
            }
            let next = stalled.or_else(|| self.0.queue.next_visible());
            let next = self.0.time.sleep_until(next.unwrap_or(Timestamp::FAR_FUTURE));
            first(changed.raised(), next).await;
        }
    }

    async fn work(self, sandbox: Rc<Sandbox>) {
        self.0.time.pass(self.0.dice.span(POLL)).await;
        self.0.polling.set(self.0.polling.get() - 1);
        let batch = self.0.queue.receive(BATCH);
        if !batch.is_empty() {
            let started = self.0.time.now();
            let ends_at = sandbox.clock().now().plus(FUNCTION_TIMEOUT);
            // Boxed: the whole of a batch is one deeply nested future.
            let work = Box::pin(deliver(&*sandbox, &sandbox.memory, &batch, ends_at));
            let answer = first(work, self.0.time.pass(FUNCTION_TIMEOUT)).await;
            self.count(started, answer.is_none());
            if let Some(answer) = answer {
                let done = batch.iter().enumerate().filter(|(index, _)| !answer.remaining.contains(index));
                self.0.queue.delete(done.map(|(_, received)| received.receipt_handle.as_str()));
            }
        }
        self.0.idle.borrow_mut().push(sandbox);
        self.0.queue.changed().raise();
    }

    fn count(&self, started: Timestamp, timed_out: bool) {
        let mut counts = self.0.counts.get();
        counts.all += 1;
        counts.timed_out += u64::from(timed_out);
        counts.most_at_once = counts.most_at_once.max(self.at_work());
        let took = self.0.time.now().since(started);
        counts.busy_ms += u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.0.counts.set(counts);
    }
}
