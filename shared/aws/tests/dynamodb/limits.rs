//! LIM-1, LIM-3, LIM-5, LIM-7, LIM-9: one conditional write at a time, at each side of every bound that it compares.
//!
//! Owns: the cases. Must not: compute places.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::record_item::number;
use lapse_engines::each;
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::pause::Pause;
use lapse_policy::ports::Limits as _;
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::pair::{NOW, Pair, name};

fn at(us: i64) -> Micros {
    NOW.micros().plus(Micros(us))
}

fn after(ms: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + ms)
}

/// Guards with the pause that they meet: the first of each holds.
fn guards() -> Vec<(Pause, Guard)> {
    let shift = |stored, known| (Pause { shift: stored, ..Pause::default() }, Guard::Shift(known));
    let until = |until| (Pause { until, ..Pause::default() }, Guard::NotPaused(NOW));
    vec![
        shift(0, 0),
        shift(0, 1),
        shift(5, 5),
        shift(5, 0),
        shift(5, 4),
        shift(-5, -5),
        shift(-5, 5),
        until(None),
        until(Some(after(-1))),
        until(Some(NOW)),
        until(Some(after(1))),
        until(Some(Timestamp::FAR_FUTURE)),
    ]
}

fn with(clock: Clock, value: Option<Micros>, pause: Pause) -> Clocks {
    match clock {
        Clock::Plan => Clocks { plan: value, pause, ..Clocks::default() },
        Clock::Gate => Clocks { gate: value, pause, ..Clocks::default() },
    }
}

#[tokio::test]
async fn lim_1_the_busy_branch_compares_each_bound_exactly() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let mut done = 0;
        for clock in [Clock::Plan, Clock::Gate] {
            for value in [None, Some(at(-1)), Some(at(0)), Some(at(1_000_000)), Some(at(1_000_001))] {
                for (pause, guard) in guards() {
                    let write = Write::Busy { clock, add: Micros(20_409), least: at(0), most: at(1_000_000), guard };
                    done += u32::from(pair.check(with(clock, value, pause), write).await);
                }
            }
            let guard = Guard::Shift(0);
            let crossed = Write::Busy { clock, add: Micros(1), least: at(1), most: at(0), guard };
            assert!(!pair.check(with(clock, Some(at(0)), Pause::default()), crossed).await, "no room is no error");
        }
        assert_eq!(done, 2 * 2 * 6, "both clocks, both bounds, and six guards that hold");
    }
}

#[tokio::test]
async fn lim_1_the_idle_branch_takes_an_absent_clock_or_one_before_now() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let mut done = 0;
        for clock in [Clock::Plan, Clock::Gate] {
            for value in [None, Some(at(-1)), Some(at(0)), Some(at(1))] {
                for (pause, guard) in guards() {
                    let write = Write::Idle { clock, to: at(20_409), below: at(0), guard };
                    done += u32::from(pair.check(with(clock, value, pause), write).await);
                }
            }
        }
        assert_eq!(done, 2 * 2 * 6, "both clocks, absent and before, and six guards that hold");
    }
}

#[tokio::test]
async fn lim_1_the_longest_readings_are_compared_to_the_last_digit() {
    let readings = [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -1, 0, 1, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
    let end = Timestamp::FAR_FUTURE.micros();
    let readings = readings.into_iter().map(Micros).chain([end.minus(Micros(1)), end, end.plus(Micros(1))]);
    let readings: Vec<_> = readings.collect();
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        for value in &readings {
            for other in &readings {
                let item = with(Clock::Gate, Some(*value), Pause::default());
                let guard = Guard::NotPaused(NOW);
                let below = Write::Idle { clock: Clock::Gate, to: *value, below: *other, guard };
                assert_eq!(pair.check(item, below).await, value < other, "{value:?} below {other:?}");
                let within = Write::Busy { clock: Clock::Gate, add: Micros(0), least: *other, most: *other, guard };
                assert_eq!(pair.check(item, within).await, value == other, "{value:?} is {other:?}");
            }
        }
    }
}

#[tokio::test]
async fn lim_3_one_write_moves_both_clocks_only_where_both_are_idle() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let mut done = 0;
        let values = [None, Some(at(-1)), Some(at(0))];
        for plan in values {
            for gate in values {
                for (shift, known, until) in
                    [(0, 0, None), (7, 7, Some(NOW)), (7, 7, Some(after(1))), (7, 0, None), (0, -7, None)]
                {
                    let pause = Pause { shift, until, ..Pause::default() };
                    let (to_plan, to_gate) = ((at(100), at(0)), (at(200), at(0)));
                    let write = Write::BothIdle { plan: to_plan, gate: to_gate, shift: known, at: NOW };
                    done += u32::from(pair.check(Clocks { plan, gate, pause }, write).await);
                }
            }
        }
        assert_eq!(done, 2 * 2 * 2, "each clock absent or before, and two guards that hold");
    }
}

