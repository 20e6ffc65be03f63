//! LIM-1 to LIM-3, LIM-5: a destination's two GCRA clocks, and the conditional writes that move them.
//!
//! Owns: the clocks' distances, plan time, and [`Write`]. Must not: write; a store carries a [`Write`] out and answers
//! with the item as it is then. [`Write::apply`] is the model that every store is held to.

use std::time::Duration;

use crate::destination::Rate;
use crate::pause::Pause;
use crate::timestamp::{Micros, Timestamp};

/// What the plan's tolerance is less than the gate's (LIM-3): a wake-up's own delay. Floor seconds need none: who wakes
/// early waits for a place within [`crate::booking::INLINE`]. More would keep the burst from a backlog.
const PLAN_MARGIN: Micros = Micros(350_000);
/// A request that would start later than this after its place books again, whatever the jitter (LIM-5).
pub const LATE: Duration = Duration::from_millis(250);
/// One that is no later than this never does: a crowded machine would only book again and again.
const LATE_LEAST: Duration = Duration::from_millis(50);
/// The plan runs at this share of the rate, in percent (LIM-3).
const PLAN_PERCENT: i64 = 98;

/// The distances of a destination's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spacing {
    /// Between two places at the gate.
    pub gate_step: Micros,
    /// How far before the gate's clock a place may be.
    pub gate_tol: Micros,
    /// Between two planned times.
    pub plan_step: Micros,
    /// How far before the plan's clock a planned time may be.
    pub plan_tol: Micros,
    /// How late after its place a request may start.
    pub late: Duration,
}

impl Spacing {
    /// The distances of a rate (LIM-3, LIM-5). Divisions round up: slower, never faster. Whoever starts late moves the
    /// distances as the network does, so lateness has no more room than the jitter.
    #[must_use]
    pub fn of(rate: Rate, jitter: Duration) -> Self {
        let ceil = |a: i64, b: i64| a / b + i64::from(a % b > 0);
        let burst = i64::from(rate.burst.get());
        let step = ceil(i64::from(rate.per_seconds.get()) * 1_000_000, i64::from(rate.limit.get()));
        let tol = step.saturating_mul(burst - 1);
        let late = if jitter.is_zero() { LATE } else { jitter.clamp(LATE_LEAST, LATE) };
        let jitter = Micros::of(jitter).0;
        let (gate_step, gate_tol) =
            if tol >= jitter { (step, tol - jitter) } else { (step.max(ceil(step + jitter, burst)), 0) };
        Self {
            gate_step: Micros(gate_step),
            gate_tol: Micros(gate_tol),
            plan_step: Micros(ceil(gate_step.saturating_mul(100), PLAN_PERCENT)),
            plan_tol: Micros(gate_tol).minus(PLAN_MARGIN).max(Micros(0)),
            late,
        }
    }
}

/// A destination's clock item. Absent attributes are those of a destination that was never limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The plan's clock, in plan time.
    pub plan: Option<Micros>,
    /// The gate's clock, in real time.
    pub gate: Option<Micros>,
    /// The pause and what pauses have left behind.
    pub pause: Pause,
}

impl Clocks {
    /// The end of a pause that lasts now.
    #[must_use]
    pub fn paused(&self, now: Timestamp) -> Option<Timestamp> {
        self.pause.until.filter(|until| *until > now)
    }

    /// Plan time at an instant: real time less `shift`; it stands still while a pause lasts (LIM-7).
    #[must_use]
    pub fn plan_time(&self, now: Timestamp) -> Micros {
        let real = self.paused(now).unwrap_or(now);
        real.micros().minus(self.shift())
    }

    /// The real time of a planned one, as the pauses so far have moved it.
    #[must_use]
    pub fn real_time(&self, planned: Micros) -> Micros {
        planned.plus(self.shift())
    }

    fn shift(&self) -> Micros {
        Micros(self.pause.shift.saturating_mul(1000))
    }
}

/// One conditional write on a clock item. Every condition compares values itself: nothing is read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// `clock += add` if `least <= clock <= most` (LIM-1, busy branch).
    Busy {
        /// Which clock.
        clock: Clock,
        /// What is added.
        add: Micros,
        /// The clock's now.
        least: Micros,
        /// The limit of the booking.
        most: Micros,
        /// What else must hold.
        guard: Guard,
    },
    /// `clock = to` if it is absent or before `below` (LIM-1, idle branch).
    Idle {
        /// Which clock.
        clock: Clock,
        /// What it becomes.
        to: Micros,
        /// The clock's now.
        below: Micros,
        /// What else must hold.
        guard: Guard,
    },
    /// Both clocks in one write, if both are idle (LIM-3).
    BothIdle {
        /// What the plan becomes, and its now.
        plan: (Micros, Micros),
        /// What the gate becomes, and its now.
        gate: (Micros, Micros),
        /// The shift that must hold.
        shift: i64,
        /// The instant at which no pause may last.
        at: Timestamp,
    },
    /// The pause becomes `to` if it is `from` (LIM-7).
    Pause {
        /// What is stored, as far as we know.
        from: Pause,
        /// What shall be.
        to: Pause,
    },
}

/// Which of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// When to wake.
    Plan,
    /// Whether to send.
    Gate,
}

/// What a booking on one clock relies on beside the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The plan's: `shift` is the one that was known (LIM-7).
    Shift(i64),
    /// The gate's: no pause lasts at this instant (LIM-5).
    NotPaused(Timestamp),
}

impl Write {
    /// What the write makes of an item, or `None` if its condition does not hold.
    #[must_use]
    pub fn apply(&self, item: &Clocks) -> Option<Clocks> {
        let mut after = *item;
        match *self {
            Self::Busy { clock, add, least, most, guard } => {
                let value = item.clock(clock).filter(|c| (least..=most).contains(c))?;
                guard.holds(item).then_some(())?;
                *after.clock_mut(clock) = Some(value.plus(add));
            }
            Self::Idle { clock, to, below, guard } => {
                let idle = item.clock(clock).is_none_or(|c| c < below);
                (idle && guard.holds(item)).then_some(())?;
                *after.clock_mut(clock) = Some(to);
            }
            Self::BothIdle { plan, gate, shift, at } => {
                let idle = item.plan.is_none_or(|c| c < plan.1) && item.gate.is_none_or(|c| c < gate.1);
                let guards = Guard::Shift(shift).holds(item) && Guard::NotPaused(at).holds(item);
                (idle && guards).then_some(())?;
                after.plan = Some(plan.0);
                after.gate = Some(gate.0);
            }
            Self::Pause { from, to } => {
                (item.pause == from).then_some(())?;
                after.pause = to;
            }
        }
        Some(after)
    }
}

impl Clocks {
    fn clock(&self, clock: Clock) -> Option<Micros> {
        match clock {
            Clock::Plan => self.plan,
            Clock::Gate => self.gate,
        }
    }

    fn clock_mut(&mut self, clock: Clock) -> &mut Option<Micros> {
        match clock {
            Clock::Plan => &mut self.plan,
            Clock::Gate => &mut self.gate,
        }
    }
}

impl Guard {
    fn holds(self, item: &Clocks) -> bool {
        match self {
            Self::Shift(shift) => item.pause.shift == shift,
            Self::NotPaused(at) => item.paused(at).is_none(),
        }
    }
}
