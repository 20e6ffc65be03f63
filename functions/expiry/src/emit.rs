//! EMT-1, EMT-2, EMT-4: one tick of emission.
//!
//! Owns: the order "send, then delete what was sent", shard by shard, the oldest rows first.
//! Must not: keep anything between ticks; a crash anywhere repeats an event and never loses one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use lapse_policy::message::{MAX_MESSAGE_BYTES, MAX_SQS_BYTES};
use lapse_policy::ports::{Accepted, Clock, Outbox, Outgoing, Schedule, StoredRow};
use lapse_policy::schedule::{BadRowKey, Origin, RowKey, SHARDS, delay_seconds, due_until};
use lapse_policy::timestamp::{Timestamp, millis};

/// Emission stops this much before its own time is up; the rest waits for the next tick (EMT-2).
const STOP_BEFORE: Duration = Duration::from_secs(5);
/// `:` follows `9`: every time sorts before it.
const AFTER_TIMES: &str = ":";
/// Every key sorts before the last character there is.
const LAST_KEY: &str = "\u{10FFFF}";
/// Shards that are worked on side by side.
const SIDE_BY_SIDE: usize = 4;

/// What a tick did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tick {
    /// Rows that became messages.
    pub emitted: u32,
    /// Rows that were set aside (EMT-4).
    pub set_aside: u32,
    /// Rows that could not be sent or deleted, and stay for the next tick.
    pub left: u32,
    /// How late the oldest emitted row was, in ms: its message can no longer be on time.
    pub latest_ms: i64,
    /// Whether time ran out.
    pub out_of_time: bool,
}

/// The ports of a tick.
#[derive(Debug)]
pub struct Emitter<C, S, Q> {
    /// Time.
    pub clock: C,
    /// The schedule.
    pub schedule: S,
    /// The queue `deliveries`.
    pub queue: Q,
}

impl<C: Clock, S: Schedule, Q: Outbox> Emitter<C, S, Q> {
    /// Emits all that is due, until `ends_at` is near.
    pub async fn tick(&self, ends_at: Timestamp) -> Tick {
        let until = ends_at.minus(STOP_BEFORE);
        let shards = futures::stream::iter(0..SHARDS).map(|shard| self.shard(shard, until));
        let sum =
            shards.buffer_unordered(SIDE_BY_SIDE).fold(Tick::default(), |sum, tick| async move { sum.with(&tick) });
        let mut tick = sum.await;
        self.strays(&mut tick).await;
        tick
    }

    /// Sets aside keys that no time reaches because they sort after every time (EMT-4): one shard a minute, in turn.
    async fn strays(&self, tick: &mut Tick) {
        let minute = self.clock.now().seconds() / 60;
        let shard = u32::try_from(minute.rem_euclid(i64::from(SHARDS))).unwrap_or(0);
        match self.schedule.due(shard, LAST_KEY, Some(AFTER_TIMES)).await {
            Ok(page) => {
                for row in page.rows {
                    self.set_aside(shard, &row, &BadRowKey.to_string(), tick).await;
                }
            }
            Err(error) => {
                tracing::error!(shard, operation = error.operation, cause = error.cause, "schedule_unavailable");
            }
        }
    }

    async fn shard(&self, shard: u32, until: Timestamp) -> Tick {
        let mut tick = Tick::default();
        let due = due_until(self.clock.now());
        let mut from: Option<String> = None;
        loop {
            if self.clock.now() >= until {
                tick.out_of_time = true;
                return tick;
            }
            match self.schedule.due(shard, &due, from.as_deref()).await {
                Err(error) => {
                    tracing::error!(shard, operation = error.operation, cause = error.cause, "schedule_unavailable");
                    return tick;
                }
                Ok(page) => {
                    self.page(shard, page.rows, &mut tick).await;
                    match page.next {
                        Some(next) => from = Some(next),
                        None => return tick,
                    }
                }
            }
        }
    }

    async fn page(&self, shard: u32, rows: Vec<StoredRow>, tick: &mut Tick) {
        let now = self.clock.now();
        let (mut sending, mut messages) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in rows {
            match outgoing(&row, now) {
                Ok((key, message)) => {
                    sending.push((row, key));
                    messages.push(message);
                }
                Err(reason) => self.set_aside(shard, &row, &reason, tick).await,
            }
        }
        let mut sent = Vec::with_capacity(sending.len());
        for ((row, key), answer) in sending.into_iter().zip(self.queue.send(&messages).await) {
            match answer {
                Accepted::Yes => {
                    tick.latest_ms = tick.latest_ms.max(millis(now.since(key.due)));
                    sent.push(row.due);
                }
                Accepted::Never(reason) => self.set_aside(shard, &row, &reason, tick).await,
                Accepted::No(cause) => {
                    tick.left += 1;
                    tracing::warn!(shard, due = row.due, cause, "row_not_sent");
                }
            }
        }
        let count = u32::try_from(sent.len()).unwrap_or(u32::MAX);
        tick.emitted += count;
        if let Err(error) = self.schedule.delete(shard, &sent).await {
            // They are sent again by the next tick; the ledger makes one delivery of both.
            tick.left += count;
            tracing::error!(shard, operation = error.operation, cause = error.cause, "rows_not_deleted");
        }
    }

