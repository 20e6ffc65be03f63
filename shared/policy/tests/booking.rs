//! LIM-1 to LIM-6: which write a booking tries, what follows from a refusal, and which places it gets.

#![expect(clippy::expect_used, reason = "a helper of tests fails the test it is called from")]

use std::num::NonZeroU32;
use std::time::Duration;

use lapse_policy::booking::{Closed, GateAsk, PlanAsk};
use lapse_policy::clock::{Clock, Clocks, Guard, Spacing, Write};
use lapse_policy::destination::Rate;
use lapse_policy::pause::Pause;
use lapse_policy::timestamp::{Micros, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);
const HOUR: Duration = Duration::from_hours(1);
/// The most writes of one booking (LIM-1).
const MOST: usize = 3;

fn spacing(limit: u32, burst: u32) -> Spacing {
    let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Spacing::of(Rate { limit: number(limit), per_seconds: number(1), burst: number(burst) }, Duration::ZERO)
}

/// So many µs after [`NOW`].
fn at(us: i64) -> Micros {
    NOW.micros().plus(Micros(us))
}

fn after(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

/// Ten per second; the gate lets three go at once.
fn gate(count: usize) -> GateAsk {
    GateAsk { count, now: NOW, spacing: spacing(10, 3) }
}

/// 98 per second, a plan of exactly one per 10 ms, and no tolerance on either clock.
fn plan(count: usize, reach: Timestamp) -> PlanAsk {
    let gate_step = Micros(9800);
    let none = Micros(0);
    let spacing =
        Spacing { gate_step, gate_tol: none, plan_step: Micros(10_000), plan_tol: none, late: Duration::ZERO };
    PlanAsk { count, now: NOW, reach, spacing }
}

fn gate_at(gate: Micros) -> Clocks {
    Clocks { gate: Some(gate), ..Clocks::default() }
}

fn plan_at(plan: Micros) -> Clocks {
    Clocks { plan: Some(plan), ..Clocks::default() }
}

fn paused(until: Timestamp) -> Pause {
    Pause::default().raised(until, NOW)
}

/// The places in µs after [`NOW`] of what a fresh item at the gate leads to.
#[track_caller]
fn check_gate(label: &str, ask: GateAsk, item: Clocks, expected: Result<&[i64], Closed>) {
    let places = ask.next(&item).map(|write| {
        let after = write.apply(&item).expect(label);
        ask.booked(&write, &after).iter().map(|place| place.minus(at(0)).0).collect::<Vec<_>>()
    });
    assert_eq!(places, expected.map(<[i64]>::to_vec), "{label}");
}

/// The planned times in µs after [`NOW`] of what a fresh item leads to, in plan time.
#[track_caller]
fn check_plan(label: &str, ask: PlanAsk, item: Clocks, expected: Option<&[i64]>) {
    let places = ask.next(&item).map(|write| {
        let after = write.apply(&item).expect(label);
        ask.booked(&write, &after).0.iter().map(|place| place.minus(at(0)).0).collect::<Vec<_>>()
    });
    assert_eq!(places, expected.map(<[i64]>::to_vec), "{label}");
}

/// The loop that every caller of this module has: write; on a refusal, what follows from the item as it is. After
/// each refusal the others move it on once more. The answer is the writes it took, and the booking if there is one.
fn book(
    mut item: Clocks,
    first: Write,
    next: impl Fn(&Clocks) -> Option<Write>,
    others: &[fn(Clocks) -> Clocks],
) -> (usize, Option<(Write, Clocks)>) {
    let mut write = first;
    for tried in 1..=MOST {
        if let Some(after) = write.apply(&item) {
            return (tried, Some((write, after)));
        }
        let Some(follows) = next(&item) else { return (tried, None) };
        write = follows;
        item = others.get(tried - 1).map_or(item, |move_on| move_on(item));
    }
    (MOST, None)
}

#[test]
fn lim_2_a_place_is_at_now_or_at_the_clock_less_the_tolerance() {
    check_gate("never used", gate(5), Clocks::default(), Ok(&[0, 0, 0, 100_000, 200_000]));
    check_gate("idle", gate(2), gate_at(at(-1)), Ok(&[0, 0]));
    check_gate("busy from exactly now", gate(4), gate_at(at(0)), Ok(&[0, 0, 0, 100_000]));
    check_gate("within the tolerance", gate(3), gate_at(at(150_000)), Ok(&[0, 50_000, 150_000]));
    check_gate("beyond it", gate(2), gate_at(at(700_001)), Ok(&[500_001, 600_001]));
}

#[test]
fn lim_5_the_gate_books_exactly_as_many_as_find_a_place_within_a_second() {
    let ask = GateAsk { count: 50, now: NOW, spacing: spacing(10, 1) };
    let count = |clock: i64| {
        ask.next(&gate_at(at(clock))).map(|write| {
            let after = write.apply(&gate_at(at(clock)));
            after.map_or(0, |after| ask.booked(&write, &after).count)
        })
    };
    for (label, clock, expected) in [
        ("idle: the eleventh is at 1.0 s", -1, Ok(11)),
        ("busy from now", 0, Ok(11)),
        ("1 µs later the eleventh is out", 1, Ok(10)),
        ("one left", 1_000_000, Ok(1)),
        ("full", 1_000_001, Err(Closed::Full)),
    ] {
        assert_eq!(count(clock), expected, "{label}");
    }
    check_gate("no more than asked for", gate(2), gate_at(at(0)), Ok(&[0, 0]));
    let hourly = Spacing { gate_step: Micros(3_600_000_000), gate_tol: Micros(0), ..spacing(1, 1) };
    check_gate("one an hour", GateAsk { spacing: hourly, ..gate(5) }, Clocks::default(), Ok(&[0]));
    check_gate("full with a tolerance", gate(1), gate_at(at(1_200_001)), Err(Closed::Full));
    check_gate("the last place with a tolerance", gate(9), gate_at(at(1_200_000)), Ok(&[1_000_000]));
    let crowd = GateAsk { count: 20_000, now: NOW, spacing: spacing(10_000, 100) };
    let write = crowd.next(&Clocks::default()).expect("open");
    let after = write.apply(&Clocks::default()).expect("idle");
    assert_eq!(crowd.booked(&write, &after).count, 10_100, "10,000/s and a burst of 100");
}

#[test]
fn lim_5_the_busy_branch_never_takes_a_place_beyond_a_second() {
    let ask = gate(5);
    for clock in (-500_000..1_500_000).step_by(12_500).map(at) {
        let write = ask.busy(clock);
        for moved in [-100_000, -1, 0, 1, 100_000].map(|by| clock.plus(Micros(by))) {
            let Some(after) = write.apply(&gate_at(moved)) else { continue };
            let places = ask.booked(&write, &after);
            assert_eq!(places.within(Duration::from_secs(1)), places.count, "{write:?} at {moved:?}");
        }
    }
}

#[test]
fn lim_5_a_clock_that_is_remembered_from_the_past_still_makes_a_write_that_can_hold() {
    let ask = GateAsk { count: 50, now: NOW, spacing: spacing(10, 1) };
    let write = ask.busy(at(-10_000_000));
    let after = write.apply(&gate_at(at(0))).expect("others moved the gate up to now");
    assert_eq!(ask.booked(&write, &after).count, 11);
}

#[test]
fn lim_5_a_pause_closes_the_gate() {
    let item = |until| Clocks { pause: paused(until), ..gate_at(at(-1)) };
    check_gate("it lasts", gate(1), item(after(1)), Err(Closed::Paused(after(1))));
    check_gate(
        "it is over",
        gate(1),
        Clocks { pause: Pause { until: Some(NOW), ..paused(after(1)) }, ..item(NOW) },
        Ok(&[0]),
    );
    let full = Clocks { pause: paused(after(9)), ..gate_at(at(5_000_000)) };
    check_gate("full and paused: it waits for the pause", gate(1), full, Err(Closed::Paused(after(9))));
    for write in [gate(1).busy(at(0)), gate(1).idle()] {
        let other = item(after(1));
        assert_eq!(write.apply(&other), None, "a write that does not know of it");
        assert_eq!(write.apply(&Clocks { gate: Some(at(0)), ..other }), None);
    }
}

#[test]
fn lim_5_a_refused_place_is_there_at_its_instant_and_not_before() {
    let item = gate_at(at(4_000_000));
    let ask = |ms| GateAsk { now: after(ms), ..gate(1) };
    // The place is at 4.0 s less the tolerance of 0.2 s; the gate gives it one second ahead.
    assert_eq!(ask(2799).next(&item), Err(Closed::Full));
    assert_eq!(ask(2800).next(&item), Ok(ask(2800).busy(at(4_000_000))));
}

#[test]
fn lim_1_a_wrong_first_branch_costs_one_write_more() {
    let busy = gate_at(at(300_000));
    let ask = gate(2);
    let next = |item: &Clocks| ask.next(item).ok();
    for (label, first, item, writes) in [
        ("busy on busy", ask.busy(at(300_000)), busy, 1),
        ("idle on busy", ask.idle(), busy, 2),
        ("idle on idle", ask.idle(), Clocks::default(), 1),
        ("busy on idle", ask.busy(at(300_000)), Clocks::default(), 2),
        ("busy on a clock that went on", ask.busy(at(0)), gate_at(at(1_100_001)), 2),
    ] {
        let (tried, booked) = book(item, first, next, &[]);
        assert!(booked.is_some() && tried == writes, "{label}: {tried} writes");
    }
}

#[test]
fn lim_1_a_lost_race_takes_the_other_branch_and_the_third_loss_is_the_end() {
    let ask = gate(2);
    let next = |item: &Clocks| ask.next(item).ok();
    let to_busy: fn(Clocks) -> Clocks = |item| Clocks { gate: Some(at(100_000)), ..item };
    let to_idle: fn(Clocks) -> Clocks = |item| Clocks { gate: Some(at(-1)), ..item };
    let pause: fn(Clocks) -> Clocks = |item| Clocks { pause: paused(after(5000)), ..item };
    let (tried, booked) = book(gate_at(at(50_000)), ask.idle(), next, &[to_idle]);
    let (write, item) = booked.expect("booked");
    assert_eq!((tried, write, item.gate), (3, ask.idle(), Some(at(200_000))), "busy was refused, idle took it");
    let (tried, booked) = book(gate_at(at(50_000)), ask.idle(), next, &[to_idle, to_busy]);
    assert_eq!((tried, booked), (3, None), "each write came too late");
    let (tried, booked) = book(gate_at(at(50_000)), ask.idle(), next, &[pause]);
    assert_eq!((tried, booked), (2, None), "a pause ends the loop");
    let (tried, booked) = book(gate_at(at(9_000_000)), ask.idle(), next, &[]);
    assert_eq!((tried, booked), (1, None), "a full gate too");
}

#[test]
fn lim_1_what_follows_from_a_fresh_item_always_holds_on_it() {
    let clocks =
        || [None, Some(-9_000_000), Some(-1), Some(0), Some(1), Some(999_999), Some(1_200_000), Some(8_000_000)];
    let pauses =
        [Pause::default(), paused(after(1)), paused(after(2500)), paused(after(2500)).lifted(after(1)), paused(NOW)];
    for (planned, booked) in clocks().into_iter().flat_map(|p| clocks().map(|g| (p.map(at), g.map(at)))) {
        for pause in pauses {
            let item = Clocks { plan: planned, gate: booked, pause };
            for count in [1, 3, 10, 500] {
                if let Some(write) = plan(count, NOW.plus(HOUR)).next(&item) {
                    assert!(write.apply(&item).is_some(), "{write:?} on {item:?}");
                }
                if let Ok(write) = gate(count).next(&item) {
                    assert!(write.apply(&item).is_some(), "{write:?} on {item:?}");
                }
            }
        }
    }
}

#[test]
fn lim_1_a_lost_reply_books_twice_which_is_slower_never_faster() {
    let ask = gate(2);
    let once = ask.idle().apply(&Clocks::default()).expect("idle");
    check_gate("again", ask, once, Ok(&[0, 100_000]));
    assert_eq!(once.gate, Some(at(200_000)), "two places at once are gone");
}

#[test]
fn lim_3_where_both_clocks_are_idle_one_write_moves_both() {
    let ask = plan(150, NOW.plus(HOUR));
    let never = Clocks::default();
    let write = ask.next(&never).expect("room");
    // 101 planned times are within 1.0 s; they get their places at the gate at once.
    let (planned, gate) = ((at(1_500_000), at(0)), (at(101 * 9800), at(0)));
    assert_eq!(write, Write::BothIdle { plan: planned, gate, shift: 0, at: NOW });
    let (planned, places) = ask.booked(&write, &write.apply(&never).expect("idle"));
    let places = places.expect("both moved");
    assert_eq!((planned.count, planned.place(149)), (150, at(1_490_000)));
    assert_eq!((places.count, places.place(0), places.place(100)), (101, at(0), at(980_000)));
    assert_eq!(places.within(Duration::from_secs(1)), 101, "the gate is faster: what is planned within 1.0 s fits");
}

#[test]
fn lim_3_where_the_gate_is_busy_or_paused_the_plan_moves_alone() {
    let ask = plan(2, NOW.plus(HOUR));
    let alone = |shift, below: Micros| Write::Idle {
        clock: Clock::Plan,
        to: below.plus(Micros(20_000)),
        below,
        guard: Guard::Shift(shift),
    };
    assert_eq!(ask.next(&gate_at(at(0))), Some(alone(0, at(0))), "gate busy");
    let item = Clocks { pause: paused(after(7000)), ..Clocks::default() };
    assert_eq!(ask.next(&item), Some(alone(7000, at(0))), "paused: plan time stands at the pause's start");
    let raced = ask.idle(&Clocks::default());
    assert_eq!(raced.apply(&gate_at(at(0))), None, "the gate was booked between");
    assert_eq!(raced.apply(&item), None, "the pause was set between");
}

#[test]
fn lim_3_a_busy_plan_gives_times_after_the_last_one() {
    let ask = plan(3, NOW.plus(HOUR));
    check_plan("busy from exactly now", ask, plan_at(at(0)), Some(&[0, 10_000, 20_000]));
    check_plan("a backlog", ask, plan_at(at(45_000_000)), Some(&[45_000_000, 45_010_000, 45_020_000]));
    let wide = Spacing { plan_tol: Micros(15_000), ..ask.spacing };
    check_plan("a tolerance", PlanAsk { spacing: wide, ..ask }, plan_at(at(5000)), Some(&[0, 0, 10_000]));
}

#[test]
fn lim_6_a_plan_reaches_to_the_latest_deadline() {
    let ask = plan(2, after(60_000));
    check_plan("exactly at it", ask, plan_at(at(60_000_000)), Some(&[60_000_000, 60_010_000]));
    check_plan("1 µs past it", ask, plan_at(at(60_000_001)), None);
    let wide = Spacing { plan_tol: Micros(500_000), ..ask.spacing };
    let ask = PlanAsk { spacing: wide, ..ask };
    check_plan("less the tolerance", ask, plan_at(at(60_500_000)), Some(&[60_000_000, 60_010_000]));
    check_plan("1 µs past that", ask, plan_at(at(60_500_001)), None);
    check_plan("idle at the deadline itself", plan(1, NOW), plan_at(at(-1)), Some(&[0]));
    let late = plan(1, NOW.minus(Duration::from_millis(1)));
    check_plan("idle after it", late, plan_at(at(-1)), None);
    check_plan("busy after it", late, plan_at(at(0)), None);
}

#[test]
fn lim_6_a_pause_counts_against_the_deadline() {
    let ask = plan(1, after(60_000));
    let item = |until, plan| Clocks { pause: paused(until), plan: Some(plan), gate: None };
    check_plan("ends at the deadline", ask, item(after(60_000), at(-1)), Some(&[0]));
    check_plan("ends after it", ask, item(after(60_001), at(-1)), None);
    // Plan time is 50 s behind then: the plan may hold 10 s more.
    check_plan("a backlog that still fits", ask, item(after(50_000), at(10_000_000)), Some(&[10_000_000]));
    check_plan("one that does not", ask, item(after(50_000), at(10_000_001)), None);
    let ended = Clocks { pause: paused(NOW.plus(HOUR)).lifted(after(50_000)), ..plan_at(at(10_000_000)) };
    check_plan("a pause of 50 s that is over", ask, ended, Some(&[10_000_000]));
}

#[test]
fn lim_7_a_plan_booked_over_a_pause_is_refused_and_learns_the_shift() {
    let ask = plan(1, NOW.plus(HOUR));
    let before = plan_at(at(2_000_000));
    let item = Clocks { pause: paused(after(30_000)), ..before };
    let (tried, booked) = book(item, ask.busy(&before), |item| ask.next(item), &[]);
    let (write, now) = booked.expect("booked");
    assert_eq!(tried, 2, "the first was made for another shift");
    let (places, _) = ask.booked(&write, &now);
    assert_eq!(places.place(0), at(2_000_000), "the order of the queue stays");
    assert_eq!(now.real_time(places.place(0)), at(32_000_000), "2 s after the pause ends");
}

#[test]
fn lim_7_what_is_planned_during_a_pause_wakes_after_it() {
    let item = Clocks { pause: paused(after(30_000)), ..plan_at(at(-5_000_000)) };
    let ask = PlanAsk { now: after(12_000), ..plan(2, NOW.plus(HOUR)) };
    let write = ask.next(&item).expect("room");
    let now = write.apply(&item).expect("holds");
    let (places, gate) = ask.booked(&write, &now);
    let real: Vec<_> = places.iter().map(|place| now.real_time(place)).collect();
    assert_eq!(real, [at(30_000_000), at(30_010_000)]);
    assert_eq!(gate, None, "no place at a gate that is closed");
}

#[test]
fn lim_6_only_the_first_of_several_times_is_sure_to_be_within_reach() {
    // The caller compares each message's own deadline with its place.
    let ask = plan(10, after(60_000));
    let item = plan_at(at(60_000_000));
    let write = ask.next(&item).expect("the first fits");
    let (places, _) = ask.booked(&write, &write.apply(&item).expect("holds"));
    let reach = ask.reach.micros();
    assert_eq!(places.iter().filter(|place| *place <= reach).count(), 1);
}
