//! Virtual time: tasks on one thread, and a clock that jumps to the next sleeper as soon as no task can run.
//!
//! Owns: the executor. Must not: wait in real time, nor let the order of anything depend on addresses or hashes: the
//! same scenario takes the same course each run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lapse_policy::ports::Clock;
use lapse_policy::timestamp::Timestamp;

/// 2026-11-30T12:00:00Z: when every scenario starts.
pub const START: Timestamp = Timestamp::from_millis(1_796_040_000_000);

/// So many milliseconds after [`START`].
#[must_use]
pub fn at(ms: u64) -> Timestamp {
    START.plus(Duration::from_millis(ms))
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A handle to the one clock and its tasks.
#[derive(Clone)]
pub struct Time(Rc<Inner>);

struct Inner {
    now: Cell<Timestamp>,
    sleepers: RefCell<BTreeMap<(Timestamp, u64), Waker>>,
    next_id: Cell<u64>,
    tasks: RefCell<HashMap<u64, Task>>,
    ready: Ready,
    polls: Cell<u64>,
}

/// The tasks that can run, in the order in which they were woken.
#[derive(Debug, Clone, Default)]
struct Ready(Arc<Mutex<VecDeque<Arc<Turn>>>>);

impl Ready {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<Turn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One task's place among those that can run; it has one at most.
#[derive(Debug)]
struct Turn {
    task: u64,
    waits: AtomicBool,
    ready: Ready,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        if !self.waits.swap(true, Ordering::Relaxed) {
            let ready = self.ready.clone();
            ready.queue().push_back(self);
        }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({}, {} tasks)", self.0.now.get(), self.0.tasks.borrow().len())
    }
}

impl Default for Time {
    fn default() -> Self {
        Self(Rc::new(Inner {
            now: Cell::new(START),
            sleepers: RefCell::default(),
            next_id: Cell::new(0),
            tasks: RefCell::default(),
            ready: Ready::default(),
            polls: Cell::new(0),
        }))
    }
}

impl Time {
    /// Starts a task; it runs whenever time is driven.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let id = self.id();
        self.0.tasks.borrow_mut().insert(id, Box::pin(task));
        Arc::new(Turn { task: id, waits: AtomicBool::new(false), ready: self.0.ready.clone() }).wake();
    }

    /// Drives all tasks until the condition holds, which is looked at whenever time is about to pass, or until it is
    /// `latest`. Tells whether the condition held.
    pub fn drive(&self, latest: Timestamp, done: impl Fn() -> bool) -> bool {
        loop {
            self.run_ready();
            if done() {
                return true;
            }
            let next = self.0.sleepers.borrow().keys().next().map(|(at, _)| *at);
            match next {
                Some(next) if next <= latest => self.jump(next),
                Some(_) | None => {
                    self.0.now.set(self.now().max(latest));
                    return false;
                }
            }
        }
    }

    /// How often tasks were polled so far: the size of a course, and a fingerprint of it.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// Lets so much time pass.
    pub async fn pass(&self, span: Duration) {
        self.sleep_until(self.now().plus(span)).await;
    }

    fn run_ready(&self) {
        loop {
            let Some(turn) = self.0.ready.queue().pop_front() else { return };
            turn.waits.store(false, Ordering::Relaxed);
            // Taken out while it runs, so that it can start others.
            let Some(mut task) = self.0.tasks.borrow_mut().remove(&turn.task) else { continue };
            self.0.polls.set(self.0.polls.get() + 1);
            let id = turn.task;
            let waker = Waker::from(turn);
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.0.tasks.borrow_mut().insert(id, task);
            }
        }
    }

    fn jump(&self, next: Timestamp) {
        let now = self.now().max(next);
        self.0.now.set(now);
        let mut sleepers = self.0.sleepers.borrow_mut();
        let later = sleepers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut *sleepers, later);
        drop(sleepers);
        due.into_values().for_each(Waker::wake);
    }

    fn id(&self) -> u64 {
        let id = self.0.next_id.get();
        self.0.next_id.set(id + 1);
        id
    }
}

impl Clock for Time {
    fn now(&self) -> Timestamp {
        self.0.now.get()
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> {
        Sleep { time: self.clone(), key: (at, self.id()) }
    }
}

struct Sleep {
    time: Time,
    key: (Timestamp, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.key.0 {
            return Poll::Ready(());
        }
        self.time.0.sleepers.borrow_mut().insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.time.0.sleepers.borrow_mut().remove(&self.key);
    }
}

/// The first of two futures to end; the other is dropped, as a process is that is killed.
pub async fn first<T>(one: impl Future<Output = T>, other: impl Future<Output = ()>) -> Option<T> {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = one.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        other.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// Wakes one task whenever something has changed that it looks at.
#[derive(Debug, Clone, Default)]
pub struct Signal(Rc<RefCell<(bool, Option<Waker>)>>);

impl Signal {
    /// Something has changed.
    pub fn raise(&self) {
        let mut signal = self.0.borrow_mut();
        signal.0 = true;
        if let Some(waker) = signal.1.take() {
            waker.wake();
        }
    }

    /// Returns when something has changed since the last return.
    pub async fn raised(&self) {
        std::future::poll_fn(|context| {
            let mut signal = self.0.borrow_mut();
            if std::mem::take(&mut signal.0) {
                return Poll::Ready(());
            }
            signal.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// One sandbox's clock: it may be ahead of the true time, or behind.
#[derive(Debug, Clone)]
pub struct SandboxClock {
    time: Time,
    ahead_ms: Rc<Cell<i64>>,
}

impl SandboxClock {
    /// A clock that is so far ahead; negative is behind.
    #[must_use]
    pub fn new(time: Time, ahead_ms: i64) -> Self {
        Self { time, ahead_ms: Rc::new(Cell::new(ahead_ms)) }
    }

    /// Sets it: from now on it is so far ahead.
    pub fn set(&self, ahead_ms: i64) {
        self.ahead_ms.set(ahead_ms);
    }
}

impl Clock for SandboxClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.now().millis() + self.ahead_ms.get())
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> {
        self.time.sleep_until(Timestamp::from_millis(at.millis() - self.ahead_ms.get()))
    }
}
