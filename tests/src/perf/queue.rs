//! An SQS standard queue in this process, in real time.
//!
//! Owns: what SQS promises that `deliver` builds on: whole-second visibility and delay, receive counts, receipt
//! handles, batches of at most ten, what is in flight; and counting its calls.
//! Must not: know what a message means. Absent, although SQS may do so: duplicates, and receives that overlook a
//! message which is visible.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_aws::system::SystemClock;
use lapse_policy::ports::{Accepted, Clock as _, Outbox, Outgoing, Visibility};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Entries of one batch call, and messages of one receive (SQS quota).
pub const BATCH_MOST: usize = 10;
/// The visibility timeout of `deliveries` (`infra/contract.json`).
pub const VISIBILITY: Duration = Duration::from_secs(180);
/// The longest `DelaySeconds` (SQS quota).
const DELAY_MOST: i32 = 900;
/// The longest visibility timeout (SQS quota).
const HIDE_MOST: i32 = 43_200;

/// One queue; clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Queue(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// A message may be visible earlier than whoever waits believes.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: HashMap<u64, Stored>,
    /// All messages by the instant from which they are visible.
    visible: BTreeSet<(Instant, u64)>,
    last_id: u64,
    calls: QueueCalls,
}

#[derive(Debug)]
struct Stored {
    body: Arc<str>,
    origin: Origin,
    sent_at: Timestamp,
    receives: u32,
    visible_at: Instant,
}

/// What was asked of a queue, in calls; and how full it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QueueCalls {
    /// `ReceiveMessage` that came back with something.
    pub receive: u64,
    /// Messages that were received.
    pub received: u64,
    /// `DeleteMessageBatch`, by the event source.
    pub delete: u64,
    /// `ChangeMessageVisibilityBatch`.
    pub hide: u64,
    /// `SendMessageBatch`, by `deliver`.
    pub send: u64,
    /// The most messages in flight at once.
    pub most_in_flight: usize,
}

