//! LIM-1 to LIM-3, LIM-5, LIM-7: twenty sandboxes that book at one destination at once, on a real engine.
//!
//! Owns: the races. Must not: test single bookings; the policy's own tests do.
//! Time is an argument; the races are whatever the engine makes of twenty requests that are under way together.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use futures::future::join_all;
use lapse_aws::limits::DynamoLimits;
use lapse_deliver::limiter::{Gated, Limiter, Planned, Scope, Seen};
use lapse_engines::{Engine, each};
use lapse_policy::booking::{Closed, GateAsk, INLINE, PlanAsk};
use lapse_policy::clock::{Clocks, Spacing, Write};
use lapse_policy::destination::Rate;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{ClockAnswer, Limits, Unavailable};
use lapse_policy::timestamp::{Micros, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);
const CROWD: usize = 20;

/// A store that counts its writes.
struct Counted {
    inner: DynamoLimits,
    writes: Cell<usize>,
}

impl Limits for Counted {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        self.writes.set(self.writes.get() + 1);
        self.inner.write(destination, write).await
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        self.inner.read(destination).await
    }
}

/// Twenty sandboxes, each with what it saw, and their one store.
struct Crowd {
    store: Counted,
    seen: Vec<Seen>,
    destination: DestinationName,
}

impl Crowd {
    async fn new(engine: &Engine) -> Self {
        let inner = DynamoLimits::new(engine.client(), engine.table("limits").await);
        let seen = std::iter::repeat_with(Seen::default).take(CROWD).collect();
        let destination = DestinationName::parse("catalog").unwrap();
        Self { store: Counted { inner, writes: Cell::new(0) }, seen, destination }
    }

    fn sandboxes(&self) -> impl Iterator<Item = Limiter<'_, Counted>> {
        self.seen.iter().map(|seen| Limiter::new(&self.store, seen))
    }

    /// All book at the gate at once.
    async fn gate(&self, ask: GateAsk) -> Vec<Result<Gated, Unavailable>> {
        let book = async |limiter: Limiter<'_, Counted>| limiter.gate(&self.destination, ask).await;
        join_all(self.sandboxes().map(book)).await
    }

    /// All book on the plan at once.
    async fn plan(&self, ask: PlanAsk) -> Vec<Result<Planned, Unavailable>> {
        let book = async |limiter: Limiter<'_, Counted>| limiter.plan(&self.destination, ask, Scope::BothIfIdle).await;
        join_all(self.sandboxes().map(book)).await
    }
}

fn spacing(limit: u32, burst: u32) -> Spacing {
    let number = |n| NonZeroU32::new(n).unwrap();
    Spacing::of(Rate { limit: number(limit), per_seconds: number(1), burst: number(burst) }, Duration::ZERO)
}

fn after(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

/// No more than a burst closer together than a step; so no place is given twice beyond the burst.
#[track_caller]
fn check_distances(mut places: Vec<Micros>, step: Micros, burst: usize) {
    places.sort();
    for (earlier, later) in places.iter().zip(places.iter().skip(burst)) {
        assert!(later.minus(*earlier) >= step, "{earlier:?} and {later:?}, {burst} places on: {places:?}");
    }
}

#[tokio::test]
async fn lim_5_twenty_at_the_gate_get_twenty_different_places() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let ask = GateAsk { count: 1, now: NOW, spacing: spacing(50, 1) };
        let mut places = Vec::new();
        for answer in crowd.gate(ask).await {
            let Ok(Gated::Booked(booked, _)) = answer else { panic!("there is room for all: {answer:?}") };
            assert_eq!(booked.count, 1);
            places.extend(booked.iter());
        }
        places.sort();
        let expected: Vec<_> = (0..CROWD).map(|i| NOW.micros().plus(ask.spacing.gate_step.times(i))).collect();
        assert_eq!(places, expected, "each place once, and none left out");
        assert!(crowd.store.writes.get() <= 2 * CROWD, "idle once, then busy: {}", crowd.store.writes.get());
    }
}

#[tokio::test]
async fn lim_5_a_crowd_that_wants_more_than_there_is_shares_it() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let spacing = spacing(10, 3);
        let mut places = Vec::new();
        let (mut full, mut raced) = (0, 0);
        for round in 0..6 {
            let now = after(round * 300);
            for answer in crowd.gate(GateAsk { count: 3, now, spacing }).await {
                match answer {
                    Ok(Gated::Booked(booked, clocks)) => {
                        assert!((1..=3).contains(&booked.count));
                        assert_eq!(booked.within(INLINE), booked.count, "round {round}: within a second");
                        assert!(clocks.gate.is_some_and(|gate| gate >= booked.place(booked.count - 1)));
                        places.extend(booked.iter());
                    }
                    Ok(Gated::Closed(Closed::Full, _)) => full += 1,
                    Ok(Gated::Closed(Closed::Paused(_), _)) => panic!("no one paused it"),
                    // Three races lost: its messages are deferred, nothing is sent.
                    Err(_) => raced += 1,
                }
            }
            // 3 at once, 10 a second up to a second ahead, both ends included; a round later is 3 places later.
            let most = 3 + 10 + 3 * usize::try_from(round).unwrap();
            assert!(places.len() <= most, "round {round}: {} of {most}", places.len());
        }
        check_distances(places.clone(), spacing.gate_step, 3);
        assert!(places.len() >= 20, "{} places, {full} refused, {raced} races lost", places.len());
        assert!(full > 0);
    }
}

