//! The queues and the schedule in memory.
//!
//! Owns: what was sent, hidden and parked, and refusing it. Must not: deliver anything; scenarios hand batches over.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use lapse_policy::ports::{Accepted, Outbox, Outgoing, Parking, Row, Unavailable, Visibility};

use super::journal::Journal;

#[derive(Debug)]
pub(crate) struct MemoryQueue {
    name: &'static str,
    pub(crate) sent: RefCell<Vec<Outgoing>>,
    /// Receipt and seconds.
    pub(crate) hidden: RefCell<Vec<(String, i32)>>,
    /// Whether it takes what it is given.
    pub(crate) takes: RefCell<fn(usize) -> Accepted>,
    /// Whether a call breaks the adapter.
    pub(crate) panics: Cell<bool>,
    journal: Journal,
}

impl MemoryQueue {
    pub(crate) fn new(name: &'static str, journal: Journal) -> Self {
        let takes: RefCell<fn(usize) -> Accepted> = RefCell::new(|_| Accepted::Yes);
        Self { name, sent: RefCell::default(), hidden: RefCell::default(), takes, panics: Cell::new(false), journal }
    }

    fn answers<T: Clone>(&self, what: &str, items: &[T], taken: &RefCell<Vec<T>>) -> Vec<Accepted> {
        self.journal.note(format!("{}: {what} {}", self.name, items.len()));
        assert!(!self.panics.get(), "{} was told to", self.name);
        assert!(items.len() <= 10, "SQS takes ten entries");
        let accept = *self.takes.borrow();
        let answer = |(index, item): (usize, &T)| {
            let answer = accept(index);
            if answer == Accepted::Yes {
                taken.borrow_mut().push(item.clone());
            }
            answer
        };
        items.iter().enumerate().map(answer).collect()
    }
}

impl Outbox for MemoryQueue {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        self.journal.takes(Duration::from_millis(1)).await;
        assert!(messages.iter().all(|m| (0..=900).contains(&m.delay_seconds)), "SQS delays by 900 s at most");
        self.answers("send", messages, &self.sent)
    }
}

impl Visibility for MemoryQueue {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        self.journal.takes(Duration::from_millis(1)).await;
        self.answers("hide", messages, &self.hidden)
    }
}

#[derive(Debug)]
pub(crate) struct MemorySchedule {
    pub(crate) rows: RefCell<Vec<Row>>,
    pub(crate) down: Cell<bool>,
    journal: Journal,
}

impl MemorySchedule {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { rows: RefCell::default(), down: Cell::new(false), journal }
    }
}

impl Parking for MemorySchedule {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        self.journal.note(format!("park {}", rows.len()));
        self.journal.takes(Duration::from_millis(1)).await;
        if self.down.get() {
            let down = || Unavailable { operation: "PutItem schedule", cause: "told to".to_owned() };
            return rows.iter().map(|_| Err(down())).collect();
        }
        let mut stored = self.rows.borrow_mut();
        for row in rows {
            // Putting the same row twice leaves one.
            stored.retain(|other| other.key != row.key);
            stored.push(row.clone());
        }
        vec![Ok(()); rows.len()]
    }
}
