//! The world where it goes wrong: what SQS, the event source, Lambda and the rule do then, as they document it.
//!
//! Owns: one check per fault, each forced to happen. Must not: test `deliver`; the simulation does.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::ports::{Accepted, Clock as _, Outbox as _, Outgoing};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;
use lapse_tests::fleet::chance::{Dice, Span, Way};
use lapse_tests::fleet::lot::{Fortune, Lot};
use lapse_tests::fleet::name;
use lapse_tests::fleet::queue::{Queue, Settings};
use lapse_tests::fleet::steps::{Ended, Eyes, Place};
use lapse_tests::fleet::time::{SandboxClock, Time, at};
use lapse_tests::fleet::weather::{Fate, Fault, Odds, Part, Weather};

/// All of 10,000.
const ALWAYS: u32 = 10_000;

struct Sky {
    time: Time,
    weather: Weather,
}

impl Sky {
    fn new(odds: Odds) -> Self {
        let (time, weather) = (Time::default(), Weather::fair(Dice::new(5)));
        for part in Part::ALL {
            weather.set(part, odds);
        }
        Self { time, weather }
    }

    fn way(&self, part: Part) -> Way {
        Way::new(self.time.clone(), Dice::new(2), Span(0, 0), part, self.weather.clone())
    }

    fn queue(&self, settings: Settings) -> Queue {
        Queue::new(settings, self.time.clone(), Dice::new(1), self.way(Part::Deliveries), Eyes::default())
    }

    fn run(&self, work: impl Future<Output = ()> + 'static) {
        self.time.spawn(work);
        self.time.drive(self.time.now().plus(Duration::from_secs(60)), || false);
    }

    fn count(&self, fault: Fault) -> u64 {
        self.weather.counts().get(&fault).copied().unwrap_or_default()
    }
}

fn put(queue: &Queue, count: usize) {
    for n in 0..count {
        queue.put(n.to_string().into(), &name("catalog"));
    }
}

#[test]
fn a_standard_queue_may_hand_a_message_out_to_two_at_once() {
    let sky = Sky::new(Odds { entry: ALWAYS, ..Odds::default() });
    let queue = sky.queue(Settings::deliveries());
    put(&queue, 1);
    let (one, other) = (queue.receive(1), queue.receive(1));
    assert_eq!((one[0].message_id.clone(), one[0].receives), (other[0].message_id.clone(), 1));
    assert_eq!((other[0].receives, sky.count(Fault::Duplicate)), (2, 2));
    sky.weather.clear();
    queue.delete([one[0].receipt_handle.as_str()].into_iter());
    assert!(queue.is_empty(), "either handle deletes it");
}

#[test]
fn a_deletion_may_be_lost_and_the_message_comes_back() {
    let sky = Sky::new(Odds::default());
    let queue = sky.queue(Settings::deliveries());
    put(&queue, 1);
    let received = queue.receive(1);
    sky.weather.set(Part::Deliveries, Odds { entry: ALWAYS, ..Odds::default() });
    queue.delete([received[0].receipt_handle.as_str()].into_iter());
    sky.time.drive(at(180_000), || false);
    assert_eq!((queue.visible(), sky.count(Fault::DeleteLost)), (1, 1));
}

#[test]
fn a_batch_call_may_fail_by_the_entry_and_a_failed_one_may_have_been_carried_out() {
    let sky = Sky::new(Odds { entry: ALWAYS, ..Odds::default() });
    let queue = sky.queue(Settings::deliveries());
    let sender = queue.clone();
    sky.run(async move {
        let message = Outgoing { body: "b".into(), group: None, delay_seconds: 0, origin: Origin::New };
        let answers = sender.send(&vec![message; 30]).await;
        assert!(answers.iter().all(|answer| matches!(answer, Accepted::No(_))), "{answers:?}");
    });
    assert!((1..30).contains(&queue.len()), "{} of 30 are there all the same", queue.len());
}

#[test]
fn a_call_whose_reply_is_lost_is_carried_out_again() {
    let sky = Sky::new(Odds { call: ALWAYS, ..Odds::default() });
    let (way, carried_out) = (sky.way(Part::Ledger), Rc::new(Cell::new(0)));
    let count = Rc::clone(&carried_out);
    sky.run(async move {
        for _ in 0..200 {
            let _ = way.call(|| count.set(count.get() + 1)).await;
        }
    });
    let (lost, failed) = (sky.count(Fault::ReplyLost), sky.count(Fault::CallFailed));
    assert!(lost > 0 && failed > 0, "{:?}", sky.weather.counts());
    assert!(carried_out.get() >= lost, "{} for {lost} lost replies", carried_out.get());
}

