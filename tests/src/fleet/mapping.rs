//! The event source mapping and Lambda: batches of what is visible, to as many sandboxes as the concurrency allows.
//!
//! Owns: who polls when, and what becomes of a batch. Must not: know what a function does.
//! As documented: batches of up to 10 without a window, partial responses, a batch that fails as a whole or whose answer
//! cannot be read stays hidden until its visibility ends, and so does one that was received and throttled; the sandbox
//! that was used last is used next; one that died is replaced by a cold one. Left out: the ramp from five concurrent
//! batches.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;

use super::bugs::Bug;
use super::chance::{Dice, Span};
use super::lot::Lot;
use super::queue::Queue;
use super::steps::{Ended, Eyes, Step};
use super::time::{SandboxClock, Time, first};
use super::weather::{Fault, Weather};

/// Messages of one batch (infra/contract.json).
const BATCH: usize = 10;
/// The timeout of `deliver` and of `triage` (infra/contract.json).
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);
/// From a message's being visible to its being in a function's hands.
const POLL: Span = Span(2, 15);
/// A poller that got nothing, of a queue that has something: too many of its messages are in flight.
const STALLED: Duration = Duration::from_secs(1);
/// A cold start.
const COLD: Span = Span(100, 900);

/// What a batch comes to: the positions of the messages that stay.
pub type Handled<'a> = Pin<Box<dyn Future<Output = Vec<usize>> + 'a>>;

/// A function in one sandbox.
pub trait Function {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Its clock.
    fn clock(&self) -> &SandboxClock;
    /// Handles a batch.
    fn handle<'a>(&'a self, batch: &'a [Received], ends_at: Timestamp) -> Handled<'a>;
}

/// Starts a sandbox.
pub type ColdStart = Box<dyn Fn() -> Rc<dyn Function>>;

/// A handle to one mapping.
#[derive(Clone)]
pub struct Mapping(Rc<Inner>);

struct Inner {
    time: Time,
    dice: Dice,
    queue: Queue,
    full_batches: bool,
    workers: usize,
    lot: Lot,
    weather: Weather,
    eyes: Eyes,
    cold: ColdStart,
    /// The one that was used last is used next, as Lambda does.
    idle: RefCell<Vec<Rc<dyn Function>>>,
    polling: Cell<usize>,
    stalled_until: Cell<Timestamp>,
    counts: Cell<Invocations>,
}

/// What a mapping polls, and for whom.
pub struct Source {
    /// The queue.
    pub queue: Queue,
    /// Whether batches are as full as it allows.
    pub full_batches: bool,
    /// `MaximumConcurrency`.
    pub workers: usize,
    /// What may become of an invocation.
    pub lot: Lot,
    /// What may go wrong.
    pub weather: Weather,
    /// Whoever watches.
    pub eyes: Eyes,
    /// Starts a sandbox.
    pub cold: ColdStart,
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
    /// Starts to poll.
    #[must_use]
    pub fn start(time: &Time, dice: Dice, source: Source) -> Self {
        let Source { queue, full_batches, workers, lot, weather, eyes, cold } = source;
        let idle = RefCell::new((0..workers).map(|_| cold()).collect());
        let (polling, stalled_until, counts) = (Cell::new(0), Cell::new(Timestamp::EPOCH), Cell::default());
        let time = time.clone();
        let inner = Inner {
            time,
            dice,
            queue,
            full_batches,
            workers,
            lot,
            weather,
            eyes,
            cold,
            idle,
            polling,
            stalled_until,
            counts,
        };
        let mapping = Self(Rc::new(inner));
        mapping.0.time.spawn(mapping.clone().dispatch());
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

    async fn work(self, mut sandbox: Rc<dyn Function>) {
        self.0.time.pass(self.0.dice.span(POLL)).await;
        self.0.polling.set(self.0.polling.get() - 1);
        let most = if self.0.full_batches { BATCH } else { 1 + self.0.dice.below(BATCH) };
        let batch = self.0.queue.receive(most);
        if batch.is_empty() {
            if self.0.queue.visible() > 0 {
                self.0.time.pass(STALLED).await;
            }
        } else if !self.0.lot.strikes(self.0.lot.fortune().throttled, Fault::InvocationThrottled) {
            if self.0.lot.recycles() {
                sandbox = self.cold_start().await;
            }
            if self.invoke(&*sandbox, &batch).await == Ended::Crashed {
                sandbox = self.cold_start().await;
            }
        }
        self.0.idle.borrow_mut().push(sandbox);
        self.0.queue.changed().raise();
    }

    async fn cold_start(&self) -> Rc<dyn Function> {
        self.0.time.pass(self.0.dice.span(COLD)).await;
        (self.0.cold)()
    }

    async fn invoke(&self, sandbox: &dyn Function, batch: &[Received]) -> Ended {
        let started = self.0.time.now();
        if self.0.lot.strikes(self.0.lot.fortune().clock_step, Fault::ClockStep) {
            sandbox.clock().set(self.0.lot.ahead_ms());
        }
        self.0.eyes.see(started, || Step::Invoked(sandbox.name(), batch.len()));
        let ends_at = sandbox.clock().now().plus(FUNCTION_TIMEOUT);
        let (ended, remaining) = self.0.lot.run(sandbox.handle(batch, ends_at), FUNCTION_TIMEOUT).await;
        self.0.eyes.see(self.0.time.now(), || Step::Returned(sandbox.name(), ended));
        self.count(started, ended);
        if let Some(remaining) = remaining {
            let stays = |index| remaining.contains(&index) && !self.0.weather.has(Bug::AcknowledgedAll);
            let done = batch.iter().enumerate().filter(|(index, _)| !stays(*index));
            self.0.queue.delete(done.map(|(_, received)| received.receipt_handle.as_str()));
        }
        ended
    }

    fn count(&self, started: Timestamp, ended: Ended) {
        let mut counts = self.0.counts.get();
        counts.all += 1;
        counts.timed_out += u64::from(ended == Ended::TimedOut);
        counts.most_at_once = counts.most_at_once.max(self.at_work());
        let took = self.0.time.now().since(started);
        counts.busy_ms += u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.0.counts.set(counts);
    }
}
