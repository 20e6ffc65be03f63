//! What is counted of a day: writes by the second, requests, looks at the queues, and the bytes of log lines.
//!
//! Owns: the counts. Must not: price them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lapse_aws::telemetry;
use lapse_policy::names::DestinationName;
use lapse_policy::timestamp::Timestamp;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::load::{Kind, Load};
use crate::fleet::Fleet;
use crate::fleet::steps::{Place, Step, Watcher};
use crate::fleet::traffic::{percentiles_of, seconds};

/// One look at the fleet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// When.
    pub(super) at: Timestamp,
    /// Requests a second since the look before.
    pub(super) per_second: f64,
    /// Messages of `deliveries`, in whatever state, and parked rows.
    pub(super) backlog: usize,
    /// Lateness of the first requests since the look before, in seconds, at 99 %: of destinations without trouble.
    pub(super) late_healthy_s: f64,
    /// The same, of the others.
    pub(super) late_troubled_s: f64,
}

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    rows_put: u64,
    rows_gone: u64,
    second: (i64, u64),
    most_writes: u64,
    items: HashMap<DestinationName, (i64, u64)>,
    hottest: (String, u64),
    since: u64,
    troubled: HashSet<DestinationName>,
    late_healthy: Vec<Duration>,
    late_troubled: Vec<Duration>,
}

/// The day's book.
#[derive(Debug, Clone, Default)]
pub(super) struct Book(Rc<RefCell<Counts>>);

impl Book {
    /// One that is kept from now on.
    pub(super) fn open(fleet: &Fleet, load: &Load) -> Self {
        let book = Self::default();
        let troubled = [Kind::Limited, Kind::Failing].into_iter().flat_map(|kind| load.names(Some(kind)));
        book.0.borrow_mut().troubled = troubled.cloned().collect();
        fleet.eyes.open(Box::new(book.clone()));
        book
    }

    /// Requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.0.borrow().requests
    }

    /// Rows put into the schedule, and taken out of it.
    pub(super) fn rows(&self) -> (u64, u64) {
        let counts = self.0.borrow();
        (counts.rows_put, counts.rows_gone)
    }

    /// The most writes of any second, to all tables.
    pub(super) fn most_writes(&self) -> u64 {
        self.0.borrow().most_writes
    }

    /// The item with the most writes in any second, and how many these were.
    pub(super) fn hottest(&self) -> (String, u64) {
        self.0.borrow().hottest.clone()
    }

    /// What is to be seen now.
    pub(super) fn look(&self, fleet: &Fleet, at: Timestamp) -> Look {
        let mut counts = self.0.borrow_mut();
        let sent = counts.requests - counts.since;
        counts.since = counts.requests;
        let p99 = |late: &mut Vec<Duration>| seconds(percentiles_of(std::mem::take(late), [99])[0]);
        Look {
            at,
            per_second: f64::from(u32::try_from(sent).unwrap_or(u32::MAX)) / super::LOOK.as_secs_f64(),
            backlog: fleet.world.deliveries.len() + fleet.world.schedule.parked(),
            late_healthy_s: p99(&mut counts.late_healthy),
            late_troubled_s: p99(&mut counts.late_troubled),
        }
    }
}

impl Counts {
    fn written(&mut self, at: Timestamp, item: Option<&DestinationName>) {
        let second = at.seconds();
        let count = |known: &mut (i64, u64)| {
            *known = if known.0 == second { (second, known.1 + 1) } else { (second, 1) };
            known.1
        };
        self.most_writes = self.most_writes.max(count(&mut self.second));
        if let Some(name) = item {
            let writes = count(self.items.entry(name.clone()).or_default());
            if writes > self.hottest.1 {
                self.hottest = (format!("the clock of {name}"), writes);
            }
        }
    }
}

impl Watcher for Book {
    fn see(&mut self, at: Timestamp, step: &Step) {
        let mut counts = self.0.borrow_mut();
        match step {
            Step::Commit(..) => counts.written(at, None),
            Step::Clock(name, ..) => counts.written(at, Some(name)),
            Step::Put(Place::Schedule, _) => {
                counts.rows_put += 1;
                counts.written(at, None);
            }
            Step::Gone(Place::Schedule, ..) => {
                counts.rows_gone += 1;
                counts.written(at, None);
            }
            Step::Started(_, attempt) => {
                counts.requests += 1;
                if attempt.number == 1
                    && let Ok(due) = attempt.payload.parse()
                {
                    let late = at.since(Timestamp::from_millis(due));
                    if counts.troubled.contains(&attempt.destination.name) {
                        counts.late_troubled.push(late);
                    } else {
                        counts.late_healthy.push(late);
                    }
                }
            }
            Step::Put(..)
            | Step::Gone(..)
            | Step::Received(..)
            | Step::Hidden(..)
            | Step::Expired(_)
            | Step::LaneHeld(_)
            | Step::Lane(..)
            | Step::Heard(..)
            | Step::Orphaned(_)
            | Step::Acted(..)
            | Step::Told(..)
            | Step::Released(..)
            | Step::Paid(_)
            | Step::Invoked(..)
            | Step::Returned(..)
            | Step::Configured(..)
            | Step::Resumed(_)
            | Step::Did(_)
            | Step::Went(..) => {}
        }
    }
}

/// The bytes of all log lines, as the functions write them.
#[derive(Debug, Clone, Default)]
pub(super) struct LogBytes(Arc<AtomicU64>);

impl LogBytes {
    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts what is logged meanwhile.
    pub(super) fn counting<T>(self, work: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(telemetry::subscriber(LevelFilter::INFO, self), work)
    }
}

impl io::Write for LogBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(u64::try_from(bytes.len()).unwrap_or(0), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBytes {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
