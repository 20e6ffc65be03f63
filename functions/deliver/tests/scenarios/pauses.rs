//! LIM-7, CLS-8, DST-2: a pause stops everything for a destination, and nothing is lost while it lasts.

use std::time::Duration;

use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use serde_json::json;

use crate::world::{Fault, NOW, Reply, World, at, event, events, firsts, steady};

fn paused_until(end: Timestamp) -> Clocks {
    Clocks { pause: Pause::default().raised(end, NOW), ..Clocks::default() }
}

fn count(calls: &[String], what: &str) -> usize {
    calls.iter().filter(|call| *call == what).count()
}

/// Ten deliveries whose places are 100 ms apart; the first one's receiver answers 429 after 50 ms.
fn volley() -> World {
    let world = World::with(&steady());
    world.receivers.reply("a:1", &[Reply::Status(429)]);
    let batch = firsts(10);
    assert_eq!(world.deliver(&batch).remaining, (0..10).collect::<Vec<_>>());
    world
}

#[test]
fn lim_7_a_429_seen_by_one_stops_its_nine_siblings_that_wait_for_their_place() {
    let world = volley();
    assert_eq!(world.sent(), ["a:1"]);
    let pause = world.clocks().pause;
    assert_eq!((pause.until, pause.shift, pause.streak), (Some(at(2050)), 2000, 1));
    let calls = world.calls();
    assert_eq!((count(&calls, "plan and gate"), count(&calls, "plan"), count(&calls, "pause")), (1, 0, 1), "{calls:?}");
    for n in 2..=10 {
        let record = world.record(&format!("a:{n}"));
        let planned = NOW.micros().plus(lapse_policy::timestamp::Micros(102_041).times(n - 1));
        assert_eq!((record.state, record.attempts), (State::Waiting, 0), "a:{n}");
        assert_eq!(record.planned_at, Some(planned), "a:{n} keeps its planned time");
        let moved = Timestamp::from_millis(planned.timestamp().millis() + 2000);
        assert_eq!(record.next_at, Some(moved), "a:{n}: moved by the pause");
    }
    let throttled = world.record("a:1");
    assert_eq!((throttled.attempts, throttled.throttles), (0, 1), "RET-4: not an attempt");
    assert_eq!(throttled.next_at, Some(at(2050)));
}

#[test]
fn lim_7_a_2xx_after_the_pause_resets_the_streak_with_one_write() {
    let world = volley();
    world.calls();
    world.time.pass(Duration::from_millis(2100));
    let batch: Vec<_> = events(10).iter().map(|event| event.again(2)).collect();
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    assert_eq!(world.sent().len(), 11);
    assert_eq!(world.clocks().pause.streak, 0);
    let calls = world.calls();
    assert_eq!(count(&calls, "pause"), 1, "{calls:?}");
}

#[test]
fn lim_7_a_second_pause_in_a_row_is_longer() {
    let world = volley();
    world.receivers.reply("a:1", &[Reply::Later(429, 1)]);
    world.time.pass(Duration::from_millis(2100));
    world.deliver(&[event("a:1").again(2)]);
    let pause = world.clocks().pause;
    let started = world.starts()[1];
    assert_eq!(pause.streak, 2);
    assert_eq!(pause.until, Some(started.plus(Duration::from_millis(4050))), "the cool-down, not the shorter ask");
}

#[test]
fn lim_7_a_pause_is_applied_at_once_even_before_it_is_stored() {
    for fault in [Fault::Slow(Duration::from_millis(600)), Fault::Unavailable] {
        let world = World::with(&steady());
        world.receivers.reply("a:1", &[Reply::Status(429)]);
        world.limits.faults.then(None).then(fault);
        let batch = firsts(5);
        world.deliver(&batch);
        assert_eq!(world.sent(), ["a:1"], "{fault:?}");
    }
}

#[test]
fn lim_5_a_pause_learned_at_the_gate_is_applied_at_once() {
    let world = World::with(&steady());
    // a:1 is late and books again, a:5 has its place: in between, someone else pauses the destination.
    world.ledger.writes.then(Fault::Slow(Duration::from_millis(300)));
    let batch = firsts(8);
    let delivered = world.deliver_while(&batch, async {
        world.sleep(200).await;
        let clocks = world.clocks();
        world.set_clocks(Clocks { pause: clocks.pause.raised(at(20_000), at(200)), ..clocks });
    });
    assert_eq!((delivered.remaining.len(), world.sent().len()), (8, 0));
}

#[test]
fn lim_7_a_pause_refuses_at_the_gate_and_the_planned_time_moves_with_it() {
    let world = World::with(&steady());
    world.put("a:1", |record| Record { next_at: Some(at(0)), planned_at: Some(at(300).micros()), ..record });
    world.set_clocks(paused_until(at(20_000)));
    world.deliver(&[event("a:1").again(2)]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.planned_at), (State::Waiting, Some(at(300).micros())));
    assert_eq!((record.next_at, world.hidden()), (Some(at(20_300)), vec![20]));
    assert_eq!(count(&world.calls(), "plan"), 0, "nobody plans anew");
}

