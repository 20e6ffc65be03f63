//! LAN-2 to LAN-4: what is done in a lane, in which order, and what is done without one.

use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::clock::Clocks;
use lapse_policy::ledger::{Record, State};
use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use lapse_policy::reason::Reason;
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;
use serde_json::json;

use super::lanes::{count, held, hold, lanes};
use crate::world::{Fault, Fleet, NOW, Reply, World, at, event, events, firsts};

#[test]
fn lan_2_one_lane_serves_a_batch_with_two_writes_and_one_query() {
    let world = lanes(4);
    assert_eq!(world.deliver(&firsts(3)).remaining, [0_usize; 0]);
    let one = |id: &str| ["ledger write sending".to_owned(), format!("send {id}"), "ledger write delivered".to_owned()];
    let mut expected = ["destination catalog", "lanes read", "lane 0 taken", "pause read"].map(str::to_owned).to_vec();
    expected.extend(["a:1", "a:2", "a:3"].iter().flat_map(|id| one(id)));
    expected.push("lane 0 given back".to_owned());
    assert_eq!(world.calls(), expected);
    assert_eq!(world.starts(), [at(0), at(50), at(100)], "one after another");
}

#[test]
fn lan_4_the_lane_comes_before_plan_claim_and_gate_and_the_gate_before_each_request() {
    let world = World::with(&json!({"max_in_flight": 4, "rate": {"limit": 50}}));
    assert_eq!(world.deliver(&firsts(2)).remaining, [0_usize; 0]);
    let one =
        |id: &str| ["ledger write sending", "gate", &format!("send {id}"), "ledger write delivered"].map(str::to_owned);
    let mut expected = ["destination catalog", "lanes read", "lane 0 taken", "plan"].map(str::to_owned).to_vec();
    expected.extend(["a:1", "a:2"].iter().flat_map(|id| one(id)));
    expected.push("lane 0 given back".to_owned());
    let calls: Vec<_> = world.calls().into_iter().filter(|call| !call.ends_with("refused")).collect();
    assert_eq!(calls, expected);
}

#[test]
fn lan_2_a_single_message_still_books_both_clocks_in_one_write() {
    let world = World::with(&json!({"max_in_flight": 4, "rate": {"limit": 50}}));
    world.deliver(&firsts(1));
    let calls = world.calls();
    assert_eq!((count(&calls, "plan and gate"), count(&calls, "gate")), (1, 0), "{calls:?}");
}

#[test]
fn lan_2_slow_answers_book_no_places_in_vain() {
    let world = World::with(&json!({"max_in_flight": 1, "rate": {"limit": 10, "burst": 10}, "jitter_ms": 0}));
    for event in 1..=3 {
        world.receivers.reply(&format!("a:{event}"), &[Reply::Slow(200, Duration::from_secs(3))]);
    }
    assert_eq!(world.deliver(&firsts(3)).remaining, [0_usize; 0]);
    assert_eq!(world.starts(), [at(0), at(3000), at(6000)]);
    assert_eq!(world.clocks().gate, Some(at(6100).micros()), "the last one's place and no other");
}

#[test]
fn lan_2_those_that_must_wait_are_written_down_at_once() {
    let world = World::with(&json!({"max_in_flight": 1, "rate": {"limit": 1, "burst": 1}, "jitter_ms": 0}));
    world.receivers.reply("a:1", &[Reply::Slow(200, Duration::from_secs(9))]);
    world.deliver_while(&firsts(3), async {
        world.sleep(100).await;
        let states: Vec<_> = (1..=3).map(|event| world.state(&format!("a:{event}"))).collect();
        assert_eq!(states, [State::Sending, State::Waiting, State::Waiting]);
        assert_eq!(world.hidden(), [1, 2], "while the first is sent");
    });
}

#[test]
fn lan_2_earlier_deadlines_are_sent_first() {
    for members in [json!({"max_in_flight": 1}), json!({"max_in_flight": 1, "rate": {"limit": 50}})] {
        let world = World::with(&members);
        let by = |id: &str, ms| event(id).by(at(ms)).first();
        world.deliver(&[by("a:1", 300_000), by("a:2", 100_000), by("a:3", 200_000)]);
        assert_eq!(world.sent(), ["a:2", "a:3", "a:1"], "{members}");
    }
}

