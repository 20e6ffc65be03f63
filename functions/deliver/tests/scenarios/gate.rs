//! LIM-5, RET-7: places at the gate, and the last looks before a request.

use std::time::Duration;

use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::ports::Clock as _;
use lapse_policy::reason::Reason;

use crate::world::{Fault, NOW, Reply, World, at, event, firsts, slow, steady};

fn gate_at(ms: u64) -> Clocks {
    Clocks { gate: Some(at(ms).micros()), ..Clocks::default() }
}

fn count(calls: &[String], what: &str) -> usize {
    calls.iter().filter(|call| call.starts_with(what)).count()
}

#[test]
fn lim_5_requests_start_at_their_places() {
    let world = World::with(&steady());
    let batch = firsts(10);
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    let places: Vec<_> = (0..10).map(|i| at(i * 100)).collect();
    assert_eq!(world.starts(), places);
}

#[test]
fn lim_5_a_request_that_would_start_late_books_again() {
    for (label, takes, books) in [("in time", 150, 0), ("late", 151, 1)] {
        let world = World::new();
        world.ledger.writes.then(Fault::Slow(Duration::from_millis(takes)));
        assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0_usize; 0], "{label}");
        let calls = world.calls();
        let booked = calls.iter().filter(|call| *call == "gate").count();
        assert_eq!(booked, books, "{label}: {calls:?}");
        assert_eq!(world.starts(), [at(takes)], "{label}");
    }
}

#[test]
fn lim_5_a_full_gate_plans_anew_and_undoes_the_claim() {
    let world = World::with(&slow());
    world.set_clocks(gate_at(2000));
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.attempts, record.lease), (State::Waiting, 0, None));
    assert_eq!(
        (record.next_at, record.planned_at.map(|p| p.0)),
        (Some(at(10_205)), Some(at(0).micros().0 + 10_204_082))
    );
    assert_eq!((world.sent().len(), world.hidden()), (0, vec![10]));
    assert_eq!(world.clocks().gate, gate_at(2000).gate, "nothing is booked at the gate");
    world.time.pass(Duration::from_secs(10));
    assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining, [0_usize; 0]);
}

#[test]
fn lim_5_as_many_as_find_a_place_within_a_second_are_sent_and_the_rest_waits() {
    let world = World::with(&steady());
    world.set_clocks(gate_at(950));
    let batch = firsts(10);
    let delivered = world.deliver(&batch);
    assert_eq!(delivered.remaining, (1..10).collect::<Vec<_>>());
    assert_eq!((world.sent(), world.starts()), (vec!["a:1".to_owned()], vec![at(950)]));
    assert_eq!(count(&world.calls(), "ledger write"), 3, "claims, undone claims, one completion");
    assert_eq!(world.hidden(), [1; 9], "they come back, and not at once");
}

#[test]
fn lim_5_a_gate_that_stays_full_brings_nobody_back_at_once() {
    let world = World::with(&slow());
    world.set_clocks(Clocks {
        plan: Some(at(0).micros().minus(lapse_policy::timestamp::Micros(9_500_000))),
        ..gate_at(1500)
    });
    world.put("a:1", |record| Record { next_at: Some(NOW), planned_at: Some(NOW.micros()), ..record });
    world.deliver(&[event("a:1").again(2)]);
    assert!(world.hidden().iter().all(|seconds| *seconds > 0), "{:?}", world.hidden());
    assert_eq!(world.state("a:1"), State::Waiting);
}

#[test]
fn ret_7_past_its_deadline_a_delivery_is_dead_and_nothing_is_booked_for_it() {
    let world = World::with(&slow());
    let past = NOW.minus(Duration::from_millis(1));
    let delivered = world.deliver(&[event("a:1").by(past).first(), event("a:2").by(NOW).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::DeadlinePassed)));
    assert_eq!((delivered.remaining.len(), world.letters().len()), (0, 1));
    assert_eq!(world.sent(), ["a:2"], "at its deadline one may still start");
    assert_eq!(world.clocks().plan.map(|plan| plan.0), Some(at(0).micros().0 + 10_204_082), "one booking, not two");
}

#[test]
fn ret_7_a_deadline_that_passes_while_it_waits_for_its_place_ends_it() {
    let world = World::with(&slow());
    world.set_clocks(gate_at(900));
    world.deliver(&[event("a:1").by(at(500)).first()]);
    let record = world.record("a:1");
    assert_eq!((record.reason, world.sent().len()), (Some(Reason::DeadlinePassed), 0));
    assert_eq!(world.letters().len(), 1);
}

#[test]
fn ret_2_an_attempt_is_never_earlier_than_asked() {
    for members in [steady(), serde_json::json!({})] {
        let world = World::with(&members);
        world.receivers.reply("a:1", &[Reply::Later(500, 10), Reply::Status(200)]);
        world.deliver(&[event("a:1").first()]);
        let due = at(50 + 10_000);
        assert_eq!(world.record("a:1").next_at, Some(due), "the longer of schedule and ask");
        assert_eq!(world.hidden(), [10], "it wakes at the floor second");
        let woken = due.minus(Duration::from_millis(700));
        world.time.pass(woken.since(world.time.now()));
        world.deliver(&[event("a:1").again(2)]);
        assert_eq!(world.starts(), [at(0), due], "{members}");
    }
}

#[test]
fn ret_2_jitter_only_adds() {
    let world = World::new();
    world.luck.draws.set(1.0);
    world.receivers.reply("a:1", &[Reply::Status(500)]);
    world.deliver(&[event("a:1").first()]);
    assert_eq!(world.record("a:1").next_at, Some(at(50 + 2500)), "2 s and a quarter");
}
