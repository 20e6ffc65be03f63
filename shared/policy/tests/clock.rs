//! LIM-1, LIM-3, LIM-5, LIM-7: a destination's two clocks, the distances on them, and the writes that move them.

use std::num::NonZeroU32;
use std::time::Duration;

use lapse_policy::clock::{Clock, Clocks, Guard, Spacing, Write};
use lapse_policy::destination::Rate;
use lapse_policy::pause::Pause;
use lapse_policy::timestamp::{Micros, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);

fn spacing(limit: u32, per_seconds: u32, burst: u32, jitter_ms: u64) -> Spacing {
    let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    let rate = Rate { limit: number(limit), per_seconds: number(per_seconds), burst: number(burst) };
    Spacing::of(rate, Duration::from_millis(jitter_ms))
}

/// The four distances in µs.
#[track_caller]
fn check_spacing(label: &str, spacing: Spacing, gate: (i64, i64), plan: (i64, i64)) {
    let Spacing { gate_step, gate_tol, plan_step, plan_tol, late: _ } = spacing;
    assert_eq!((gate_step.0, gate_tol.0), gate, "{label}: gate");
    assert_eq!((plan_step.0, plan_tol.0), plan, "{label}: plan");
}

#[test]
fn lim_3_the_plan_is_slower_and_narrower_than_the_gate() {
    check_spacing("50/s, burst 50", spacing(50, 1, 50, 0), (20_000, 980_000), (20_409, 630_000));
    check_spacing("100/s, burst 200", spacing(100, 1, 200, 0), (10_000, 1_990_000), (10_205, 1_640_000));
    check_spacing("50/s, burst 10", spacing(50, 1, 10, 150), (20_000, 30_000), (20_409, 0));
    let (gate, plan) = ((10_000, 1_840_000), (10_205, 1_490_000));
    check_spacing("the gate's own margin counts too", spacing(100, 1, 200, 150), gate, plan);
    let (gate, plan) = ((1_000_000, 350_000), (1_020_409, 0));
    check_spacing("exactly the margin", spacing(1, 1, 2, 650), gate, plan);
    check_spacing("divides evenly", spacing(1, 98, 1, 0), (98_000_000, 0), (100_000_000, 0));
}

#[test]
fn lim_5_the_gates_tolerance_is_less_by_the_jitter() {
    check_spacing("1/h", spacing(1, 3600, 1, 0), (3_600_000_000, 0), (3_673_469_388, 0));
    check_spacing("10,000/s, burst 10,000", spacing(10_000, 1, 10_000, 150), (100, 849_900), (103, 499_900));
    check_spacing("three per second: up", spacing(3, 1, 2, 0), (333_334, 333_334), (340_137, 0));
    check_spacing("a tolerance of the jitter", spacing(20, 1, 4, 150), (50_000, 0), (51_021, 0));
}

#[test]
fn lim_5_a_burst_smaller_than_the_jitter_spreads_the_requests() {
    check_spacing("1/h, burst 1", spacing(1, 3600, 1, 150), (3_600_150_000, 0), (3_673_622_449, 0));
    check_spacing("50/s, burst 1", spacing(50, 1, 1, 150), (170_000, 0), (173_470, 0));
    check_spacing("50/s, burst 2", spacing(50, 1, 2, 150), (85_000, 0), (86_735, 0));
    check_spacing("50/s, burst 8", spacing(50, 1, 8, 150), (21_250, 0), (21_684, 0));
    check_spacing("a tolerance 1 ms short of it", spacing(20, 1, 4, 151), (50_250, 0), (51_276, 0));
    check_spacing("10,000/s, burst 1", spacing(10_000, 1, 1, 150), (150_100, 0), (153_164, 0));
    check_spacing("10,000/s, burst 1000", spacing(10_000, 1, 1000, 150), (151, 0), (155, 0));
    check_spacing("never nearer than T", spacing(10_000, 1, 1500, 150), (101, 0), (104, 0));
    check_spacing("switched off", spacing(50, 1, 1, 0), (20_000, 0), (20_409, 0));
}

#[test]
fn lim_5_a_request_may_be_as_late_as_the_network_and_no_more() {
    for (jitter_ms, late_ms) in [(0, 250), (1, 50), (50, 50), (51, 51), (150, 150), (250, 250), (10_000, 250)] {
        let late = spacing(50, 1, 50, jitter_ms).late;
        assert_eq!(late, Duration::from_millis(late_ms), "jitter of {jitter_ms} ms");
    }
}

#[test]
fn lim_5_no_rate_overflows() {
    let widest = spacing(1, 604_800, 1_000_000, 10_000);
    let (step, tol) = (604_800_000_000, 604_800_000_000 * 999_999 - 10_000_000);
    check_spacing("1 a week, burst 1,000,000", widest, (step, tol), (617_142_857_143, tol - 350_000));
}

const PLAN: Micros = Micros(5_000_000);
const GATE: Micros = Micros(7_000_000);

fn item(pause: Pause) -> Clocks {
    Clocks { plan: Some(PLAN), gate: Some(GATE), pause }
}

fn paused_until(until: Timestamp) -> Pause {
    Pause { until: Some(until), from: Some(NOW), shift: 9000, streak: 1 }
}

#[track_caller]
fn check(label: &str, write: Write, item: Clocks, expected: Option<Clocks>) {
    assert_eq!(write.apply(&item), expected, "{label}");
}

