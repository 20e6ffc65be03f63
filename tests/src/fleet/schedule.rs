//! The schedule: a sorted table per shard, and the rule that ticks each minute.
//!
//! Owns: the table as `deliver` and `expiry` see it. Must not: emit; each tick is the emitter's own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_expiry::emit::Emitter;
use lapse_policy::ports::{Clock as _, Page, Parking, Row, Schedule, StoredRow, Unavailable};
use lapse_policy::schedule::Origin;

use super::chance::Way;
use super::queue::Queue;
use super::time::Time;

/// Rows of one page: a query answers 1 MB, of bodies that have some 1 KB here.
const PAGE: usize = 1000;
/// Between two ticks.
const MINUTE: Duration = Duration::from_secs(60);
/// The timeout of `expiry` (infra/contract.json).
const TICK_TIMEOUT: Duration = Duration::from_secs(55);

type Rows = BTreeMap<(u32, String), (Arc<str>, Origin)>;

/// A handle to the table.
#[derive(Debug, Clone)]
pub struct ScheduleTable {
    way: Way,
    rows: Rc<RefCell<Rows>>,
}

impl ScheduleTable {
    /// An empty table.
    #[must_use]
    pub fn new(way: Way) -> Self {
        Self { way, rows: Rc::default() }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.borrow().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts the rule: a tick at each full minute.
    pub fn tick_each_minute(&self, time: &Time, queue: &Queue) {
        let emitter = Emitter { clock: time.clone(), schedule: self.clone(), queue: queue.clone() };
        let time = time.clone();
        time.clone().spawn(async move {
            loop {
                let next = time.now().plus(MINUTE);
                emitter.tick(time.now().plus(TICK_TIMEOUT)).await;
                time.sleep_until(next).await;
            }
        });
    }
}

impl Parking for ScheduleTable {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        self.way.go().await;
        for row in rows {
            let key = (row.key.shard(), row.key.sort_key());
            self.rows.borrow_mut().insert(key, (Arc::clone(&row.body), row.origin));
        }
        self.way.go().await;
        vec![Ok(()); rows.len()]
    }
}

impl Schedule for ScheduleTable {
    async fn due(&self, shard: u32, until: &str, from: Option<&str>) -> Result<Page, Unavailable> {
        self.way.go().await;
        let page = {
            let rows = self.rows.borrow();
            let first = (shard, from.unwrap_or_default().to_owned());
            let due = rows.range(first..=(shard, until.to_owned())).filter(|((_, due), _)| Some(due.as_str()) != from);
            let stored = |((_, due), (body, origin)): (&(u32, String), &(Arc<str>, Origin))| StoredRow {
                due: due.clone(),
                body: Some(Arc::clone(body)),
                origin: *origin,
            };
            let mut rows: Vec<_> = due.take(PAGE + 1).map(stored).collect();
            let more = rows.len() > PAGE;
            rows.truncate(PAGE);
            let next = rows.last().filter(|_| more).map(|row| row.due.clone());
            Page { rows, next }
        };
        self.way.go().await;
        Ok(page)
    }

    async fn delete(&self, shard: u32, due: &[String]) -> Result<(), Unavailable> {
        self.way.go().await;
        for due in due {
            self.rows.borrow_mut().remove(&(shard, due.clone()));
        }
        self.way.go().await;
        Ok(())
    }

    async fn set_aside(&self, shard: u32, row: &StoredRow, _: &str) -> Result<(), Unavailable> {
        self.delete(shard, std::slice::from_ref(&row.due)).await
    }
}