    async fn set_aside(&self, shard: u32, row: &StoredRow, reason: &str, tick: &mut Tick) {
        match self.schedule.set_aside(shard, row, reason).await {
            Ok(()) => {
                tick.set_aside += 1;
                tracing::error!(shard, due = row.due, reason, "row_set_aside");
            }
            Err(error) => {
                tick.left += 1;
                tracing::error!(shard, operation = error.operation, cause = error.cause, "row_not_set_aside");
            }
        }
    }
}

/// The message of a row, or why it can never be sent (EMT-4).
fn outgoing(row: &StoredRow, now: Timestamp) -> Result<(RowKey, Outgoing), String> {
    let key = RowKey::parse(&row.due).map_err(|error| error.to_string())?;
    let body = row.body.as_ref().filter(|body| !body.is_empty()).ok_or("body is missing or empty")?;
    // A parked letter that came back may be longer by its mark; a producer's event may not.
    let most = if row.origin == Origin::New { MAX_MESSAGE_BYTES } else { MAX_SQS_BYTES };
    if body.len() > most {
        return Err(format!("body is {} bytes; at most {most} are accepted", body.len()));
    }
    let message = Outgoing {
        body: Arc::clone(body),
        group: Some(key.delivery.destination.clone()),
        delay_seconds: delay_seconds(key.due, now, row.origin),
        origin: row.origin,
    };
    Ok((key, message))
}

impl Tick {
    fn with(mut self, other: &Self) -> Self {
        self.emitted += other.emitted;
        self.set_aside += other.set_aside;
        self.left += other.left;
        self.latest_ms = self.latest_ms.max(other.latest_ms);
        self.out_of_time |= other.out_of_time;
        self
    }