#[test]
fn lim_1_the_busy_branch_adds_between_now_and_its_limit() {
    let free = Guard::NotPaused(NOW);
    let busy = |clock, least, most, guard| Write::Busy {
        clock,
        add: Micros(10),
        least: Micros(least),
        most: Micros(most),
        guard,
    };
    let quiet = item(Pause::default());
    let gate = |g| Some(Clocks { gate: Some(Micros(g)), ..quiet });
    check("exactly now and exactly the limit", busy(Clock::Gate, GATE.0, GATE.0, free), quiet, gate(7_000_010));
    check("before now", busy(Clock::Gate, GATE.0 + 1, GATE.0 + 2, free), quiet, None);
    check("past the limit", busy(Clock::Gate, 0, GATE.0 - 1, free), quiet, None);
    check("a limit before now", busy(Clock::Gate, 9_000_000, 6_000_000, free), quiet, None);
    check("absent", busy(Clock::Gate, 0, i64::MAX, free), Clocks::default(), None);
    let plan = Some(Clocks { plan: Some(Micros(5_000_010)), ..quiet });
    check("the other clock stays", busy(Clock::Plan, PLAN.0, PLAN.0, Guard::Shift(0)), quiet, plan);
}

#[test]
fn lim_1_the_idle_branch_sets_what_is_absent_or_past() {
    let idle = |below| Write::Idle {
        clock: Clock::Gate,
        to: Micros(8_000_000),
        below: Micros(below),
        guard: Guard::NotPaused(NOW),
    };
    let plain = item(Pause::default());
    let after = Some(Clocks { gate: Some(Micros(8_000_000)), ..plain });
    check("past", idle(GATE.0 + 1), plain, after);
    check("exactly now is busy", idle(GATE.0), plain, None);
    let never = Clocks { gate: None, ..plain };
    check("absent", idle(0), never, after);
}

#[test]
fn lim_1_exactly_one_branch_takes_a_clock_with_room() {
    for offset in [-1, 0, 1] {
        let now = Micros(GATE.0 + offset);
        let guard = Guard::NotPaused(NOW);
        let most = Micros(i64::MAX);
        let busy = Write::Busy { clock: Clock::Gate, add: Micros(1), least: now, most, guard };
        let idle = Write::Idle { clock: Clock::Gate, to: now, below: now, guard };
        let plain = item(Pause::default());
        assert_ne!(busy.apply(&plain).is_some(), idle.apply(&plain).is_some(), "now is {offset} µs after");
    }
}

#[test]
fn lim_3_both_clocks_move_together_or_not_at_all() {
    let write = Write::BothIdle {
        plan: (Micros(6_000_000), Micros(5_000_001)),
        gate: (Micros(8_000_000), Micros(7_000_001)),
        shift: 9000,
        at: NOW,
    };
    let ended = item(paused_until(NOW));
    let (plan, gate) = (Some(Micros(6_000_000)), Some(Micros(8_000_000)));
    check("both idle, a pause just over", write, ended, Some(Clocks { plan, gate, ..ended }));
    check("never used", write, Clocks { plan: None, gate: None, ..ended }, Some(Clocks { plan, gate, ..ended }));
    check("plan busy", write, Clocks { plan: Some(Micros(5_000_001)), ..ended }, None);
    check("gate busy", write, Clocks { gate: Some(Micros(7_000_001)), ..ended }, None);
    check("another shift", write, item(Pause { shift: 9001, ..ended.pause }), None);
    check("paused", write, item(paused_until(NOW.plus(Duration::from_millis(1)))), None);
}

#[test]
fn lim_5_a_pause_closes_the_gate_to_its_last_millisecond() {
    let idle = Write::Idle { clock: Clock::Gate, to: GATE, below: Micros(i64::MAX), guard: Guard::NotPaused(NOW) };
    let opens = |until| idle.apply(&item(paused_until(until))).is_some();
    assert!(!opens(NOW.plus(Duration::from_millis(1))));
    assert!(opens(NOW));
    assert!(idle.apply(&item(Pause::default())).is_some());
}

#[test]
fn lim_7_a_pause_is_written_only_over_the_one_that_was_known() {
    let (from, to) = (paused_until(NOW), paused_until(NOW.plus(Duration::from_secs(9))));
    let write = Write::Pause { from, to };
    check("known", write, item(from), Some(item(to)));
    for (label, other) in [
        ("another end", Pause { until: None, ..from }),
        ("another start", Pause { from: None, ..from }),
        ("another shift", Pause { shift: 1, ..from }),
        ("another streak", Pause { streak: 2, ..from }),
    ] {
        check(label, write, item(other), None);
    }
}

#[test]
fn lim_7_plan_time_stands_still_while_a_pause_lasts() {
    let second = |s| NOW.plus(Duration::from_secs(s));
    let item = item(Pause { until: Some(second(30)), from: Some(NOW), shift: 30_000, streak: 1 });
    let before = NOW.micros();
    for (label, at, expected) in [
        ("when it begins", 0, before),
        ("in its middle", 17, before),
        ("when it ends", 30, before),
        ("a second later", 31, before.plus(Micros::SECOND)),
    ] {
        assert_eq!(item.plan_time(second(at)), expected, "{label}");
    }
    let planned = before.plus(Micros(1_500_000));
    assert_eq!(item.real_time(planned), second(31).micros().plus(Micros(500_000)), "what was planned moves along");
}
