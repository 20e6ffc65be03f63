//! The schedule: a sorted table per shard, and the rule that ticks each minute.
//!
//! Owns: the table as `deliver`, `expiry` and producers see it, and what the rule does when it is late, doubled or
//! out. Must not: emit; each tick is the emitter's own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_expiry::emit::Emitter;
use lapse_policy::ports::{Clock as _, Page, Parking, Row, Schedule, StoredRow, Unavailable};
use lapse_policy::schedule::{Origin, RowKey, SHARDS};
use lapse_policy::timestamp::Timestamp;

use super::bugs::Bug;
use super::chance::{Dice, Span, Way};
use super::lot::Lot;
use super::queue::{By, Queue};
use super::steps::{Eyes, Place, Step, Why};
use super::time::{SandboxClock, Time};
use super::weather::{Fault, Weather};

/// Rows of one page: a query answers 1 MB, of bodies that have some 1 KB here.
const PAGE: usize = 1000;
/// Between two ticks.
const MINUTE: Duration = Duration::from_secs(60);
/// The timeout of `expiry` (infra/contract.json).
const TICK_TIMEOUT: Duration = Duration::from_secs(55);
/// A tick looks so far ahead (infra/contract.json); one before that would find nothing, and is not played.
const LOOK_AHEAD: Duration = Duration::from_secs(150);
/// How late a tick is that is late: it expires after 60 s.
const LATE: Span = Span(1000, 59_000);

type Rows = BTreeMap<(u32, String), (Arc<str>, Origin)>;

/// A handle to the table.
#[derive(Debug, Clone)]
pub struct ScheduleTable {
    way: Way,
    eyes: Eyes,
    rows: Rc<RefCell<Rows>>,
}

impl ScheduleTable {
    /// An empty table.
    #[must_use]
    pub fn new(way: Way, eyes: Eyes) -> Self {
        Self { way, eyes, rows: Rc::default() }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.borrow().len()
    }

    /// How many of them are parked deliveries. Looks at each.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.rows.borrow().values().filter(|(_, origin)| *origin == Origin::Resumed).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the first row is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let rows = self.rows.borrow();
        let first = |shard| rows.range((shard, String::new())..(shard + 1, String::new())).next();
        let due = (0..SHARDS).filter_map(first).filter_map(|((_, due), _)| RowKey::parse(due).ok());
        due.map(|key| key.due).min()
    }

    /// A row that is simply there; one of the same key is replaced.
    pub fn insert(&self, row: &Row) {
        let key = (row.key.shard(), row.key.sort_key());
        let before = self.rows.borrow_mut().insert(key, (Arc::clone(&row.body), row.origin));
        let now = self.way.now();
        self.eyes.see(now, || Step::Put(Place::Schedule, Arc::clone(&row.body)));
        if let Some((body, _)) = before {
            self.eyes.see(now, || Step::Gone(Place::Schedule, body, Why::Done));
        }
    }

    /// Takes a row away, if it is still there (EMT-3).
    pub fn cancel(&self, key: &RowKey) {
        self.remove(key.shard(), &key.sort_key(), Why::Cancelled);
    }

    fn remove(&self, shard: u32, due: &str, why: Why) {
        let row = self.rows.borrow_mut().remove(&(shard, due.to_owned()));
        if let Some((body, _)) = row {
            self.eyes.see(self.way.now(), || Step::Gone(Place::Schedule, body, why));
        }
    }
}

/// The rule that ticks each minute, and how reliable it is.
#[derive(Debug, Clone)]
pub struct Rule {
    time: Time,
    dice: Dice,
    schedule: ScheduleTable,
    queue: Queue,
    lot: Lot,
    out_until: Rc<Cell<Timestamp>>,
    unpunctual: Rc<Cell<u32>>,
    at_work: Rc<Cell<usize>>,
}