#[test]
fn lan_2_after_a_429_the_rest_of_the_batch_waits_unclaimed() {
    for members in [json!({"max_in_flight": 1}), json!({"max_in_flight": 1, "rate": {"limit": 50}})] {
        let world = World::with(&members);
        world.receivers.reply("a:1", &[Reply::Later(429, 12)]);
        assert_eq!(world.deliver(&firsts(5)).remaining, [0, 1, 2, 3, 4], "{members}");
        assert_eq!(world.sent(), ["a:1"], "{members}");
        let calls = world.calls();
        let writes: Vec<_> = calls.iter().filter(|call| call.starts_with("ledger write")).collect();
        let together = "ledger write waiting waiting waiting waiting";
        assert_eq!(writes, ["ledger write sending", "ledger write waiting", together], "{members}: {calls:?}");
    }
}

#[test]
fn ack_4_what_no_longer_fits_goes_back_unclaimed_and_the_lane_with_it() {
    let world = lanes(1);
    for event in 1..=4 {
        world.receivers.reply(&format!("a:{event}"), &[Reply::Slow(200, Duration::from_secs(8))]);
    }
    assert_eq!(world.deliver(&firsts(4)).remaining, [2, 3]);
    assert_eq!((world.sent().len(), world.time.now()), (2, at(16_001)), "10 s and 5 s more must be left");
    assert_eq!((world.hidden(), world.record_or_none("a:3"), held(&world)), (vec![1, 1], None, vec![]));
}

#[test]
fn ret_7_a_deadline_that_passes_behind_a_slow_answer_ends_a_delivery() {
    let world = lanes(1);
    world.receivers.reply("a:1", &[Reply::Slow(200, Duration::from_secs(8))]);
    world.deliver(&[event("a:2").by(at(7_000)).first(), event("a:1").by(at(6_000)).first()]);
    assert_eq!((world.sent(), world.record("a:2").reason), (vec!["a:1".to_owned()], Some(Reason::DeadlinePassed)));
}

#[test]
fn ack_2_a_panic_while_one_is_sent_leaves_the_others_of_its_lane_delivered() {
    let world = lanes(1);
    world.receivers.reply("a:2", &[Reply::Panics]);
    assert_eq!(world.deliver(&firsts(4)).remaining, [1]);
    assert_eq!((world.sent().len(), held(&world)), (4, vec![]));
}

#[test]
fn lan_3_without_a_free_lane_a_message_comes_back_in_1_to_10_s_and_nothing_is_written() {
    for (draw, seconds) in [(0.0, 1), (0.5, 5), (1.0, 10)] {
        let world = World::with(&json!({"max_in_flight": 2, "rate": {"limit": 50}}));
        world.luck.draws.set(draw);
        hold(&world, [0, 1], at(60_000));
        let waiting = |record: Record| Record { next_at: Some(NOW), planned_at: Some(NOW.micros()), ..record };
        world.put("a:2", waiting);
        let (first, before) = (event("a:1").first(), world.record("a:2"));
        let delivered = world.deliver(&[first, event("a:2").again(3), event("a:2").again(2)]);
        assert_eq!((delivered.remaining, world.hidden()), (vec![0, 1, 2], vec![seconds; 3]));
        assert_eq!((world.record_or_none("a:1"), world.record("a:2")), (None, before), "the ledger is not written");
        let sum = delivered.tally.sum();
        assert_eq!((sum.lane_waits, sum.deferred, sum.attempts), (2, 3, 0), "two deliveries, three messages");
        assert_eq!(world.clocks(), Clocks::default(), "LAN-4: nothing is booked");
    }
}