    /// The counts by name, for the log and the metrics.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u32> {
        BTreeMap::from([("Emitted", self.emitted), ("RowsSetAside", self.set_aside), ("RowsLeft", self.left)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    use lapse_policy::names::DeliveryKey;
    use lapse_policy::ports::{Page, Unavailable};

    const NOW: Timestamp = Timestamp::from_millis(1_764_504_000_000);

    #[derive(Default)]
    struct World {
        rows: RefCell<Vec<(u32, StoredRow)>>,
        aside: RefCell<Vec<String>>,
        sent: RefCell<Vec<Outgoing>>,
        answer: RefCell<Option<Accepted>>,
        refuses_deletes: Cell<bool>,
        ticks: Cell<u64>,
    }

    impl Clock for &World {
        fn now(&self) -> Timestamp {
            NOW.plus(Duration::from_secs(self.ticks.get()))
        }
        async fn sleep_until(&self, _: Timestamp) {}
    }

    impl Outbox for &World {
        async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
            self.sent.borrow_mut().extend_from_slice(messages);
            vec![self.answer.borrow().clone().unwrap_or(Accepted::Yes); messages.len()]
        }
    }

    impl Schedule for &World {
        async fn due(&self, shard: u32, until: &str, from: Option<&str>) -> Result<Page, Unavailable> {
            let rows = self.rows.borrow();
            let due = |row: &&StoredRow| *row.due <= *until && from.is_none_or(|from| *row.due > *from);
            let mut rows: Vec<_> =
                rows.iter().filter(|(s, _)| *s == shard).map(|(_, row)| row).filter(due).cloned().collect();
            rows.sort_by(|a, b| a.due.cmp(&b.due));
            let next = (rows.len() > 2).then(|| rows[1].due.clone());
            rows.truncate(2);
            Ok(Page { rows, next })
        }
        async fn delete(&self, shard: u32, due: &[String]) -> Result<(), Unavailable> {
            if self.refuses_deletes.get() {
                return Err(Unavailable { operation: "delete", cause: "down".to_owned() });
            }
            self.rows.borrow_mut().retain(|(s, row)| *s != shard || !due.contains(&row.due));
            Ok(())
        }
        async fn set_aside(&self, shard: u32, row: &StoredRow, reason: &str) -> Result<(), Unavailable> {
            self.aside.borrow_mut().push(reason.to_owned());
            self.delete(shard, std::slice::from_ref(&row.due)).await
        }
    }

    impl World {
        fn put(&self, id: &str, due_in_ms: i64, origin: Origin) {
            let due = Timestamp::from_millis(NOW.millis() + due_in_ms);
            let key = RowKey::new(due, DeliveryKey::parse(&format!("catalog#{id}")).expect("valid"));
            let row = StoredRow { due: key.sort_key(), body: Some(id.into()), origin };
            self.rows.borrow_mut().push((key.shard(), row));
        }

        fn emitter(&self) -> Emitter<&Self, &Self, &Self> {
            Emitter { clock: self, schedule: self, queue: self }
        }

        async fn tick(&self) -> Tick {
            self.emitter().tick(NOW.plus(Duration::from_secs(55))).await
        }
    }

    #[tokio::test]
    async fn emt_1_due_rows_become_messages_to_the_second() {
        let world = World::default();
        world.put("a:1", 100, Origin::New);
        world.put("b:1", 100, Origin::Resumed);
        world.put("c:1", -5000, Origin::New);
        world.put("d:1", 150_001, Origin::New);
        let tick = world.tick().await;
        assert_eq!((tick.emitted, tick.latest_ms), (3, 5000));
        let mut delays: Vec<_> = world.sent.borrow().iter().map(|m| (m.body.to_string(), m.delay_seconds)).collect();
        delays.sort();
        assert_eq!(delays, [("a:1".to_owned(), 1), ("b:1".to_owned(), 0), ("c:1".to_owned(), 0)]);
        assert_eq!(world.rows.borrow().len(), 1, "what is not due stays");
        assert_eq!(world.tick().await.emitted, 0, "run twice");
    }

    #[tokio::test]
    async fn emt_1_only_rows_of_accepted_messages_are_deleted() {
        let world = World::default();
        world.put("a:1", 0, Origin::New);
        *world.answer.borrow_mut() = Some(Accepted::No("busy".to_owned()));
        assert_eq!(world.tick().await.left, 1);
        assert_eq!(world.rows.borrow().len(), 1);
        *world.answer.borrow_mut() = None;
        world.refuses_deletes.set(true);
        assert_eq!(world.tick().await.left, 1, "sent, and will be sent again");
        assert_eq!(world.rows.borrow().len(), 1);
    }

    #[tokio::test]
    async fn emt_2_the_oldest_rows_go_first_and_time_ends_it() {
        let world = World::default();
        let shard_0 = (0..500)
            .map(|n| format!("r{n}:1"))
            .filter(|id| DeliveryKey::parse(&format!("catalog#{id}")).is_ok_and(|key| key.crc32() % SHARDS == 0));
        let expected: Vec<_> = shard_0.take(5).collect();
        for (age, id) in (0..).zip(&expected) {
            world.put(id, -age, Origin::New);
        }
        assert_eq!(world.tick().await.emitted, 5, "over several pages");
        let ages = |body: &str| expected.iter().position(|id| id == body);
        let sent: Vec<_> = world.sent.borrow().iter().filter_map(|m| ages(&m.body)).collect();
        assert_eq!(sent, [4, 3, 2, 1, 0], "the oldest first");
        world.put("late:1", 0, Origin::New);
        world.ticks.set(50);
        let tick = world.tick().await;
        assert!(tick.out_of_time && tick.emitted == 0, "5 s before its time is up");
    }

    #[tokio::test]
    async fn emt_4_what_cannot_be_sent_is_set_aside_with_its_reason() {
        let world = World::default();
        let bad = |due: &str, body: Option<&str>| StoredRow {
            due: due.to_owned(),
            body: body.map(Into::into),
            origin: Origin::New,
        };
        world.rows.borrow_mut().push((1, bad("0000000000001#catalog#a:1", None)));
        let large = "x".repeat(MAX_MESSAGE_BYTES + 1);
        world.rows.borrow_mut().push((2, bad("0000000000001#catalog#b:1", Some(&large))));
        world.rows.borrow_mut().push((3, bad("17#x", Some("x"))));
        let tick = world.tick().await;
        assert_eq!((tick.set_aside, tick.emitted), (3, 0));
        assert!(world.sent.borrow().is_empty());
        // "noon" sorts after every time: it is found when its shard has its turn.
        world.rows.borrow_mut().push((5, bad("noon", Some("x"))));
        for minute in 0..u64::from(SHARDS) {
            world.ticks.set(minute * 60);
            world.emitter().tick(NOW.plus(Duration::from_secs(minute * 60 + 55))).await;
        }
        world.ticks.set(0);
        assert!(world.rows.borrow().is_empty() && world.aside.borrow().len() == 4);
        world.put("c:1", 0, Origin::New);
        *world.answer.borrow_mut() = Some(Accepted::Never("InvalidMessageContents".to_owned()));
        assert_eq!(world.tick().await.set_aside, 1, "the sender's fault");
    }
}
