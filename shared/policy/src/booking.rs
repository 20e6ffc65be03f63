//! LIM-2 to LIM-6: booking planned times and places at the gate.
//!
//! Owns: which write to try, which follows from a refusal, and where the places of an accepted one are.
//! Must not: write, or retry; that is the caller's loop, at most three writes long.

use std::time::Duration;

use crate::clock::{Clock, Clocks, Guard, Spacing, Write};
use crate::timestamp::{Micros, Timestamp};

/// A place within this is waited for in the invocation; a later one is not (LIM-4, LIM-5).
pub const INLINE: Duration = Duration::from_secs(1);
/// `n` places that were booked on one clock (LIM-2), in that clock's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    before: Micros,
    now: Micros,
    step: Micros,
    tol: Micros,
    /// How many there are.
    pub count: usize,
}

impl Places {
    /// Place `i`, counted from 0: `max(now, before + i x step - tol)`.
    #[must_use]
    pub fn place(&self, i: usize) -> Micros {
        self.before.plus(self.step.times(i)).minus(self.tol).max(self.now)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Micros> + '_ {
        (0..self.count).map(|i| self.place(i))
    }

    /// How many are at most `ahead` after now.
    #[must_use]
    pub fn within(&self, ahead: Duration) -> usize {
        let last = self.now.plus(Micros::of(ahead));
        self.iter().take_while(|place| *place <= last).count()
    }
}

/// A booking of `count` planned times (LIM-3).
#[derive(Debug, Clone, Copy)]
pub struct PlanAsk {
    /// How many.
    pub count: usize,
    /// Now.
    pub now: Timestamp,
    /// The latest deadline among the messages (LIM-6).
    pub reach: Timestamp,
    /// The destination's distances.
    pub spacing: Spacing,
}

impl PlanAsk {
    fn guard(item: &Clocks) -> Guard {
        Guard::Shift(item.pause.shift)
    }

    /// The busy branch on an item that is known, perhaps from an earlier answer.
    #[must_use]
    pub fn busy(&self, item: &Clocks) -> Write {
        let reach = self.reach.micros().minus(Micros(item.pause.shift.saturating_mul(1000)));
        Write::Busy {
            clock: Clock::Plan,
            add: self.spacing.plan_step.times(self.count),
            least: item.plan_time(self.now),
            most: reach.plus(self.spacing.plan_tol),
            guard: Self::guard(item),
        }
    }

    /// The idle branch; it moves the gate too if that looks idle and is not paused (LIM-3).
    #[must_use]
    pub fn idle(&self, item: &Clocks) -> Write {
        let below = item.plan_time(self.now);
        let to = below.plus(self.spacing.plan_step.times(self.count));
        let gate = self.now.micros();
        if item.gate.is_none_or(|c| c < gate) && item.paused(self.now).is_none() {
            let moved = self.spacing.gate_step.times(self.idle_places(item).within(INLINE));
            let shift = item.pause.shift;
            Write::BothIdle { plan: (to, below), gate: (gate.plus(moved), gate), shift, at: self.now }
        } else {
            Write::Idle { clock: Clock::Plan, to, below, guard: Self::guard(item) }
        }
    }

    fn idle_places(&self, item: &Clocks) -> Places {
        self.places(item.plan_time(self.now), item)
    }

    fn places(&self, before: Micros, item: &Clocks) -> Places {
        Places {
            before,
            now: item.plan_time(self.now),
            step: self.spacing.plan_step,
            tol: self.spacing.plan_tol,
            count: self.count,
        }
    }

    /// What an accepted write booked: planned times, and places at the gate if it moved both.
    #[must_use]
    pub fn booked(&self, write: &Write, after: &Clocks) -> (Places, Option<Places>) {
        match write {
            Write::Busy { add, .. } => {
                let before = after.plan.unwrap_or_default().minus(*add);
                (self.places(before, after), None)
            }
            Write::Idle { .. } | Write::Pause { .. } => (self.idle_places(after), None),
            Write::BothIdle { gate, .. } => {
                let planned = self.idle_places(after);
                let gate = Places {
                    before: gate.1,
                    now: gate.1,
                    step: self.spacing.gate_step,
                    tol: self.spacing.gate_tol,
                    count: planned.within(INLINE),
                };
                (planned, Some(gate))
            }
        }
    }

