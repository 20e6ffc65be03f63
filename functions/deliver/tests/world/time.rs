//! Virtual time: a clock that jumps to the next sleeper as soon as nothing else can run.
//!
//! Owns: the executor of the scenarios. Must not: wait in real time; the same scenario takes the same course each run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lapse_policy::ports::Clock;
use lapse_policy::timestamp::Timestamp;

/// 2026-11-30T12:00:00Z: when every scenario starts.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_040_000_000);
/// A scenario that polls more often than this never ends.
const MOST_POLLS: u32 = 1_000_000;

/// So many milliseconds after [`NOW`].
pub(crate) fn at(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

#[derive(Debug, Clone)]
pub(crate) struct Time(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    now: Cell<Timestamp>,
    sleepers: RefCell<BTreeMap<(Timestamp, u64), Waker>>,
    next: Cell<u64>,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Time {
    pub(crate) fn new() -> Self {
        Self(Rc::new(Inner { now: Cell::new(NOW), sleepers: RefCell::default(), next: Cell::new(0) }))
    }

    /// Runs a future to its end; time passes only where all of it sleeps.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&flag));
        for _ in 0..MOST_POLLS {
            flag.0.store(false, Ordering::Relaxed);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            if !flag.0.load(Ordering::Relaxed) {
                self.jump();
            }
        }
        panic!("still running after {MOST_POLLS} polls");
    }

    /// Time passes between invocations.
    pub(crate) fn pass(&self, span: Duration) {
        self.0.now.set(self.0.now.get().plus(span));
    }

    fn jump(&self) {
        let next = self.0.sleepers.borrow().keys().next().map(|(at, _)| *at);
        let next = next.expect("nothing can run and nobody sleeps");
        let now = self.0.now.get().max(next);
        self.0.now.set(now);
        let mut sleepers = self.0.sleepers.borrow_mut();
        let later = sleepers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut *sleepers, later);
        drop(sleepers);
        due.into_values().for_each(Waker::wake);
    }
}

impl Clock for Time {
    fn now(&self) -> Timestamp {
        self.0.now.get()
    }

    fn sleep_until(&self, at: Timestamp) -> impl Future<Output = ()> {
        let id = self.0.next.get();
        self.0.next.set(id + 1);
        Sleep { time: self.clone(), key: (at, id) }
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