#[test]
fn dlq_5_what_is_received_too_often_goes_to_dead_letters_and_a_redrive_takes_it_back_as_a_new_message() {
    let sky = Sky::new(Odds::default());
    let dead = sky.queue(Settings { place: Place::DeadLetters, most_receives: u32::MAX, ..Settings::deliveries() });
    let queue = sky.queue(Settings { most_receives: 3, dead_letters: Some(dead.clone()), ..Settings::deliveries() });
    put(&queue, 1);
    for receive in 1..=3 {
        assert_eq!(queue.receive(1)[0].receives, receive);
        sky.time.drive(sky.time.now().plus(Duration::from_secs(180)), || false);
    }
    assert_eq!((queue.receive(1).len(), queue.len(), dead.len()), (0, 0, 1));
    let back = queue.clone();
    let moved = dead.redrive(|from| {
        assert_eq!(from, Some(Place::Deliveries), "to where it came from");
        back.clone()
    });
    assert_eq!((moved, dead.len()), (1, 0));
    let received = queue.receive(1);
    assert_eq!((received[0].receives, received[0].sent_at), (1, Some(sky.time.now())), "its count and age start anew");
    assert_eq!(&*received[0].body, "0");
}

#[test]
fn a_message_is_gone_after_14_days_whatever_happened_to_it() {
    let sky = Sky::new(Odds::default());
    let queue = sky.queue(Settings::deliveries());
    put(&queue, 1);
    let day = 86_400_000;
    sky.time.drive(at(14 * day - 1), || false);
    assert_eq!(queue.receive(1).len(), 1);
    sky.time.drive(at(14 * day + 180_000), || false);
    assert_eq!((queue.receive(1).len(), queue.len()), (0, 0));
}

#[test]
fn a_queue_with_too_many_messages_in_flight_hands_out_nothing_and_says_nothing() {
    let sky = Sky::new(Odds::default());
    let queue = sky.queue(Settings { most_in_flight: 3, ..Settings::deliveries() });
    put(&queue, 5);
    let received = queue.receive(10);
    assert_eq!((received.len(), queue.receive(10).len(), queue.visible()), (3, 0, 2));
    queue.delete([received[0].receipt_handle.as_str()].into_iter());
    assert_eq!(queue.receive(10).len(), 1);
}

/// What becomes of an invocation that waits a second, ten times, under this fortune; and how often it was seen to.
fn invoke(fortune: Fortune) -> (Ended, u32, Timestamp) {
    let sky = Sky::new(Odds::default());
    let lot = Lot::new(sky.time.clone(), Dice::new(9), sky.weather.clone(), 0);
    lot.change(fortune);
    let (steps, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (count, end, time) = (Rc::clone(&steps), Rc::clone(&ended), sky.time.clone());
    sky.run(async move {
        let clock = time.clone();
        let work = Box::pin(async move {
            for _ in 0..90 {
                time.pass(Duration::from_millis(100)).await;
                count.set(count.get() + 1);
            }
        });
        let (outcome, _) = lot.run(work, Duration::from_secs(30)).await;
        end.set(Some((outcome, clock.now())));
    });
    let (outcome, at) = ended.get().expect("it ended");
    (outcome, steps.get(), at)
}

#[test]
fn an_invocation_may_die_at_any_await_stand_still_or_answer_in_vain() {
    assert_eq!(invoke(Fortune::default()), (Ended::Answered, 90, at(9000)));
    let (ended, steps, _) = invoke(Fortune { crash: ALWAYS, ..Fortune::default() });
    assert_eq!(ended, Ended::Crashed);
    assert!(steps < 90, "{steps}");
    let (ended, _, end) = invoke(Fortune { freeze: ALWAYS, ..Fortune::default() });
    assert!(end > at(9000) || ended == Ended::TimedOut, "{ended:?} at {end}");
    assert_eq!(invoke(Fortune { unreadable: ALWAYS, ..Fortune::default() }).0, Ended::Unreadable);
}

#[test]
fn a_sandboxes_clock_may_be_set_back_while_it_sleeps() {
    let time = Time::default();
    let clock = SandboxClock::new(time.clone(), 500);
    assert_eq!(clock.now(), at(500));
    let (woken, sleeper, here) = (Rc::new(Cell::new(None)), clock.clone(), time.clone());
    let slot = Rc::clone(&woken);
    time.spawn(async move {
        sleeper.sleep_until(at(1500)).await;
        slot.set(Some((here.now(), sleeper.now())));
    });
    time.drive(at(200), || false);
    clock.set(-2000);
    time.drive(at(5000), || false);
    let early = at(0).minus(Duration::from_secs(1));
    assert_eq!(woken.get(), Some((at(1000), early)), "a sleep counts real time, whatever the clock is set to");
}

#[test]
fn a_part_that_is_down_fails_every_call_and_fair_weather_none() {
    let sky = Sky::new(Odds { down: true, ..Odds::default() });
    assert!((0..100).all(|_| matches!(sky.weather.fate(Part::Limits), Fate::Fails | Fate::FailsDone)));
    sky.weather.clear();
    assert!((0..100).all(|_| sky.weather.fate(Part::Limits) == Fate::Fine));
}