#[tokio::test]
async fn lim_1_a_busy_clock_takes_one_write_a_booking_however_many_book() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let spacing = spacing(1000, 5);
        let mut places = Vec::new();
        let rounds = 5;
        for round in 0..rounds {
            for answer in crowd.gate(GateAsk { count: 2, now: after(round * 10), spacing }).await {
                let Ok(Gated::Booked(booked, _)) = answer else { panic!("there is room for all: {answer:?}") };
                places.extend(booked.iter());
            }
        }
        check_distances(places.clone(), spacing.gate_step, 5);
        let bookings = CROWD * usize::try_from(rounds).unwrap();
        assert_eq!(places.len(), 2 * bookings);
        // The first round finds out that the clock is busy; the budget is 1.5 (DESIGN 7).
        let writes = crowd.store.writes.get();
        assert!(writes * 2 <= bookings * 3, "{writes} writes for {bookings} bookings");
    }
}

#[tokio::test]
async fn lim_3_twenty_that_plan_get_times_of_their_own() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let ask = PlanAsk { count: 5, now: NOW, reach: after(60_000), spacing: spacing(50, 1) };
        let (mut times, mut at_gate) = (Vec::new(), Vec::new());
        for round in 0..3 {
            for answer in crowd.plan(ask).await {
                let Ok(Planned::Booked { times: planned, gate, clocks }) = answer else {
                    panic!("room for all: {answer:?}")
                };
                times.extend(planned.iter().map(|time| clocks.real_time(time)));
                at_gate.extend(gate);
            }
            assert_eq!(times.len(), 5 * CROWD * (round + 1));
        }
        times.sort();
        let expected: Vec<_> = (0..times.len()).map(|i| NOW.micros().plus(ask.spacing.plan_step.times(i))).collect();
        assert_eq!(times, expected, "each time once, and none left out");
        assert_eq!(at_gate.len(), 1, "only the first found both clocks idle");
        assert!(crowd.store.writes.get() <= CROWD * 3 + CROWD, "{}", crowd.store.writes.get());
    }
}

#[tokio::test]
async fn lim_6_a_plan_that_is_full_is_told_and_not_booked() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let reach = after(1000);
        let ask = PlanAsk { count: 5, now: NOW, reach, spacing: spacing(50, 1) };
        let mut times = Vec::new();
        let mut full = 0;
        for answer in crowd.plan(ask).await {
            match answer {
                Ok(Planned::Booked { times: planned, .. }) => times.push(planned),
                Ok(Planned::Full(clocks)) => {
                    full += 1;
                    assert!(clocks.plan.is_some_and(|plan| plan > reach.micros()));
                }
                Err(error) => panic!("{error}"),
            }
        }
        // 49 a second: ten bookings of five begin within the second.
        assert_eq!((times.len(), full), (10, 10));
        assert!(times.iter().all(|planned| planned.place(0) <= reach.micros()));
    }
}

#[tokio::test]
async fn lim_7_one_pause_shuts_the_gate_for_all_and_twenty_429s_are_one_pause() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        let ask = GateAsk { count: 1, now: NOW, spacing: spacing(50, 1) };
        crowd.gate(ask).await;
        let pause = async |limiter: Limiter<'_, Counted>| {
            limiter.throttled(&crowd.destination, Some(Duration::from_secs(5)), NOW, after(100)).await
        };
        // The first alone, then the rest of its volley together.
        let first = crowd.sandboxes().next().unwrap();
        let set = pause(first).await.unwrap();
        for answer in join_all(crowd.sandboxes().skip(1).map(pause)).await {
            assert_eq!(answer.map(|clocks| clocks.pause), Ok(set.pause), "the same ask again adds nothing");
        }
        assert_eq!((set.pause.until, set.pause.shift, set.pause.streak), (Some(after(5100)), 5000, 1));
        for answer in crowd.gate(GateAsk { now: after(5099), ..ask }).await {
            let Ok(Gated::Closed(Closed::Paused(until), _)) = answer else { panic!("not paused: {answer:?}") };
            assert_eq!(until, after(5100));
        }
        for answer in crowd.gate(GateAsk { now: after(5100), ..ask }).await {
            assert!(matches!(answer, Ok(Gated::Booked(..))), "open at its end: {answer:?}");
        }
    }
}

#[tokio::test]
async fn lim_7_no_pause_of_a_crowd_is_lost() {
    for engine in each() {
        let crowd = Crowd::new(engine).await;
        // Each asks for a second more than the one before; some lose all their races and say so.
        let pause = async |(i, limiter): (usize, Limiter<'_, Counted>)| {
            let asked = Duration::from_secs(10 + u64::try_from(i).unwrap());
            let answer = limiter.throttled(&crowd.destination, Some(asked), NOW, after(100)).await;
            answer.ok().map(|clocks| (after(100).plus(asked), clocks.pause))
        };
        let stored: Vec<_> = join_all(crowd.sandboxes().enumerate().map(pause)).await.into_iter().flatten().collect();
        let item = crowd.store.read(&crowd.destination).await.unwrap();
        let longest = stored.iter().map(|(until, _)| *until).max();
        assert_eq!(item.pause.until, longest, "the longest of those that were stored");
        let end = item.pause.until.unwrap();
        assert_eq!(
            Duration::from_millis(u64::try_from(item.pause.shift).unwrap()),
            end.since(after(100)),
            "no part counts twice"
        );
        assert_eq!(item.pause.streak, 1, "one pause");
        assert!(stored.iter().all(|(asked, pause)| pause.until.is_some_and(|until| until >= *asked)));
    }
}