#[test]
fn lan_3_after_three_looks_in_vain_a_message_waits_out_of_flight() {
    for (draw, seconds) in [(0.0, 10), (0.5, 35), (1.0, 60)] {
        let world = lanes(1);
        world.luck.draws.set(draw);
        hold(&world, [0], at(60_000));
        world.put("a:4", |record| Record { next_at: Some(NOW), ..record });
        let sent_again = Received { origin: Origin::Resumed, ..event("a:2").first() };
        let woken = Received { origin: Origin::Resumed, ..event("a:4").first() };
        let third = event("a:3").again(3);
        let delivered = world.deliver(&[event("a:1").again(4), sent_again, third, woken]);
        assert_eq!(delivered.remaining, [2, 3], "what was sent again is acknowledged");
        assert_eq!((world.republished(), world.hidden().len()), (vec![seconds; 2], 2));
        assert!(world.deliveries.sent.borrow().iter().all(|message| message.origin == Origin::Resumed));
        assert_eq!(world.record_or_none("a:1"), None, "the ledger is not written");
    }
}

#[test]
fn lan_3_a_backlog_for_few_lanes_is_not_in_flight_and_not_received_without_end() {
    let world = lanes(4);
    world.luck.step.set(0.618_034);
    for event in 1..=600 {
        world.receivers.reply(&format!("a:{event}"), &[Reply::Slow(200, Duration::from_millis(700))]);
    }
    let fleet = Fleet::new(&world, firsts(600));
    fleet.drain(20);
    assert_eq!(world.sent().len(), 600);
    // Four lanes need 105 s for them. Looking once in 5.5 s on average would be 11 receives of each.
    assert!(fleet.receives.get() <= 600 * 6, "{} receives", fleet.receives.get());
    assert!(fleet.late_in_flight.get() <= 60, "{} in flight after half a minute", fleet.late_in_flight.get());
}

#[test]
fn lan_3_without_the_lanes_store_nothing_is_sent_and_messages_come_back() {
    for (label, faults) in [("read", [true, false]), ("take", [false, true])] {
        let world = lanes(2);
        world.luck.draws.set(0.5);
        let [reads, takes] = faults.map(|down| down.then_some(Fault::Unavailable));
        world.lanes.reads.always(reads);
        world.lanes.takes.always(takes);
        let delivered = world.deliver(&firsts(3));
        assert_eq!((delivered.remaining, world.hidden()), (vec![0, 1, 2], vec![5, 5, 5]), "{label}: with jitter");
        assert_eq!((world.sent().len(), world.record_or_none("a:1")), (0, None), "{label}");
        assert_eq!(delivered.tally.sum().lane_waits, 0, "{label}: that is another trouble");
    }
}

#[test]
fn lan_4_what_needs_no_lane_is_settled_without_one() {
    type Arrange = fn(&World);
    let arrangements: [(&str, Arrange, usize); 5] = [
        ("delivered", |world| world.put("a:1", |record| Record { state: State::Delivered, ..record }), 0),
        ("its letter is missing", |world| world.put("a:1", |record| Record { state: State::Dead, ..record }), 0),
        ("not yet", |world| world.put("a:1", |record| Record { next_at: Some(at(9_000)), ..record }), 1),
        ("someone else is sending", |world| world.put("a:1", sending(at(9_000), 0)), 1),
        ("poison", |world| world.put("a:1", sending(NOW, 3)), 0),
    ];
    for (label, arrange, remaining) in arrangements {
        let world = lanes(1);
        world.lanes.reads.always(Fault::Hangs);
        arrange(&world);
        assert_eq!(world.deliver(&[event("a:1").again(2)]).remaining.len(), remaining, "{label}");
        let calls = world.calls();
        assert_eq!((count(&calls, "lane"), world.sent().len()), (0, 0), "{label}: {calls:?}");
    }
    let world = lanes(1);
    world.deliver(&[event("a:1").by(NOW.minus(Duration::from_millis(1))).first()]);
    assert_eq!((count(&world.calls(), "lane"), world.letters().len()), (0, 1), "past its deadline");
}

fn sending(lease: Timestamp, crashes: u32) -> impl FnOnce(Record) -> Record {
    move |record| Record { state: State::Sending, lease: Some(lease), crashes, ..record }
}