#[test]
fn lim_4_a_pause_that_ends_within_a_second_is_waited_for_here() {
    let world = World::with(&steady());
    world.put("a:1", |record| Record { next_at: Some(at(600)), planned_at: Some(at(0).micros()), ..record });
    world.set_clocks(paused_until(at(600)));
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0]);
    assert_eq!(world.starts(), [at(600)], "at its end, in this invocation");
    assert_eq!(world.record("a:1").version, 3, "a claim and a completion");
}

#[test]
fn lim_7_what_is_planned_during_a_pause_waits_for_its_end() {
    let world = World::with(&steady());
    world.set_clocks(paused_until(at(20_000)));
    let batch = firsts(2);
    world.deliver(&batch);
    assert_eq!((world.record("a:1").next_at, world.record("a:2").next_at), (Some(at(20_000)), Some(at(20_103))));
    assert_eq!(world.sent().len(), 0);
}

#[test]
fn lim_6_a_full_plan_near_the_end_of_a_pause_is_not_looked_at_over_and_over() {
    for (label, end, deadline) in [("its end", at(600), at(30_000)), ("the deadline", at(20_000), at(600))] {
        let world = World::with(&steady());
        world.set_clocks(Clocks { plan: Some(at(60_000).micros()), ..paused_until(end) });
        world.deliver(&[event("a:1").by(deadline).first()]);
        assert_eq!((world.state("a:1"), world.hidden()), (State::Waiting, vec![1]), "{label}: not for 0 s");
    }
}

#[test]
fn cls_8_410_pauses_the_destination_for_an_operator_and_keeps_its_other_events() {
    let world = World::with(&steady());
    world.receivers.reply("a:1", &[Reply::Status(410)]);
    let batch = firsts(3);
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    assert_eq!((world.state("a:1"), world.record("a:1").reason), (State::Dead, Some(Reason::Gone)));
    assert_eq!(world.clocks().pause.until, Some(Timestamp::FAR_FUTURE));
    assert_eq!((world.sent().len(), world.parked().len()), (1, 2), "parked, not lost");
}

#[test]
fn dst_2_a_long_pause_parks_for_the_shortest_of_its_end_the_deadline_and_an_hour() {
    let hour = 3_600_000;
    for (label, end, deadline, due) in [
        ("without end", Timestamp::FAR_FUTURE, at(20 * hour), at(hour)),
        ("its end", at(hour / 2), at(20 * hour), at(hour / 2)),
        ("the deadline", Timestamp::FAR_FUTURE, at(hour / 2), at(hour / 2 + 1)),
    ] {
        let world = World::with(&json!({}));
        world.set_clocks(paused_until(end));
        world.deliver(&[event("a:1").by(deadline).first()]);
        assert_eq!(world.parked(), [due], "{label}");
        assert_eq!(world.record("a:1").next_at, Some(due), "{label}");
    }
    let world = World::with(&json!({}));
    world.luck.draws.set(1.0);
    world.set_clocks(paused_until(Timestamp::FAR_FUTURE));
    world.deliver(&[event("a:1").first()]);
    assert_eq!(world.parked(), [at(hour + 300_000)], "not all at once");
}

#[test]
fn dst_2_nothing_is_lost_while_paused_and_it_dies_only_at_its_deadline() {
    for (label, members) in [("with a rate", steady()), ("without", json!({}))] {
        let world = World::with(&members);
        world.set_clocks(paused_until(Timestamp::FAR_FUTURE));
        let deadline = at(5 * 3_600_000 + 1_800_000);
        let message = event("a:1").by(deadline);
        assert_eq!(world.deliver(&[message.first()]).remaining, [0_usize; 0], "{label}");
        let mut looks = 0;
        let next = || world.schedule.rows.borrow_mut().pop().map(|row| row.key.due);
        while let Some(due) = next() {
            assert_eq!(world.state("a:1"), State::Waiting, "{label}");
            world.time.pass(due.since(world.time.now()));
            world.deliver(&[message.resumed()]);
            looks += 1;
            assert!(looks < 10, "{label}: about one an hour");
        }
        let record = world.record("a:1");
        assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::DeadlinePassed)), "{label}");
        assert!(world.time.now() > deadline, "{label}: {}", world.time.now());
        assert_eq!((world.sent().len(), world.letters().len()), (0, 1), "{label}");
    }
}

#[test]
fn dst_2_a_lifted_pause_lets_the_parked_go_at_their_next_look() {
    let world = World::with(&steady());
    world.set_clocks(paused_until(Timestamp::FAR_FUTURE));
    world.deliver(&[event("a:1").first()]);
    world.time.pass(Duration::from_secs(1800));
    let clocks = world.clocks();
    world.set_clocks(Clocks { pause: clocks.pause.lifted(world.time.now()), ..clocks });
    world.time.pass(Duration::from_secs(1800));
    for fresh in [false, true] {
        if fresh {
            world.new_sandbox();
        }
        assert_eq!(world.deliver(&[event("a:1").resumed()]).remaining, [0_usize; 0]);
        assert_eq!(world.state("a:1"), State::Delivered);
    }
}
