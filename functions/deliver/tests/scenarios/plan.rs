//! LIM-3, LIM-4, LIM-6, LIM-8, LIM-9: planned times, by which means a delivery waits, and a limiter that is down.

use std::time::Duration;

use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::pause::Pause;
use lapse_policy::reason::Reason;
use serde_json::json;

use crate::world::{Fault, World, at, event, firsts, slow, steady};

fn planned_until(ms: u64) -> Clocks {
    Clocks { plan: Some(at(ms).micros()), ..Clocks::default() }
}

#[test]
fn lim_3_earlier_deadlines_get_earlier_times() {
    let world = World::with(&slow());
    let by = |id: &str, ms| event(id).by(at(ms)).first();
    world.deliver(&[by("a:1", 3_000_000), by("a:2", 1_000_000), by("a:3", 2_000_000)]);
    assert_eq!(world.sent(), ["a:2"]);
    let planned = |id| world.record(id).next_at;
    assert_eq!((planned("a:3"), planned("a:1")), (Some(at(10_205)), Some(at(20_409))));
}

#[test]
fn lim_3_one_booking_per_destination_and_batch_for_those_without_a_time() {
    let world = World::with(&steady());
    world.put("a:1", |record| Record { planned_at: Some(at(0).micros()), next_at: Some(at(0)), ..record });
    world.deliver(&[event("a:1").again(2), event("a:2").first(), event("a:3").first()]);
    assert_eq!(world.clocks().plan.map(|plan| plan.0), Some(at(0).micros().0 + 2 * 102_041), "two planned, not three");
    assert_eq!(world.sent().len(), 3);
}

#[test]
fn lim_4_the_place_says_by_which_means_a_delivery_waits() {
    for (label, lead, sent, hidden, republished, parked) in [
        ("idle", 0, 1, vec![], vec![], vec![]),
        ("1.0 s", 1000, 1, vec![], vec![], vec![]),
        ("just over", 1001, 0, vec![1], vec![], vec![]),
        ("floor second", 12_999, 0, vec![12], vec![], vec![]),
        ("30 s", 30_000, 0, vec![30], vec![], vec![]),
        ("over 30 s", 30_001, 0, vec![], vec![30], vec![]),
        ("15 min", 900_000, 0, vec![], vec![900], vec![]),
        ("longer: a second early", 1_000_000, 0, vec![], vec![], vec![at(999_000)]),
    ] {
        let world = World::with(&slow());
        world.set_clocks(planned_until(lead));
        world.deliver(&[event("a:1").first()]);
        assert_eq!(world.sent().len(), sent, "{label}");
        assert_eq!((world.hidden(), world.republished(), world.parked()), (hidden, republished, parked), "{label}");
        if sent == 0 {
            let record = world.record("a:1");
            assert_eq!(record.state, State::Waiting, "{label}");
            assert_eq!(record.planned_at, Some(at(lead).micros()), "{label}: the time is kept");
        }
    }
}

#[test]
fn lim_4_a_woken_delivery_keeps_its_time_however_late_it_wakes() {
    for late_ms in [0, 2001, 3_600_000] {
        let world = World::with(&slow());
        world.put("a:1", |record| Record { next_at: Some(at(0)), planned_at: Some(at(0).micros()), ..record });
        world.time.pass(Duration::from_millis(late_ms));
        world.deliver(&[event("a:1").again(2)]);
        assert_eq!((world.clocks().plan, world.sent().len()), (None, 1), "{late_ms} ms: the gate says whether");
    }
}

#[test]
fn lim_6_a_full_plan_is_looked_at_again_after_half_of_the_time_left() {
    let world = World::with(&slow());
    world.set_clocks(planned_until(8_000_000));
    world.deliver(&[event("a:1").by(at(60_000)).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.next_at, record.planned_at), (State::Waiting, Some(at(30_000)), None));
    world.deliver(&[event("a:2").by(at(7_200_000)).first()]);
    assert_eq!(world.parked().len(), 1, "an hour is parked");
    assert_eq!(world.clocks(), planned_until(8_000_000), "nothing is booked");
}

#[test]
fn lim_6_a_full_plan_with_less_than_a_timeout_left_is_the_end() {
    let world = World::with(&slow());
    world.set_clocks(planned_until(100_000));
    let delivered = world.deliver(&[event("a:1").by(at(9_999)).first()]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::NoPlaceBeforeDeadline)));
    assert_eq!((delivered.remaining.len(), world.letters().len()), (0, 1));
}

#[test]
fn lim_6_a_full_plan_with_hardly_any_time_left_is_the_end_even_where_a_timeout_would_fit() {
    let mut short = slow();
    short["timeout_ms"] = json!(500);
    for (left_ms, state) in [(1_900, State::Dead), (2_200, State::Waiting)] {
        let world = World::with(&short);
        world.set_clocks(planned_until(100_000));
        world.deliver(&[event("a:1").by(at(left_ms)).first()]);
        assert_eq!(world.state("a:1"), state, "{left_ms} ms left: never hidden for 0 s, over and over");
        assert_eq!(world.hidden(), if state == State::Waiting { vec![1] } else { vec![] }, "{left_ms} ms left");
    }
}

