//! What goes wrong with the calls of each part, how often, and how often it did.
//!
//! Owns: the kinds of faults, their odds, and their counts. Must not: carry a fault out; each part does that itself.
//! Weather is fair unless someone changes it: nothing fails then, and no chance is drawn.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::bugs::Bug;
use super::chance::Dice;

/// A part of the world that is called over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The table `deliveries`.
    Ledger,
    /// The table `limits`, its clocks.
    Limits,
    /// The table `limits`, its lanes.
    Lanes,
    /// The table `destinations`.
    Destinations,
    /// The table `schedule`.
    Schedule,
    /// The queue `deliveries`.
    Deliveries,
    /// The queue `failures`.
    Failures,
    /// The table `reservations` of the reference receiver.
    Reservations,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Ledger,
        Self::Limits,
        Self::Lanes,
        Self::Destinations,
        Self::Schedule,
        Self::Deliveries,
        Self::Failures,
        Self::Reservations,
    ];
}

/// A fault, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A call or an entry was throttled.
    Throttled,
    /// A request never arrived; the SDK tried again.
    RequestLost,
    /// A request was carried out and its reply lost; the SDK tried again.
    ReplyLost,
    /// A call failed as a whole, carried out or not.
    CallFailed,
    /// One entry of a batch call failed, carried out or not.
    EntryFailed,
    /// A part was down for a while.
    Outage,
    /// A message was handed out although someone held it.
    Duplicate,
    /// A deleted message came back.
    DeleteLost,
    /// A message became visible late.
    LateVisible,
    /// An invocation died at some await.
    Crash,
    /// An invocation ran into its timeout.
    Timeout,
    /// An invocation's answer could not be read: its whole batch comes back.
    BadResponse,
    /// A batch was received and no invocation was to be had for it.
    InvocationThrottled,
    /// A process stood still for a while.
    Freeze,
    /// A sandbox's clock was set.
    ClockStep,
    /// A tick came late.
    TickLate,
    /// A tick came twice.
    TickTwice,
    /// No tick came.
    TickMissed,
    /// A receiver said something else than 2xx, or nothing.
    Refusal,
    /// A receiver acted on a request and its answer never came.
    AnswerLost,
    /// TTL took a record away.
    Expired,
}

/// How often the calls of one part fail, each out of 10,000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Odds {
    /// A fault of the call.
    pub call: u32,
    /// A fault of one entry.
    pub entry: u32,
    /// It is down: every call fails.
    pub down: bool,
}

/// What happens to one try of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Fine,
    /// It does not arrive, or is throttled; the SDK tries again.
    Lost,
    /// It is carried out, and the SDK does not learn of it and tries again.
    ReplyLost,
    /// It fails for good without being carried out.
    Fails,
    /// It fails for good although it was carried out.
    FailsDone,
}

/// A handle to the weather of one world.
#[derive(Debug, Clone)]
pub struct Weather(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    dice: Dice,
    odds: RefCell<BTreeMap<Part, Odds>>,
    counts: RefCell<BTreeMap<Fault, u64>>,
    bug: Cell<Option<Bug>>,
}

impl Weather {
    /// Fair weather.
    #[must_use]
    pub fn fair(dice: Dice) -> Self {
        let (odds, counts) = (RefCell::default(), RefCell::default());
        Self(Rc::new(Inner { dice, odds, counts, bug: Cell::new(None) }))
    }

    /// From now on a part fails so often.
    pub fn set(&self, part: Part, odds: Odds) {
        if odds == Odds::default() {
            self.0.odds.borrow_mut().remove(&part);
        } else {
            self.0.odds.borrow_mut().insert(part, odds);
        }
    }

    /// How often a part fails now.
    #[must_use]
    pub fn odds(&self, part: Part) -> Odds {
        self.0.odds.borrow().get(&part).copied().unwrap_or_default()
    }

    /// Nothing fails any more.
    pub fn clear(&self) {
        self.0.odds.borrow_mut().clear();
    }

    /// The world has this bug.
    pub fn plant(&self, bug: Option<Bug>) {
        self.0.bug.set(bug);
    }

    /// Whether it has.
    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.0.bug.get() == Some(bug)
    }

    /// Counts a fault.
    pub fn count(&self, fault: Fault) {
        *self.0.counts.borrow_mut().entry(fault).or_default() += 1;
    }

    /// How often each fault was.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<Fault, u64> {
        self.0.counts.borrow().clone()
    }

    /// Whether something comes to pass that does so often, out of 10,000; it is counted then.
    #[must_use]
    pub fn strikes(&self, odds: u32, fault: Fault) -> bool {
        let strikes = odds > 0 && self.0.dice.roll() % 10_000 < u64::from(odds);
        if strikes {
            self.count(fault);
        }
        strikes
    }

    /// What happens to one try of a call.
    #[must_use]
    pub fn fate(&self, part: Part) -> Fate {
        let odds = self.odds(part);
        if odds.down {
            self.count(Fault::CallFailed);
            return if self.0.dice.below(8) == 0 { Fate::FailsDone } else { Fate::Fails };
        }
        if odds.call == 0 || self.0.dice.roll() % 10_000 >= u64::from(odds.call) {
            return Fate::Fine;
        }
        let (fate, fault) = match self.0.dice.below(8) {
            0 => (Fate::Fails, Fault::CallFailed),
            1 => (Fate::FailsDone, Fault::CallFailed),
            2 | 3 => (Fate::Lost, Fault::RequestLost),
            4 => (Fate::Lost, Fault::Throttled),
            _ => (Fate::ReplyLost, Fault::ReplyLost),
        };
        self.count(fault);
        fate
    }

    /// What happens to one entry of a batch call: fine, not carried out, or carried out and told otherwise.
    #[must_use]
    pub fn fate_of_entry(&self, part: Part) -> Fate {
        if !self.strikes(self.odds(part).entry, Fault::EntryFailed) {
            return Fate::Fine;
        }
        if self.0.dice.below(3) == 0 { Fate::FailsDone } else { Fate::Fails }
    }
}