impl Queue {
    /// Puts messages in, all visible at once: the producer's part, which is not counted.
    pub fn put(&self, bodies: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        for body in bodies {
            state.insert(body.into(), Origin::New, Duration::ZERO);
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// How many there are: visible, delayed and in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counts so far.
    #[must_use]
    pub fn calls(&self) -> QueueCalls {
        self.state().calls
    }

    /// `ReceiveMessage` as a long poll: waits for one message, and takes what else is visible then.
    pub async fn receive(&self) -> Vec<Received> {
        loop {
            // Made before the look at the queue, so that no change in between is missed.
            let changed = self.0.changed.notified();
            let next = {
                let mut state = self.state();
                let received = state.receive();
                if !received.is_empty() {
                    return received;
                }
                state.visible.first().map(|(at, _)| *at)
            };
            match next {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// `DeleteMessageBatch`. What was received again since, stays.
    pub fn delete<'a>(&self, receipts: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state();
        let mut entries = 0;
        for receipt in receipts {
            entries += 1;
            if let Some(id) = state.holder(receipt) {
                state.remove(id);
            }
        }
        if entries > 0 {
            state.calls.delete += 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox for Queue {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        let mut state = self.state();
        let mut answers = Vec::with_capacity(messages.len());
        for batch in messages.chunks(BATCH_MOST) {
            state.calls.send += 1;
            answers.extend(batch.iter().map(|message| match seconds(message.delay_seconds, DELAY_MOST) {
                Some(delay) => {
                    state.insert(Arc::clone(&message.body), message.origin, delay);
                    Accepted::Yes
                }
                None => Accepted::Never("InvalidParameterValue: DelaySeconds".to_owned()),
            }));
        }
        drop(state);
        self.0.changed.notify_waiters();
        answers
    }
}

impl Visibility for Queue {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        let mut state = self.state();
        let mut answers = Vec::with_capacity(messages.len());
        for batch in messages.chunks(BATCH_MOST) {
            state.calls.hide += 1;
            answers.extend(batch.iter().map(|(receipt, hidden)| {
                match (state.holder(receipt), seconds(*hidden, HIDE_MOST)) {
                    (Some(id), Some(hidden)) => {
                        state.show_at(id, Instant::now() + hidden);
                        Accepted::Yes
                    }
                    (None, _) => Accepted::Never("MessageNotInflight".to_owned()),
                    (_, None) => Accepted::Never("InvalidParameterValue: VisibilityTimeout".to_owned()),
                }
            }));
        }
        drop(state);
        self.0.changed.notify_waiters();
        answers
    }
}

impl State {
    fn insert(&mut self, body: Arc<str>, origin: Origin, delay: Duration) {
        self.last_id += 1;
        let visible_at = Instant::now() + delay;
        let stored = Stored { body, origin, sent_at: SystemClock.now(), receives: 0, visible_at };
        self.messages.insert(self.last_id, stored);
        self.visible.insert((visible_at, self.last_id));
    }

    fn receive(&mut self) -> Vec<Received> {
        let now = Instant::now();
        let visible = self.visible.range(..=(now, u64::MAX)).take(BATCH_MOST).map(|(_, id)| *id);
        let taken: Vec<_> = visible.collect();
        let received: Vec<_> = taken.into_iter().filter_map(|id| self.take(id, now)).collect();
        if !received.is_empty() {
            self.calls.receive += 1;
            self.calls.received += u64::try_from(received.len()).unwrap_or(u64::MAX);
            let in_flight = self.messages.values().filter(|m| m.receives > 0 && m.visible_at > now).count();
            self.calls.most_in_flight = self.calls.most_in_flight.max(in_flight);
        }
        received
    }

    fn take(&mut self, id: u64, now: Instant) -> Option<Received> {
        self.show_at(id, now + VISIBILITY);
        let message = self.messages.get_mut(&id)?;
        message.receives += 1;
        Some(Received {
            message_id: id.to_string(),
            receipt_handle: format!("{id}/{}", message.receives),
            body: Arc::clone(&message.body),
            receives: message.receives,
            sent_at: Some(message.sent_at),
            origin: message.origin,
        })
    }

    /// The message that a receipt handle was given out for, if that was its last receive and it is still in flight.
    fn holder(&self, receipt: &str) -> Option<u64> {
        let (id, receives) = receipt.split_once('/')?;
        let (id, receives): (u64, u32) = (id.parse().ok()?, receives.parse().ok()?);
        let message = self.messages.get(&id)?;
        (message.receives == receives && message.visible_at > Instant::now()).then_some(id)
    }

    fn show_at(&mut self, id: u64, at: Instant) {
        if let Some(message) = self.messages.get_mut(&id) {
            self.visible.remove(&(message.visible_at, id));
            message.visible_at = at;
            self.visible.insert((at, id));
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(message) = self.messages.remove(&id) {
            self.visible.remove(&(message.visible_at, id));
        }
    }
}

fn seconds(given: i32, most: i32) -> Option<Duration> {
    u64::try_from(given).ok().filter(|_| given <= most).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(messages: usize) -> Queue {
        let queue = Queue::default();
        queue.put((0..messages).map(|n| n.to_string()));
        queue
    }

    fn receipts(received: &[Received]) -> Vec<&str> {
        received.iter().map(|message| message.receipt_handle.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_receive_takes_at_most_ten_and_what_it_takes_is_hidden_for_180_s() {
        let queue = queue(12);
        assert_eq!((queue.receive().await.len(), queue.receive().await.len()), (10, 2));
        assert_eq!(queue.calls().most_in_flight, 12);
        let began = Instant::now();
        let again = queue.receive().await;
        assert_eq!(began.elapsed(), VISIBILITY);
        assert!(again.iter().all(|message| message.receives == 2), "{again:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_hidden_for_as_long_as_it_is_told_and_deleted_by_its_last_receipt_alone() {
        let queue = queue(1);
        let (began, first) = (Instant::now(), queue.receive().await);
        let first = first[0].receipt_handle.clone();
        assert_eq!(queue.hide(&[(first.clone(), 7)]).await, [Accepted::Yes]);
        let second = queue.receive().await;
        assert_eq!(began.elapsed(), Duration::from_secs(7));
        queue.delete([first.as_str()]);
        assert_eq!(queue.len(), 1, "the first receipt is stale");
        assert!(matches!(queue.hide(&[(first, 7)]).await[0], Accepted::Never(_)));
        queue.delete(receipts(&second));
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_with_a_delay_is_not_in_flight_and_starts_its_count_anew() {
        let queue = Queue::default();
        let message =
            |delay_seconds| Outgoing { body: "x".into(), group: None, delay_seconds, origin: Origin::Resumed };
        let began = Instant::now();
        let answers = queue.send(&[message(900), message(901)]).await;
        assert!(matches!(answers[..], [Accepted::Yes, Accepted::Never(_)]), "{answers:?}");
        let received = queue.receive().await;
        assert_eq!(began.elapsed(), Duration::from_secs(900));
        assert_eq!((received[0].receives, received[0].origin), (1, Origin::Resumed));
        assert_eq!(queue.calls().most_in_flight, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_by_what_is_sent() {
        let queue = Queue::default();
        let sender = queue.clone();
        let (received, ()) = tokio::join!(queue.receive(), async move { sender.put(["x".to_owned()]) });
        assert_eq!(received.len(), 1);
    }
}