#[test]
fn lim_6_a_time_past_its_own_deadline_is_none_although_the_batchs_latest_is_later() {
    let world = World::with(&slow());
    let by = |id: &str, ms| event(id).by(at(ms)).first();
    world.deliver(&[by("a:1", 5_000), by("a:2", 9_000), by("a:3", 900_000)]);
    assert_eq!(world.sent(), ["a:1"]);
    assert_eq!(world.record("a:2").reason, Some(Reason::NoPlaceBeforeDeadline));
    assert_eq!(world.state("a:3"), State::Waiting);
}

#[test]
fn lim_6_nothing_is_booked_for_what_would_be_past_its_deadline() {
    let world = World::with(&slow());
    world.set_clocks(planned_until(100_000));
    let by = |id: &str, ms| event(id).by(at(ms)).first();
    world.deliver(&[by("a:1", 50_000), by("a:2", 80_000), by("a:3", 105_000), by("a:4", 109_000)]);
    let plan = at(100_000).micros().plus(lapse_policy::timestamp::Micros(10_204_082));
    assert_eq!(world.clocks().plan, Some(plan), "one time, for one that can use it");
    let planned = ["a:1", "a:2", "a:3", "a:4"].map(|id| world.record(id).planned_at);
    assert_eq!(planned, [None, None, Some(at(100_000).micros()), None]);
}

#[test]
fn lim_6_a_time_that_a_late_wake_up_would_miss_is_not_booked() {
    let check = |ahead: u64, deadline: u64, planned: bool| {
        let world = World::with(&steady());
        world.set_clocks(planned_until(ahead));
        world.deliver(&[event("a:1").by(at(deadline)).first()]);
        let booked = world.clocks().plan > planned_until(ahead).plan;
        assert_eq!(booked, planned, "{ahead} ms ahead, {deadline} ms left");
    };
    check(20_000, 21_000, true);
    check(20_000, 20_999, false);
    // LIM-4: what is waited for here needs no wake-up.
    check(900, 900, true);
    check(900, 899, false);
}

#[test]
fn lim_8_without_the_limiters_store_nothing_is_sent_and_messages_come_back() {
    for members in [slow(), json!({})] {
        let world = World::with(&members);
        world.limits.faults.always(Fault::Unavailable);
        world.luck.draws.set(0.5);
        let batch = firsts(3);
        assert_eq!(world.deliver(&batch).remaining, [0, 1, 2]);
        assert_eq!((world.sent().len(), world.hidden()), (0, vec![5, 5, 5]), "with jitter");
        assert_eq!(world.record_or_none("a:1"), None, "unclaimed");
    }
}

#[test]
fn lim_8_a_gate_that_does_not_answer_undoes_the_claim_and_keeps_the_time() {
    let world = World::with(&slow());
    world.set_clocks(Clocks { gate: Some(at(500).micros()), ..Clocks::default() });
    world.limits.faults.then(None).then(None).always(Fault::Unavailable);
    world.luck.draws.set(0.5);
    assert_eq!(world.deliver(&[event("a:1").first()]).remaining, [0]);
    let record = world.record("a:1");
    assert_eq!((record.state, record.planned_at), (State::Waiting, Some(at(0).micros())));
    assert_eq!((world.sent().len(), world.hidden()), (0, vec![5]));
}

#[test]
fn lim_1_a_booking_whose_reply_was_lost_is_slower_and_never_faster() {
    let world = World::with(&slow());
    world.limits.faults.then(Fault::LostReply);
    world.deliver(&[event("a:1").first()]);
    assert_eq!(world.sent().len(), 0);
    world.time.pass(Duration::from_secs(1));
    world.deliver(&[event("a:1").again(2)]);
    assert_eq!((world.sent().len(), world.hidden()), (0, vec![1, 9]), "behind the place that was booked in vain");
}

#[test]
fn lim_9_without_a_rate_the_pause_is_read_once_and_nothing_is_booked() {
    let world = World::with(&json!({}));
    let batch = firsts(10);
    world.deliver(&batch);
    let calls = world.calls();
    assert_eq!(calls.iter().filter(|call| *call == "pause read").count(), 1, "{calls:?}");
    assert!(!calls.iter().any(|call| call.starts_with("plan") || call.starts_with("gate")), "{calls:?}");
    assert_eq!(world.sent().len(), 10);
}

#[test]
fn lim_9_without_a_rate_a_pause_holds_all_the_same() {
    let world = World::with(&json!({}));
    let pause = Pause::default().raised(at(20_000), at(0));
    world.set_clocks(Clocks { pause, ..Clocks::default() });
    world.deliver(&[event("a:1").first()]);
    assert_eq!((world.sent().len(), world.hidden()), (0, vec![20]));
    assert_eq!(world.record("a:1").next_at, Some(at(20_000)));
    world.time.pass(Duration::from_millis(19_500));
    world.deliver(&[event("a:1").again(2)]);
    let start = world.starts()[0];
    assert!(start >= at(20_000), "not before the pause ends: {start}");
}
