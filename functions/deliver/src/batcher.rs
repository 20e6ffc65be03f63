//! LED-9: what is ready goes together, one call in flight, after a linger of at most 20 ms.
//!
//! Owns: collecting single requests into batch calls. Must not: know what is called.
//! A call is made as soon as nobody is left who could still add to it; only else does it linger.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Either, select};
use lapse_policy::ports::Clock;
use tokio::sync::{Notify, oneshot};

/// The longest that a request waits for company.
pub const LINGER: Duration = Duration::from_millis(20);

/// Who is at work in an invocation, and who of them waits for a batch call.
#[derive(Debug, Default)]
pub struct Activity {
    alive: Cell<usize>,
    blocked: Cell<usize>,
    changed: Notify,
}

/// One who is at work, until it is dropped.
#[derive(Debug)]
pub struct Participant<'a>(&'a Activity);

impl Activity {
    /// One more is at work.
    pub fn join(&self) -> Participant<'_> {
        self.alive.set(self.alive.get() + 1);
        Participant(self)
    }

    fn all_blocked(&self) -> bool {
        self.blocked.get() >= self.alive.get()
    }
}

impl Drop for Participant<'_> {
    fn drop(&mut self) {
        self.0.alive.set(self.0.alive.get() - 1);
        self.0.changed.notify_waiters();
    }
}

/// Undoes the count of a waiting participant on every path, a dropped future too.
struct Blocked<'a>(&'a Activity);

impl<'a> Blocked<'a> {
    fn new(activity: &'a Activity) -> Self {
        activity.blocked.set(activity.blocked.get() + 1);
        activity.changed.notify_waiters();
        Self(activity)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.blocked.set(self.0.blocked.get() - 1);
    }
}

/// Requests of one kind on their way into batch calls.
#[derive(Debug)]
pub struct Batcher<T, A> {
    queue: RefCell<Vec<(T, oneshot::Sender<A>)>>,
    most: usize,
}

impl<T, A> Batcher<T, A> {
    /// Calls hold at most `most` requests.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { queue: RefCell::default(), most }
    }

    /// Hands in requests as one participant and waits for their answers; `None` if the call was lost.
    pub async fn submit(&self, activity: &Activity, items: Vec<T>) -> Vec<Option<A>> {
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            let (answer, receiver) = oneshot::channel();
            self.queue.borrow_mut().push((item, answer));
            answers.push(receiver);
        }
        let _blocked = Blocked::new(activity);
        futures::future::join_all(answers.into_iter().map(|answer| async { answer.await.ok() })).await
    }

    /// Makes the calls, for as long as it is polled.
    pub async fn run<C, F, Fut>(&self, activity: &Activity, clock: &C, call: F)
    where
        C: Clock,
        F: Fn(Vec<T>) -> Fut,
        Fut: Future<Output = Vec<A>>,
    {
        let mut since = None;
        loop {
            // Made before the look at the queue, so that no change in between is missed.
            let changed = activity.changed.notified();
            let waiting = self.queue.borrow().len();
            if waiting == 0 {
                since = None;
                changed.await;
                continue;
            }
            let until = since.get_or_insert_with(|| clock.now()).plus(LINGER);
            if waiting >= self.most || activity.all_blocked() || clock.now() >= until {
                since = None;
                self.flush(&call).await;
            } else {
                let linger = pin!(clock.sleep_until(until));
                match select(pin!(changed), linger).await {
                    Either::Left(_) | Either::Right(_) => {}
                }
            }
        }
    }

    async fn flush<F, Fut>(&self, call: &F)
    where
        F: Fn(Vec<T>) -> Fut,
        Fut: Future<Output = Vec<A>>,
    {
        let taken: Vec<_> = {
            let mut queue = self.queue.borrow_mut();
            let count = queue.len().min(self.most);
            queue.drain(..count).collect()
        };
        let (items, waiters): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        // A panic in a call is an answer that never comes: those who wait learn it by the dropped channel.
        if let Ok(answers) = AssertUnwindSafe(async { call(items).await }).catch_unwind().await {
            for (waiter, answer) in waiters.into_iter().zip(answers) {
                // Nobody waits any more where the record's task was dropped.
                let _ = waiter.send(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapse_policy::timestamp::Timestamp;

    /// A clock that stands still: a linger never ends by itself.
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::EPOCH
        }
        async fn sleep_until(&self, _: Timestamp) {
            std::future::pending::<()>().await;
        }
    }

    #[tokio::test]
    async fn led_9_what_is_ready_goes_together_when_nobody_else_could_join() {
        let (activity, batcher) = (Activity::default(), Batcher::new(25));
        let sizes = RefCell::new(Vec::new());
        let calls = batcher.run(&activity, &Still, |items: Vec<u32>| {
            sizes.borrow_mut().push(items.len());
            async move { items.iter().map(|i| i * 2).collect::<Vec<_>>() }
        });
        let one = |n| {
            let (activity, batcher, me) = (&activity, &batcher, activity.join());
            async move {
                let answer = batcher.submit(activity, vec![n]).await;
                drop(me);
                answer
            }
        };
        let work = futures::future::join3(one(1), one(2), one(3));
        let Either::Right((answers, _)) = select(pin!(calls), pin!(work)).await else { panic!("calls never end") };
        assert_eq!(answers, (vec![Some(2)], vec![Some(4)], vec![Some(6)]));
        assert_eq!(*sizes.borrow(), [3], "one call");
    }

    #[tokio::test]
    async fn a_panic_in_a_call_is_told_to_those_who_wait() {
        let (activity, batcher) = (Activity::default(), Batcher::<u32, u32>::new(25));
        let calls = batcher.run(&activity, &Still, |_| async { panic!("a broken adapter") });
        let me = activity.join();
        let work = batcher.submit(&activity, vec![1]);
        let Either::Right((answers, _)) = select(pin!(calls), pin!(work)).await else { panic!("calls never end") };
        drop(me);
        assert_eq!(answers, [None]);
    }
}
