//! LIM-1, LIM-3: which branch of a booking is tried first, and how many writes the worst course of races takes.
//!
//! Owns: [`Model`], a store in which others write just before this sandbox does. Must not: stand for an engine.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use lapse_deliver::limiter::{Gated, Limiter, Planned, Scope, Seen};
use lapse_policy::booking::{Closed, GateAsk, PlanAsk};
use lapse_policy::clock::{Clock, Clocks, Guard, Spacing, Write};
use lapse_policy::destination::Rate;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{ClockAnswer, Limits, Unavailable};
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);

#[derive(Default)]
struct Model {
    item: Cell<Clocks>,
    /// What others write before each of this sandbox's writes.
    others: RefCell<VecDeque<Option<Write>>>,
    writes: Cell<usize>,
}

impl Limits for Model {
    async fn write(&self, _: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        if let Some(other) = self.others.borrow_mut().pop_front().flatten() {
            self.item.set(other.apply(&self.item.get()).unwrap());
        }
        self.writes.set(self.writes.get() + 1);
        let item = self.item.get();
        let Some(after) = write.apply(&item) else { return Ok(ClockAnswer::Refused(item)) };
        self.item.set(after);
        Ok(ClockAnswer::Done(after))
    }

    async fn read(&self, _: &DestinationName) -> Result<Clocks, Unavailable> {
        Ok(self.item.get())
    }
}

fn destination() -> DestinationName {
    DestinationName::parse("catalog").unwrap()
}

/// 50 a second, without a burst or jitter: 20 ms.
fn spacing() -> Spacing {
    let (limit, one) = (NonZeroU32::new(50).unwrap(), NonZeroU32::MIN);
    Spacing::of(Rate { limit, per_seconds: one, burst: one }, Duration::ZERO)
}

fn after(seconds: u64) -> Timestamp {
    NOW.plus(Duration::from_secs(seconds))
}

fn gate_ask(now: Timestamp) -> GateAsk {
    GateAsk { count: 1, now, spacing: spacing() }
}

fn plan_ask(now: Timestamp) -> PlanAsk {
    PlanAsk { count: 1, now, reach: now.plus(Duration::from_hours(1)), spacing: spacing() }
}

#[tokio::test]
async fn lim_1_a_clock_that_was_seen_ahead_is_added_to_at_once() {
    let model =
        Model { item: Cell::new(Clocks { gate: Some(after(9).micros()), ..Clocks::default() }), ..Model::default() };
    let seen = Seen::default();
    let limiter = Limiter::new(&model, &seen);
    // Full: nothing was won by adding yet, but the answer told the reading.
    let full = limiter.gate(&destination(), gate_ask(NOW)).await;
    assert!(matches!(full, Ok(Gated::Closed(Closed::Full, _))), "{full:?}");
    let booked = limiter.gate(&destination(), gate_ask(after(8))).await;
    assert!(matches!(booked, Ok(Gated::Booked(..))), "{booked:?}");
    assert_eq!(model.writes.get(), 2, "one each");
}

#[tokio::test]
async fn lim_5_a_gate_that_was_seen_full_is_not_asked_before_there_can_be_room() {
    let model =
        Model { item: Cell::new(Clocks { gate: Some(after(9).micros()), ..Clocks::default() }), ..Model::default() };
    let seen = Seen::default();
    let limiter = Limiter::new(&model, &seen);
    for (now, writes) in [(NOW, 1), (after(7), 1), (after(8), 2)] {
        let answer = limiter.gate(&destination(), gate_ask(now)).await;
        assert_eq!(matches!(answer, Ok(Gated::Closed(Closed::Full, _))), now < after(8), "{answer:?}");
        assert_eq!(model.writes.get(), writes, "at {now}");
    }
}

#[tokio::test]
async fn lim_5_a_gate_whose_last_places_go_to_others_twice_is_full() {
    let model = Model::default();
    let seen = Seen::default();
    let limiter = Limiter::new(&model, &seen);
    let step = spacing().gate_step;
    let now = NOW.micros();
    let to = |taken| now.plus(step.times(taken));
    let taken = |clock, add| Write::Busy {
        clock: Clock::Gate,
        add: step.times(add),
        least: clock,
        most: clock,
        guard: Guard::NotPaused(NOW),
    };
    // Others book 48 of the 51 places within a second, and then one of the three that are left.
    let idle = Write::Idle { clock: Clock::Gate, to: to(48), below: now, guard: Guard::NotPaused(NOW) };
    model.others.replace([Some(idle), Some(taken(to(48), 1))].into());
    let answer = limiter.gate(&destination(), GateAsk { count: 10, ..gate_ask(NOW) }).await;
    assert!(matches!(answer, Ok(Gated::Closed(Closed::Full, _))), "{answer:?}");
    assert_eq!(
        (model.writes.get(), model.item.get().gate),
        (2, Some(to(49))),
        "the two that are left are not fought for"
    );
}

#[tokio::test]
async fn lim_1_a_plan_that_loses_to_a_gate_and_then_to_a_plan_is_booked_all_the_same() {
    let model =
        Model { item: Cell::new(Clocks { plan: Some(after(1).micros()), ..Clocks::default() }), ..Model::default() };
    let seen = Seen::default();
    let limiter = Limiter::new(&model, &seen);
    let first = limiter.plan(&destination(), plan_ask(NOW), Scope::BothIfIdle).await;
    assert!(matches!(first, Ok(Planned::Booked { .. })), "adding won: {first:?}");
    model.writes.set(0);
    // A quiet time, and then a crowd: adding fails, both clocks fail for the gate, setting fails for the plan.
    let now = after(60).micros();
    let to = now.plus(spacing().plan_step);
    let gate = Write::Idle { clock: Clock::Gate, to, below: now, guard: Guard::NotPaused(after(60)) };
    let plan = Write::Idle { clock: Clock::Plan, to, below: now, guard: Guard::Shift(0) };
    model.others.replace([None, Some(gate), Some(plan)].into());
    let booked = limiter.plan(&destination(), plan_ask(after(60)), Scope::BothIfIdle).await;
    let Ok(Planned::Booked { times, gate: None, .. }) = booked else { panic!("{booked:?}") };
    assert_eq!(times.place(0), to, "after the other's");
    assert_eq!(model.writes.get(), 4);
}