#[test]
fn lan_4_what_needs_no_lane_does_not_wait_for_one() {
    let world = lanes(1);
    world.put("a:1", |record| Record { state: State::Delivered, ..record });
    world.lanes.reads.always(Fault::Hangs);
    assert_eq!(world.deliver(&[event("a:1").again(2), event("a:2").again(2)]).remaining, [1]);
    let delivered = world.deliver(&[event("a:3").by(NOW).first(), event("a:2").first()]);
    assert_eq!((delivered.remaining, world.record("a:3").reason), (vec![1], Some(Reason::DeadlinePassed)));
}

#[test]
fn led_4_a_suspect_takes_a_lane_too_and_alone() {
    let world = lanes(1);
    world.put("a:1", sending(NOW, 0));
    world.put("a:3", |record| Record { crashes: 1, ..record });
    let batch: Vec<_> = events(4).iter().map(|event| event.again(2)).collect();
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    assert_eq!(world.sent(), ["a:2", "a:4", "a:1", "a:3"]);
    assert_eq!(count(&world.calls(), "lane 0 taken"), 3, "the batch's, and one for each suspect");
    assert_eq!((held(&world), world.receivers.crowd("catalog").most.get()), (vec![], 1));
}

#[test]
fn ack_5_a_lane_holds_up_no_other_destination() {
    let world = lanes(1);
    world.destination("other", &json!({}));
    world.destination("another", &json!({"max_in_flight": 1}));
    world.lanes.reads.then(Fault::Slow(Duration::from_secs(2)));
    world.receivers.reply("a:1", &[Reply::Slow(200, Duration::from_secs(8))]);
    let to = |id: &str, name| event(id).to(name).first();
    let batch = [event("a:1").first(), to("o:1", "other"), event("a:2").first(), to("n:1", "another")];
    assert_eq!(world.deliver(&batch).remaining, [0_usize; 0]);
    let requests = world.receivers.requests.borrow();
    let starts: Vec<_> = requests.iter().map(|request| (request.id.as_str(), request.at)).collect();
    let early = at(20);
    assert!(starts.iter().all(|(id, start)| id.starts_with('a') || *start <= early), "a linger at most: {starts:?}");
    assert_eq!(starts[2..], [("a:1", at(2000)), ("a:2", at(10_000))], "{starts:?}");
}

#[test]
fn lim_9_a_pause_holds_in_a_lane_without_a_rate_too() {
    let world = lanes(1);
    world.set_clocks(Clocks { pause: Pause::default().raised(at(600), NOW), ..Clocks::default() });
    assert_eq!(world.deliver(&firsts(2)).remaining, [0_usize; 0]);
    assert_eq!(world.starts(), [at(600), at(650)], "waited for here");
    let calls = world.calls();
    assert_eq!((count(&calls, "pause read"), count(&calls, "gate")), (1, 0), "{calls:?}");
}

#[test]
fn lan_4_what_turns_out_to_be_due_after_a_lost_race_is_not_sent_without_a_lane() {
    let world = lanes(1);
    // By its own deadline it is dead; by its record, which a first receive does not read, a redrive goes on.
    world.put("a:1", |record| Record { epoch: 2, redrive_until: Some(at(3_600_000)), ..record });
    let late = event("a:1").by(NOW.minus(Duration::from_secs(1)));
    assert_eq!(world.deliver(&[late.first()]).remaining, [0]);
    assert_eq!((world.sent().len(), world.hidden(), world.state("a:1")), (0, vec![1], State::Waiting));
    assert_eq!(world.deliver(&[late.again(2)]).remaining, [0_usize; 0]);
    assert_eq!((world.sent().len(), world.state("a:1")), (1, State::Delivered));
}

#[test]
fn lan_2_what_turns_out_to_be_due_after_a_lost_race_is_not_sent_beside_another_in_its_lane() {
    let world = World::with(&json!({"max_in_flight": 1, "rate": {"limit": 1, "burst": 1}, "jitter_ms": 0}));
    world.receivers.reply("a:1", &[Reply::Slow(200, Duration::from_secs(3))]);
    // Planned for later as a first receive; by its record it is due.
    world.put("a:2", |record| Record { next_at: Some(NOW), planned_at: Some(NOW.micros()), ..record });
    assert_eq!(world.deliver(&firsts(2)).remaining, [1]);
    assert_eq!((world.sent(), world.hidden()), (vec!["a:1".to_owned()], vec![1]));
}
