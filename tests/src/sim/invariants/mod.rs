//! I1 to I10, and what follows from the rules beside them: watched at every step, and once more when all is quiet.
//!
//! Owns: the list of promises, the first one that was broken, and which check sees which step. Must not: change the
//! world.

mod copies;
mod limits;
mod receives;
mod records;
mod requests;
mod slots;
pub mod story;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use lapse_policy::names::DestinationName;
use lapse_policy::timestamp::Timestamp;

use crate::fleet::steps::{Step, Watcher};
use limits::Limit;
use requests::Request;
use slots::Slots;
use story::{Key, Rules, Story};

/// How many steps a violation shows.
pub const LAST_STEPS: usize = 50;

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// I1: nothing is lost.
    Kept,
    /// I2: event id and body are the same on every attempt.
    SameBytes,
    /// I3: a slot is released at most once, and never if it was paid for.
    OneDecision,
    /// I4: the bound of LIM-5, and no place at the gate while a pause lasts.
    InsideLimit,
    /// I5: at most K requests in flight.
    InFlight,
    /// I6: no attempt after the deadline.
    BeforeDeadline,
    /// I7: never earlier than asked.
    NotEarlier,
    /// I8: attempts are counted and bounded; an epoch begins by a redrive only.
    Attempts,
    /// I9: few receives.
    FewReceives,
    /// I10: nothing is acknowledged before it is durable.
    Durable,
    /// LED-2, LED-5, LED-6: records move as they may, and what is delivered stays so.
    Moves,
    /// LED-4: one request of a delivery at a time.
    OneAtATime,
    /// Everything comes to an end once nothing fails any more.
    Ends,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Kept,
        Self::SameBytes,
        Self::OneDecision,
        Self::InsideLimit,
        Self::InFlight,
        Self::BeforeDeadline,
        Self::NotEarlier,
        Self::Attempts,
        Self::FewReceives,
        Self::Durable,
        Self::Moves,
        Self::OneAtATime,
        Self::Ends,
    ];

    /// Its name in a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "I1",
            Self::SameBytes => "I2",
            Self::OneDecision => "I3",
            Self::InsideLimit => "I4",
            Self::InFlight => "I5",
            Self::BeforeDeadline => "I6",
            Self::NotEarlier => "I7",
            Self::Attempts => "I8",
            Self::FewReceives => "I9",
            Self::Durable => "I10",
            Self::Moves => "LED-6",
            Self::OneAtATime => "LED-4",
            Self::Ends => "ends",
        }
    }
}

/// A promise that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When, in true time.
    pub at: Timestamp,
    /// By which delivery, if by one.
    pub key: Option<Key>,
    /// What was seen.
    pub what: String,
    /// The last steps before it.
    pub steps: Vec<(Timestamp, Step)>,
}

/// What a check found.
type Found = Result<(), Broken>;

/// A promise and how it was broken.
#[derive(Debug)]
struct Broken(Invariant, Option<Key>, String);

/// How exact the world is, which bounds depend on.
#[derive(Debug, Clone, Copy)]
pub struct Tolerances {
    /// How far clocks may be from true time, in ms.
    pub skew_ms: i64,
    /// Whether nothing but receivers fails: receives are counted then (I9).
    pub fair: bool,
}

/// What is known of a run so far.
#[derive(Debug)]
pub struct Checker {
    tolerances: Tolerances,
    stories: HashMap<Key, Story>,
    rules: HashMap<DestinationName, Rules>,
    limits: HashMap<DestinationName, Limit>,
    requests: BTreeMap<u64, Request>,
    slots: Slots,
    last: VecDeque<(Timestamp, Step)>,
    violation: Option<Violation>,
    sends: u64,
}

/// A handle to the checker, for whoever drives the world.
#[derive(Debug, Clone)]
pub struct Judge(Rc<RefCell<Checker>>);

impl Judge {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(tolerances: Tolerances) -> Self {
        Self(Rc::new(RefCell::new(Checker {
            tolerances,
            stories: HashMap::new(),
            rules: HashMap::new(),
            limits: HashMap::new(),
            requests: BTreeMap::new(),
            slots: Slots::default(),
            last: VecDeque::with_capacity(LAST_STEPS),
            violation: None,
            sends: 0,
        })))
    }

    /// The promise that was broken first.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        self.0.borrow().violation.clone()
    }

    /// How many events were accepted.
    #[must_use]
    pub fn events(&self) -> u64 {
        u64::try_from(self.0.borrow().stories.len()).unwrap_or(u64::MAX)
    }

    /// How many requests were started.
    #[must_use]
    pub fn sends(&self) -> u64 {
        self.0.borrow().sends
    }

    /// How events ended: by a word each.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<&'static str, u64> {
        let mut ends = BTreeMap::new();
        for story in self.0.borrow().stories.values() {
            *ends.entry(story.end()).or_default() += 1;
        }
        ends
    }

    /// All is quiet, or the time is up.
    pub fn finish(&self, at: Timestamp, quiet: bool) {
        let mut checker = self.0.borrow_mut();
        let found = copies::at_the_end(&checker.stories, quiet);
        checker.judge(at, found);
    }
}

impl Checker {
    fn judge(&mut self, at: Timestamp, found: Found) {
        if let Err(Broken(invariant, key, what)) = found
            && self.violation.is_none()
        {
            let steps = self.last.iter().cloned().collect();
            self.violation = Some(Violation { invariant, at, key, what, steps });
        }
    }

    fn check(&mut self, at: Timestamp, step: &Step) -> Found {
        match step {
            Step::Put(place, body) => copies::put(&mut self.stories, &self.rules, *place, body),
            Step::Gone(place, body, why) => copies::gone(&mut self.stories, *place, body, *why),
            Step::Received(place, body, _) => receives::received(self, at, *place, body),
            Step::Commit(key, before, after) => records::commit(self, key, before.as_deref(), after),
            Step::Expired(key) => {
                records::expired(self, key);
                Ok(())
            }
            Step::Clock(name, write, clocks) => limits::clock(self, at, name, write, clocks),
            Step::LaneHeld(name) => {
                self.rules.entry(name.clone()).or_default().lane_waits += 1;
                Ok(())
            }
            Step::Started(number, attempt) => {
                self.sends += 1;
                limits::started(self, at, &attempt.destination)?;
                requests::started(self, at, *number, attempt)
            }
            Step::Heard(number, status, asked) => {
                requests::heard(self, at, *number, *status, *asked);
                Ok(())
            }
            Step::Orphaned(number) => {
                requests::orphaned(self, *number);
                Ok(())
            }
            Step::Told(id, status, stored) => slots::told(id, *status, *stored),
            Step::Released(reservation, version, paid) => self.slots.released(reservation, *version, *paid),
            Step::Configured(name, destination) => {
                limits::configured(self, at, name, destination.as_deref());
                Ok(())
            }
            Step::Resumed(name) => {
                requests::resumed(self, name);
                Ok(())
            }
            Step::Hidden(..)
            | Step::Lane(..)
            | Step::Acted(..)
            | Step::Paid(_)
            | Step::Invoked(..)
            | Step::Returned(..)
            | Step::Did(_)
            | Step::Went(..) => Ok(()),
        }
    }
}

impl Watcher for Judge {
    fn see(&mut self, at: Timestamp, step: &Step) {
        let mut checker = self.0.borrow_mut();
        if checker.violation.is_some() {
            return;
        }
        if checker.last.len() == LAST_STEPS {
            checker.last.pop_front();
        }
        checker.last.push_back((at, step.clone()));
        let found = checker.check(at, step);
        checker.judge(at, found);
    }
}
