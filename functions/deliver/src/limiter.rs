//! LIM-1, LIM-5, LIM-7: the loops around the limiter's conditional writes.
//!
//! Owns: at most three writes a booking, and what this sandbox last saw of each clock item.
//! Must not: compute places; `lapse_policy::booking` does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use lapse_policy::booking::{Closed, GateAsk, Places, PlanAsk};
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{ClockAnswer, Limits, Unavailable};
use lapse_policy::timestamp::{Micros, Timestamp};

/// The most writes that a booking takes on one clock (LIM-1): add, set, add. A clock only grows, so after a lost race
/// for an idle one, the add succeeds unless there is no room.
const MOST_WRITES: usize = 3;
/// A plan's booking may try both clocks at once beside that, and lose to a booking at the gate alone (LIM-3).
const MOST_PLAN_WRITES: usize = MOST_WRITES + 1;

/// A pause is stored by compare-and-swap, and of a crowd one wins each round. The longest ask must not be among the
/// losers: each may try as often as a crowd of sandboxes could beat it.
const MOST_PAUSES: usize = 40;

/// Which branch of a booking won last in this sandbox: it is tried first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Branch {
    Busy,
    #[default]
    Idle,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    clocks: Clocks,
    plan: Branch,
    gate: Branch,
}

impl Branch {
    /// The branch to try first: a clock that was not past when it was last seen is not past now, because it only
    /// grows. Of one that was, the last win is the best guess.
    fn first(last_won: Self, reading: Option<Micros>, now: Micros) -> Self {
        if reading.is_some_and(|reading| reading >= now) { Self::Busy } else { last_won }
    }
}

/// What this sandbox last saw of the clock items.
#[derive(Debug, Default)]
pub struct Seen(RefCell<HashMap<DestinationName, Known>>);

/// Which clocks a booking of planned times may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The gate too, where both are idle (LIM-3).
    BothIfIdle,
    /// Only the plan: the gate is passed later, just before each request (LAN-2).
    PlanAlone,
}

impl Scope {
    /// For so many deliveries of one batch. In a lane only the first could use its place at the gate.
    #[must_use]
    pub fn of(destination: &Destination, count: usize) -> Self {
        if destination.max_in_flight.is_some() && count > 1 { Self::PlanAlone } else { Self::BothIfIdle }
    }

    fn narrow(self, write: Write) -> Write {
        match (self, write) {
            (Self::PlanAlone, Write::BothIdle { plan: (to, below), shift, .. }) => {
                Write::Idle { clock: Clock::Plan, to, below, guard: Guard::Shift(shift) }
            }
            (Self::PlanAlone | Self::BothIfIdle, write) => write,
        }
    }
}

/// The answer to a booking of planned times.
#[derive(Debug, Clone, Copy)]
pub enum Planned {
    /// They are booked; places at the gate too where one write moved both clocks (LIM-3).
    Booked {
        /// In plan time.
        times: Places,
        /// In real time.
        gate: Option<Places>,
        /// The item afterwards.
        clocks: Clocks,
    },
    /// No time before the latest deadline, or a pause that ends after it (LIM-6, DST-2).
    Full(Clocks),
}

/// The answer to a booking at the gate.
#[derive(Debug, Clone, Copy)]
pub enum Gated {
    /// Places, perhaps fewer than were asked for.
    Booked(Places, Clocks),
    /// None.
    Closed(Closed, Clocks),
}

/// The limiter of one sandbox.
#[derive(Debug)]
pub struct Limiter<'a, L> {
    store: &'a L,
    seen: &'a Seen,
}

impl<'a, L: Limits> Limiter<'a, L> {
    /// Over a store, with what was seen in earlier invocations.
    pub fn new(store: &'a L, seen: &'a Seen) -> Self {
        Self { store, seen }
    }

    /// Books planned times (LIM-3).
    pub async fn plan(
        &self,
        destination: &DestinationName,
        ask: PlanAsk,
        scope: Scope,
    ) -> Result<Planned, Unavailable> {
        let known = self.known(destination);
        let first = Branch::first(known.plan, known.clocks.plan, known.clocks.plan_time(ask.now));
        let mut write = scope.narrow(match first {
            Branch::Busy => ask.busy(&known.clocks),
            Branch::Idle => ask.idle(&known.clocks),
        });
        for _ in 0..MOST_PLAN_WRITES {
            match self.write(destination, &write).await? {
                ClockAnswer::Done(clocks) => {
                    let (times, gate) = ask.booked(&write, &clocks);
                    return Ok(Planned::Booked { times, gate, clocks });
                }
                ClockAnswer::Refused(clocks) => match ask.next(&clocks) {
                    Some(next) => write = scope.narrow(next),
                    None => return Ok(Planned::Full(clocks)),
                },
            }
        }
        Err(contended("plan", MOST_PLAN_WRITES))
    }