impl Rule {
    /// Starts it: a tick at each full minute.
    #[must_use]
    pub fn start(time: &Time, dice: Dice, schedule: &ScheduleTable, queue: &Queue, lot: Lot) -> Self {
        let (time, schedule, queue) = (time.clone(), schedule.clone(), queue.by(By::Expiry));
        let (out_until, unpunctual, at_work) = (Rc::new(Cell::new(Timestamp::EPOCH)), Rc::default(), Rc::default());
        let rule = Self { time, dice, schedule, queue, lot, out_until, unpunctual, at_work };
        rule.time.spawn(rule.clone().tick_each_minute());
        rule
    }

    /// No tick comes before then.
    pub fn stop_until(&self, end: Timestamp) {
        self.out_until.set(end);
    }

    /// From now on so many of 10,000 ticks come late, or twice.
    pub fn be_unpunctual(&self, odds: u32) {
        self.unpunctual.set(odds);
    }

    /// Whether a tick is at work.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        self.at_work.get() > 0
    }

    async fn tick_each_minute(self) {
        let weather = self.schedule.way.weather().clone();
        loop {
            let now = self.time.now();
            if self.schedule.next_due().is_some_and(|due| due <= now.plus(LOOK_AHEAD)) {
                self.due_tick(&weather);
            }
            self.time.sleep_until(now.plus(MINUTE)).await;
        }
    }

    fn due_tick(&self, weather: &Weather) {
        if self.out_until.get() > self.time.now() {
            weather.count(Fault::TickMissed);
            return;
        }
        let odds = self.unpunctual.get();
        let late = if weather.strikes(odds, Fault::TickLate) { self.dice.span(LATE) } else { Duration::ZERO };
        let again = weather.strikes(odds, Fault::TickTwice).then(|| late + self.dice.span(LATE));
        for late in [Some(late), again].into_iter().flatten() {
            self.time.spawn(self.clone().tick(late));
        }
    }

    async fn tick(self, late: Duration) {
        if !late.is_zero() {
            self.time.pass(late).await;
        }
        // Reserved concurrency 1: a second one is throttled, and not tried again.
        if self.at_work.get() > 0 {
            return;
        }
        self.at_work.set(1);
        let clock = SandboxClock::new(self.time.clone(), self.lot.ahead_ms());
        let ends_at = clock.now().plus(TICK_TIMEOUT);
        let emitter = Emitter { clock, schedule: self.schedule.clone(), queue: self.queue.clone() };
        let (now, eyes) = (self.time.now(), &self.schedule.eyes);
        eyes.see(now, || Step::Invoked("expiry", 0));
        let (ended, _) = self.lot.run(Box::pin(emitter.tick(ends_at)), TICK_TIMEOUT).await;
        eyes.see(self.time.now(), || Step::Returned("expiry", ended));
        self.at_work.set(0);
    }
}

impl Parking for ScheduleTable {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        let put = || {
            if !self.way.has(Bug::ParkedNowhere) {
                for row in rows {
                    self.insert(row);
                }
            }
        };
        let answer = self.way.call(put).await;
        rows.iter().map(|_| answer.clone()).collect()
    }
}

impl Schedule for ScheduleTable {
    async fn due(&self, shard: u32, until: &str, from: Option<&str>) -> Result<Page, Unavailable> {
        let read = || {
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
        self.way.call(read).await
    }

    async fn delete(&self, shard: u32, due: &[String]) -> Result<(), Unavailable> {
        let delete = || {
            if !self.way.has(Bug::RowsStay) {
                for due in due {
                    self.remove(shard, due, Why::Done);
                }
            }
        };
        self.way.call(delete).await
    }

    async fn set_aside(&self, shard: u32, row: &StoredRow, _: &str) -> Result<(), Unavailable> {
        let move_it = || {
            let body = row.body.clone().unwrap_or_default();
            self.eyes.see(self.way.now(), || Step::Put(Place::Aside, body));
            self.remove(shard, &row.due, Why::Moved);
        };
        self.way.call(move_it).await
    }
}
