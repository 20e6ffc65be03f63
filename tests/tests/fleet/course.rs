//! The fleet itself: the same seed takes the same course, and its queue keeps what SQS documents.
//!
//! Owns: what scenarios rely on. Must not: test `deliver`.

use std::time::Duration;

use lapse_policy::ports::{Accepted, Clock as _, Outbox as _, Outgoing, Visibility as _};
use lapse_policy::schedule::Origin;
use lapse_tests::fleet::chance::{Dice, Span, Way};
use lapse_tests::fleet::queue::{Queue, Settings};
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::steps::Eyes;
use lapse_tests::fleet::time::{Time, at};
use lapse_tests::fleet::traffic::Traffic;
use lapse_tests::fleet::weather::{Part, Weather};
use lapse_tests::fleet::{self, name};

use crate::{catalog, rate};

fn course(seed: u64) -> (Traffic, u64) {
    let allows = Behaviour::Enforces { per_second: 20, burst: 5, retry_after: None };
    let fleet = catalog(fleet::Settings { seed, workers: 10, skew_ms: 500 }, &rate(25, 25), allows);
    fleet.offer("catalog", 300);
    assert!(fleet.drain(at(600_000)));
    (fleet.traffic("catalog"), fleet.time.polls())
}

#[test]
fn the_same_seed_takes_the_same_course() {
    assert_eq!(course(7), course(7));
    assert_ne!(course(7), course(8));
}

/// A queue without latency, and its clock.
fn queue() -> (Time, Queue) {
    let time = Time::default();
    let weather = Weather::fair(Dice::new(3));
    let way = Way::new(time.clone(), Dice::new(2), Span(0, 0), Part::Deliveries, weather);
    (time.clone(), Queue::new(Settings::deliveries(), time, Dice::new(1), way, Eyes::default()))
}

fn run(time: &Time, task: impl Future<Output = ()> + 'static) {
    time.spawn(task);
    time.drive(time.now(), || false);
}

fn outgoing(delay_seconds: i32) -> Outgoing {
    Outgoing { body: "b".into(), group: None, delay_seconds, origin: Origin::New }
}

#[test]
fn a_delayed_message_is_visible_when_its_delay_is_over_and_not_in_flight_before() {
    let (time, queue) = queue();
    let sender = queue.clone();
    run(&time, async move {
        assert_eq!(sender.send(&[outgoing(900)]).await, [Accepted::Yes]);
        assert!(matches!(sender.send(&[outgoing(901)]).await[..], [Accepted::Never(_)]), "SQS takes 900 s at most");
    });
    time.drive(at(899_999), || false);
    assert_eq!((queue.visible(), queue.counts().in_flight, queue.next_visible()), (0, 0, Some(at(900_000))));
    time.drive(at(900_000), || false);
    assert_eq!(queue.visible(), 1);
}

#[test]
fn a_received_message_comes_back_after_its_visibility_and_counts_its_receives() {
    let (time, queue) = queue();
    queue.put("b".into(), &name("catalog"));
    let first = queue.receive(10);
    assert_eq!((first.len(), first[0].receives, queue.counts().in_flight), (1, 1, 1));
    assert_eq!(queue.receive(10), [], "hidden");
    time.drive(at(180_000), || false);
    assert_eq!((queue.counts().in_flight, queue.counts().most_in_flight), (0, 1));
    let second = queue.receive(10);
    assert_eq!(second[0].receives, 2);
    assert_eq!(second[0].message_id, first[0].message_id);
    queue.delete([first[0].receipt_handle.as_str()].into_iter());
    assert_eq!(queue.len(), 1, "the handle of an earlier receive deletes nothing");
    queue.delete([second[0].receipt_handle.as_str()].into_iter());
    assert_eq!((queue.len(), queue.counts().in_flight), (0, 0));
}

#[test]
fn a_message_is_hidden_from_the_call_on_and_only_while_it_is_in_flight() {
    let (time, queue) = queue();
    queue.put("b".into(), &name("catalog"));
    let handle = queue.receive(1)[0].receipt_handle.clone();
    time.drive(at(10_000), || false);
    let (sender, held) = (queue.clone(), handle.clone());
    run(&time, async move {
        assert_eq!(sender.hide(&[(held, 30)]).await, [Accepted::Yes]);
    });
    assert_eq!(queue.next_visible(), Some(at(40_000)));
    time.drive(at(40_000), || false);
    assert_eq!(queue.visible(), 1);
    let sender = queue.clone();
    run(&time, async move {
        assert!(matches!(sender.hide(&[(handle, 30)]).await[..], [Accepted::No(_)]), "visible again");
    });
}

#[test]
fn dlq_5_a_message_leaves_after_a_thousand_receives() {
    let (time, queue) = queue();
    queue.put("b".into(), &name("catalog"));
    for n in 1..=1000 {
        assert_eq!(queue.receive(1)[0].receives, n);
        time.drive(time.now().plus(Duration::from_secs(180)), || false);
    }
    assert_eq!((queue.receive(1), queue.len(), queue.counts().moved), (vec![], 0, 1));
}

#[test]
fn a_receive_takes_the_longest_visible_but_keeps_no_exact_order() {
    let (time, queue) = queue();
    for n in 0..60 {
        time.drive(at(n), || false);
        queue.put(n.to_string().into(), &name("catalog"));
    }
    let taken: Vec<u32> = queue.receive(10).iter().map(|m| m.body.parse().expect("a number")).collect();
    assert!(taken.iter().all(|n| *n < 30), "{taken:?}");
    assert!(!taken.is_sorted(), "{taken:?}");
}