#[tokio::test]
async fn lim_7_a_pause_is_swapped_as_a_whole() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let free = Pause::default();
        let full = Pause { until: Some(after(9000)), from: Some(NOW), shift: 9000, streak: 2 };
        let stopped = Pause { until: Some(Timestamp::FAR_FUTURE), from: None, shift: -1, streak: u32::MAX };
        for from in [free, full, stopped] {
            for to in [free, full, stopped] {
                let item = Clocks { plan: Some(at(5)), gate: Some(at(6)), pause: from };
                assert!(pair.check(item, Write::Pause { from, to }).await, "{from:?} to {to:?}");
            }
        }
        for item in [free, full] {
            let others = [
                Pause { until: Some(after(9001)), ..item },
                Pause { from: Some(after(-1)), ..item },
                Pause { shift: item.shift - 1, ..item },
                Pause { streak: item.streak + 1, ..item },
                Pause { until: None, from: None, shift: 3, streak: 0 },
            ];
            for from in others {
                let stored = Clocks { pause: item, ..Clocks::default() };
                assert!(!pair.check(stored, Write::Pause { from, to: stopped }).await, "{from:?} on {item:?}");
            }
        }
        let absent = [Pause { until: None, ..full }, Pause { from: None, ..full }, Pause { shift: 0, ..full }];
        for from in absent.into_iter().chain([Pause { streak: 0, ..full }]) {
            let stored = Clocks { pause: full, ..Clocks::default() };
            assert!(!pair.check(stored, Write::Pause { from, to: free }).await, "{from:?} is not what is there");
        }
    }
}

#[tokio::test]
async fn lim_7_a_lifted_pause_leaves_no_attribute_behind() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let destination = name("catalog");
        let hour = Pause::default().raised(NOW.plus(Duration::from_hours(1)), NOW);
        for (from, to) in [(Pause::default(), hour), (hour, Pause::default())] {
            assert!(pair.write("set and lifted", &destination, &Write::Pause { from, to }).await);
        }
        let mut left: Vec<_> = pair.raw(&destination).await.unwrap().into_keys().collect();
        left.sort();
        assert_eq!(left, ["destination", "lane"]);
    }
}

#[tokio::test]
async fn lim_1_a_refused_write_on_an_absent_item_creates_nothing() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let gone = Pause { until: Some(NOW), ..Pause::default() };
        let refused = [
            Write::Busy { clock: Clock::Plan, add: Micros(1), least: at(-1), most: at(1), guard: Guard::Shift(0) },
            Write::Busy {
                clock: Clock::Gate,
                add: Micros(1),
                least: at(-1),
                most: at(1),
                guard: Guard::NotPaused(NOW),
            },
            Write::Idle { clock: Clock::Plan, to: at(1), below: at(0), guard: Guard::Shift(1) },
            Write::BothIdle { plan: (at(1), at(0)), gate: (at(1), at(0)), shift: 1, at: NOW },
            Write::Pause { from: gone, to: Pause::default() },
        ];
        for write in refused {
            let destination = name("nobody");
            assert!(!pair.write("absent", &destination, &write).await, "{write:?}");
            assert_eq!(pair.raw(&destination).await, None, "{write:?}");
        }
    }
}

#[tokio::test]
async fn lim_9_an_absent_item_reads_as_never_limited() {
    for engine in each() {
        let pair = Pair::new(engine).await;
        assert_eq!(pair.store.read(&name("nobody")).await, Ok(Clocks::default()));
    }
}

#[tokio::test]
async fn lim_7_zeros_that_are_stored_are_no_pause() {
    for engine in each() {
        let mut pair = Pair::new(engine).await;
        let destination = name("catalog");
        pair.put(&destination, vec![("shift", number(0)), ("streak", number(0))]).await;
        let idle = Write::Idle { clock: Clock::Plan, to: at(1), below: at(0), guard: Guard::Shift(0) };
        assert!(pair.answer("booked", &destination, &idle).await);
        let from = Pause::default();
        assert!(pair.write("paused", &destination, &Write::Pause { from, to: from.raised(after(1), NOW) }).await);
    }
}

#[tokio::test]
async fn lim_8_an_item_that_cannot_be_read_is_an_error_that_names_the_attribute() {
    for engine in each() {
        let pair = Pair::new(engine).await;
        for attribute in ["plan", "gate", "paused_until", "pause_from", "shift", "streak"] {
            let destination = name(attribute);
            let soon = AttributeValue::S("soon".to_owned());
            pair.put(&destination, vec![(attribute, soon)]).await;
            let error = pair.store.read(&destination).await.unwrap_err();
            assert_eq!(error.cause, format!("the clock's attribute {attribute} cannot be read"));
            // A write whose condition does not hold tells it just the same.
            let write = Write::Pause { from: Pause { streak: 9, ..Pause::default() }, to: Pause::default() };
            let refused = pair.store.write(&destination, &write).await.unwrap_err();
            assert_eq!(refused.cause, error.cause);
        }
    }
}

#[tokio::test]
async fn lim_8_a_store_without_its_table_is_unavailable() {
    for engine in each() {
        let store = DynamoLimits::new(engine.client(), "no-such-table".to_owned());
        let write = Write::Idle { clock: Clock::Gate, to: at(1), below: at(0), guard: Guard::NotPaused(NOW) };
        assert_eq!(store.write(&name("catalog"), &write).await.unwrap_err().operation, "UpdateItem limits");
        assert_eq!(store.read(&name("catalog")).await.unwrap_err().operation, "GetItem limits");
    }
}