    /// The write that follows from an item that is fresh, or `None` if the plan is full (LIM-6).
    #[must_use]
    pub fn next(&self, item: &Clocks) -> Option<Write> {
        let now = item.plan_time(self.now);
        match item.plan {
            Some(plan) if plan >= now => {
                let write = self.busy(item);
                write.apply(item).map(|_| write)
            }
            Some(_) | None => Some(self.idle(item)).filter(|_| now <= self.last_place(item)),
        }
    }

    fn last_place(&self, item: &Clocks) -> Micros {
        self.reach.micros().minus(Micros(item.pause.shift.saturating_mul(1000)))
    }
}

/// A booking of up to `count` places at the gate (LIM-5).
#[derive(Debug, Clone, Copy)]
pub struct GateAsk {
    /// How many at most.
    pub count: usize,
    /// Now.
    pub now: Timestamp,
    /// The destination's distances.
    pub spacing: Spacing,
}

/// Why the gate gives no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// A pause lasts.
    Paused(Timestamp),
    /// No place within [`INLINE`].
    Full,
}

impl GateAsk {
    /// How many find a place within [`INLINE`] if the gate's clock reads `clock`.
    fn fitting(&self, clock: Micros) -> usize {
        let Spacing { gate_step: step, gate_tol: tol, .. } = self.spacing;
        let room = self.now.micros().plus(Micros::of(INLINE)).plus(tol).minus(clock);
        if room < Micros(0) {
            return 0;
        }
        let more = usize::try_from(room.0 / step.0.max(1)).unwrap_or(usize::MAX);
        more.saturating_add(1).min(self.count)
    }

    /// The busy branch for as many as fit if the clock reads no more than `clock`, or now where that is past.
    #[must_use]
    pub fn busy(&self, clock: Micros) -> Write {
        let Spacing { gate_step: step, gate_tol: tol, .. } = self.spacing;
        let now = self.now.micros();
        let count = self.fitting(clock.max(now)).max(1);
        Write::Busy {
            clock: Clock::Gate,
            add: step.times(count),
            least: now,
            most: now.plus(Micros::of(INLINE)).plus(tol).minus(step.times(count - 1)),
            guard: Guard::NotPaused(self.now),
        }
    }

    /// The idle branch.
    #[must_use]
    pub fn idle(&self) -> Write {
        let now = self.now.micros();
        Write::Idle {
            clock: Clock::Gate,
            to: now.plus(self.spacing.gate_step.times(self.fitting(now))),
            below: now,
            guard: Guard::NotPaused(self.now),
        }
    }

    /// The write that follows from an item that is fresh, or why there is none.
    pub fn next(&self, item: &Clocks) -> Result<Write, Closed> {
        if let Some(until) = item.paused(self.now) {
            return Err(Closed::Paused(until));
        }
        match item.gate {
            Some(gate) if gate >= self.now.micros() => {
                if self.fitting(gate) == 0 {
                    Err(Closed::Full)
                } else {
                    Ok(self.busy(gate))
                }
            }
            Some(_) | None => Ok(self.idle()),
        }
    }

    /// The places of an accepted write.
    #[must_use]
    pub fn booked(&self, write: &Write, after: &Clocks) -> Places {
        let now = self.now.micros();
        let Spacing { gate_step: step, gate_tol: tol, .. } = self.spacing;
        let gate = after.gate.unwrap_or_default();
        let (before, moved) = match write {
            Write::Busy { add, .. } => (gate.minus(*add), *add),
            Write::Idle { .. } | Write::BothIdle { .. } | Write::Pause { .. } => (now, gate.minus(now)),
        };
        let count = usize::try_from(moved.0 / step.0.max(1)).unwrap_or(0);
        Places { before, now, step, tol, count }
    }
}
