//! LIM-4, LIM-5: whatever wakes late, the limit holds and the drain goes on.

use std::time::Duration;

use lapse_tests::fleet::chance::Span;
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::time::at;
use lapse_tests::fleet::{Fleet, Settings};

use crate::{assert_bound, catalog, rate};

/// Clocks of sandboxes are this far from true time at most (LIM-5's D).
const SKEW: Duration = Duration::from_millis(500);

/// 1,500 events at 10/s, of which nobody works on any from 30 s on for so long.
fn stalled(lasting: Duration) -> Fleet {
    let settings = Settings { workers: 20, skew_ms: 500, ..Settings::default() };
    let fleet = catalog(settings, &rate(10, 10), Behaviour::Accepts);
    fleet.offer("catalog", 1500);
    fleet.run_until(at(30_000));
    fleet.mapping.stall_until(at(30_000).plus(lasting));
    assert!(fleet.drain(at(3_600_000)));
    let figures = fleet.figures("catalog");
    assert_eq!((figures.delivered, figures.requests), (1500, 1500));
    let ideal = 1500.0 / 9.8 + lasting.as_secs_f64();
    assert!(figures.drained_s <= ideal / 0.95, "{ideal} s ideal: {figures:?}");
    assert_bound(&fleet, 10, SKEW);
    fleet
}

#[test]
fn lim_5_a_stall_of_30_s_neither_breaks_the_limit_nor_stops_the_drain() {
    stalled(Duration::from_secs(30));
}

#[test]
fn lim_5_a_stall_of_10_min_neither_breaks_the_limit_nor_stops_the_drain() {
    stalled(Duration::from_secs(600));
}

#[test]
fn lim_4_wake_ups_three_seconds_late_neither_break_the_limit_nor_stop_the_drain() {
    for late in [Span(3000, 3000), Span(0, 6000), Span(8000, 8000)] {
        let settings = Settings { workers: 20, skew_ms: 500, ..Settings::default() };
        let fleet = catalog(settings, &rate(10, 10), Behaviour::Accepts);
        fleet.world.deliveries.wake_late(late);
        fleet.offer("catalog", 500);
        let drained = fleet.drain(at(600_000));
        let figures = fleet.figures("catalog");
        assert!(drained, "{figures:?}");
        assert_eq!((figures.delivered, figures.requests), (500, 500));
        // 8 s late costs as much at the end, and sometimes once more on the way.
        assert!(figures.drained_s <= 500.0 / 9.8 / 0.7, "{figures:?}");
        assert_bound(&fleet, 10, SKEW);
    }
}