    /// Books places at the gate (LIM-5).
    pub async fn gate(&self, destination: &DestinationName, ask: GateAsk) -> Result<Gated, Unavailable> {
        let known = self.known(destination);
        let now = ask.now.micros();
        if let Err(full @ Closed::Full) = ask.next(&known.clocks) {
            // The clock only grows: it is full still, and a crowd need not ask.
            return Ok(Gated::Closed(full, known.clocks));
        }
        let mut write = match Branch::first(known.gate, known.clocks.gate, now) {
            Branch::Busy => ask.busy(known.clocks.gate.unwrap_or(now).max(now)),
            Branch::Idle => ask.idle(),
        };
        let mut fitted = false;
        for _ in 0..MOST_WRITES {
            match self.write(destination, &write).await? {
                ClockAnswer::Done(clocks) => return Ok(Gated::Booked(ask.booked(&write, &clocks), clocks)),
                ClockAnswer::Refused(clocks) => match ask.next(&clocks) {
                    // It asked for what had just been there: a crowd takes what is left faster than this asks.
                    Ok(_) if fitted && matches!(write, Write::Busy { .. }) => {
                        return Ok(Gated::Closed(Closed::Full, clocks));
                    }
                    Ok(next) => (write, fitted) = (next, true),
                    Err(closed) => return Ok(Gated::Closed(closed, clocks)),
                },
            }
        }
        Err(contended("gate", MOST_WRITES))
    }

    /// Stores the pause that a throttled answer asks for, and tells how it stands (LIM-7).
    pub async fn throttled(
        &self,
        destination: &DestinationName,
        asked: Option<Duration>,
        started: Timestamp,
        now: Timestamp,
    ) -> Result<Clocks, Unavailable> {
        self.change_pause(destination, |pause| pause.throttled(asked, started, now)).await
    }

    /// Pauses a destination until then at least (CLS-8).
    pub async fn pause(
        &self,
        destination: &DestinationName,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Clocks, Unavailable> {
        self.change_pause(destination, |pause| pause.raised(until, now)).await
    }

    /// Ends a streak with the first 2xx after a pause, where the last answer showed one (LIM-7).
    pub async fn succeeded(&self, destination: &DestinationName, started: Timestamp) -> Result<(), Unavailable> {
        let pause = self.known(destination).clocks.pause;
        if pause.succeeded(started) != pause {
            self.change_pause(destination, |pause| pause.succeeded(started)).await?;
        }
        Ok(())
    }

    /// Reads the item, for a destination without a rate (LIM-9).
    pub async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        let clocks = self.store.read(destination).await?;
        self.seen.0.borrow_mut().entry(destination.clone()).or_default().clocks = clocks;
        Ok(clocks)
    }

    /// What this sandbox last saw.
    #[must_use]
    pub fn last_seen(&self, destination: &DestinationName) -> Clocks {
        self.known(destination).clocks
    }

    async fn change_pause(
        &self,
        destination: &DestinationName,
        change: impl Fn(lapse_policy::pause::Pause) -> lapse_policy::pause::Pause,
    ) -> Result<Clocks, Unavailable> {
        let mut clocks = self.known(destination).clocks;
        for _ in 0..MOST_PAUSES {
            let (from, to) = (clocks.pause, change(clocks.pause));
            match self.write(destination, &Write::Pause { from, to }).await? {
                ClockAnswer::Done(clocks) => return Ok(clocks),
                ClockAnswer::Refused(item) => clocks = item,
            }
        }
        Err(contended("pause", MOST_PAUSES))
    }

    fn known(&self, destination: &DestinationName) -> Known {
        self.seen.0.borrow().get(destination).copied().unwrap_or_default()
    }

    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        let answer = self.store.write(destination, write).await?;
        let mut seen = self.seen.0.borrow_mut();
        let known = seen.entry(destination.clone()).or_default();
        match answer {
            ClockAnswer::Done(clocks) => {
                known.clocks = clocks;
                match write {
                    Write::Busy { clock: Clock::Plan, .. } => known.plan = Branch::Busy,
                    Write::Busy { clock: Clock::Gate, .. } => known.gate = Branch::Busy,
                    Write::Idle { clock: Clock::Plan, .. } => known.plan = Branch::Idle,
                    Write::Idle { clock: Clock::Gate, .. } => known.gate = Branch::Idle,
                    Write::BothIdle { .. } => (known.plan, known.gate) = (Branch::Idle, Branch::Idle),
                    Write::Pause { .. } => {}
                }
            }
            ClockAnswer::Refused(clocks) => known.clocks = clocks,
        }
        Ok(answer)
    }
}

fn contended(what: &str, times: usize) -> Unavailable {
    Unavailable { operation: "UpdateItem limits", cause: format!("lost the race for the {what} clock {times} times") }
}
