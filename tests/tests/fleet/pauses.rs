//! LIM-7: one throttled answer is a pause for the whole fleet, and sending resumes as it was planned.

use std::time::Duration;

use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use lapse_tests::fleet::chance::Span;
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::time::{START, at};
use lapse_tests::fleet::{Fleet, Settings, Stream, name};
use serde_json::{Value, json};

use crate::{SECOND, catalog, rate};

/// The instant at which the last answer of 429 was known.
fn paused_at(fleet: &Fleet) -> Timestamp {
    pause(fleet).from.expect("a pause")
}

fn pause(fleet: &Fleet) -> Pause {
    fleet.world.limits.clocks(&name("catalog")).pause
}

/// A fleet of 20 with 1,000 events, all of whose workers have seen the destination; then a 429 that asks for 30 s.
fn one_429(members: &Value) -> Fleet {
    let fleet = catalog(Settings { workers: 20, ..Settings::default() }, members, Behaviour::Accepts);
    fleet.offer("catalog", 1000);
    fleet.run_until(at(5000));
    assert_eq!(fleet.mapping.counts().most_at_once, 20);
    fleet.world.receivers.behave_once(&name("catalog"), 1, Behaviour::Answers(429, Some(30)));
    fleet
}

#[test]
fn lim_7_one_429_stops_all_workers_and_what_they_have_planned() {
    let fleet = one_429(&rate(50, 50));
    fleet.run_until(at(10_000));
    let from = paused_at(&fleet);
    let end = from.plus(Duration::from_secs(30));
    assert_eq!((pause(&fleet).until, pause(&fleet).streak), (Some(end), 1));
    assert!(fleet.drain(at(120_000)));
    let traffic = fleet.traffic("catalog");
    let booked_before = traffic.between(from, from.plus(SECOND)).requests.len();
    assert!(booked_before <= 50, "{booked_before}: what was booked in the second before goes out, and no more");
    assert_eq!(traffic.between(from.plus(SECOND), end).requests.len(), 0, "nothing else during the pause");
    let after = traffic.between(end, Timestamp::FAR_FUTURE);
    assert!(after.most_within(SECOND) <= 100, "{}: resumed by the limit, not as a herd", after.most_within(SECOND));
    assert_eq!((traffic.delivered(), traffic.answered(429)), (1000, 1));
    let figures = fleet.figures("catalog");
    assert!(figures.replans_per_delivery < 0.01, "planned times move with the pause: {figures:?}");
    assert!(figures.drained_s <= 1.05 * (1000.0 / 49.0 + 30.0), "{figures:?}");
    assert_eq!(pause(&fleet).streak, 0, "the first success ends the streak");
}

#[test]
fn lim_7_a_destination_without_a_rate_is_paused_too() {
    let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &json!({}), Behaviour::Accepts);
    fleet.offer_steadily("catalog", Stream { per_second: 50, lasting: Duration::from_secs(20), deadline: None });
    fleet.run_until(at(5000));
    fleet.world.receivers.behave_once(&name("catalog"), 1, Behaviour::Answers(429, Some(30)));
    fleet.run_until(at(10_000));
    let from = paused_at(&fleet);
    let end = from.plus(Duration::from_secs(30));
    assert!(fleet.drain(at(120_000)));
    let traffic = fleet.traffic("catalog");
    let during = traffic.between(from.plus(Duration::from_millis(50)), end).requests.len();
    assert_eq!((during, traffic.delivered()), (0, 1000), "nothing is booked ahead");
}

#[test]
fn lim_7_events_asked_to_come_back_at_one_second_are_spread_by_the_limit() {
    let (asked, members) = (at(60_000), json!({"rate": {"limit": 10, "burst": 10}, "timeout_ms": 20_000}));
    let fleet = Fleet::new(Settings { workers: 20, ..Settings::default() });
    fleet.configure("catalog", &members);
    // So slow that all 100 are under way before the first answer.
    fleet.world.receivers.add(&name("catalog"), Behaviour::AsksUntil(asked), Span(15_000, 16_000));
    fleet.offer("catalog", 100);
    fleet.run_until(at(30_000));
    assert_eq!(fleet.traffic("catalog").answered(429), 100);
    fleet.world.receivers.add(&name("catalog"), Behaviour::Accepts, Span(20, 80));
    assert!(fleet.drain(at(120_000)));
    let traffic = fleet.traffic("catalog");
    assert_eq!((traffic.delivered(), traffic.requests.len()), (100, 100));
    assert_eq!(traffic.between(START, asked).requests.len(), 0, "RET-2: never early");
    assert!(traffic.most_within(SECOND) <= 20, "{}: burst and rate", traffic.most_within(SECOND));
}

#[test]
fn lim_7_a_volley_of_ten_429s_is_one_pause() {
    for asked in [None, Some(5)] {
        let fleet =
            catalog(Settings { workers: 20, ..Settings::default() }, &rate(10, 10), Behaviour::Answers(429, asked));
        fleet.offer("catalog", 10);
        fleet.run_until(at(1000));
        let traffic = fleet.traffic("catalog");
        assert!(traffic.answered(429) >= 9, "{} under way at once", traffic.answered(429));
        assert_eq!(pause(&fleet).streak, 1, "one pause, not ten");
        fleet.world.receivers.behave(&name("catalog"), Behaviour::Accepts);
        assert!(fleet.drain(at(60_000)));
        assert_eq!((fleet.traffic("catalog").delivered(), pause(&fleet).streak), (10, 0));
    }
}

#[test]
fn lim_7_a_destination_that_allows_a_little_less_than_configured_gets_most_of_its_rate() {
    for retry_after in [None, Some(1)] {
        let allows = Behaviour::Enforces { per_second: 50, burst: 50, retry_after };
        let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &rate(52, 52), allows);
        fleet.offer("catalog", 4000);
        assert!(fleet.drain(at(600_000)));
        let figures = fleet.figures("catalog");
        assert_eq!(figures.delivered, 4000);
        assert!(4000.0 / figures.drained_s >= 0.65 * 50.0, "{figures:?}");
    }
}

#[test]
fn lim_7_a_destination_that_allows_half_and_never_says_for_how_long_is_drained() {
    let allows = Behaviour::Enforces { per_second: 25, burst: 25, retry_after: None };
    let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &rate(50, 50), allows);
    fleet.offer("catalog", 2000);
    assert!(fleet.drain(at(1_800_000)));
    let figures = fleet.figures("catalog");
    assert_eq!((figures.delivered, figures.dead, pause(&fleet).streak), (2000, 0, 0));
}

#[test]
fn lim_7_lifting_a_pause_takes_hold_at_once() {
    for members in [rate(50, 50), json!({})] {
        let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &members, Behaviour::Accepts);
        let stream = Stream { per_second: 20, lasting: Duration::from_secs(120), deadline: None };
        fleet.offer_steadily("catalog", stream);
        fleet.run_until(at(20_000));
        let raise = |pause: Pause| pause.raised(Timestamp::FAR_FUTURE, fleet.time.now());
        change_pause(&fleet, raise);
        fleet.run_until(at(60_000));
        assert_eq!(fleet.traffic("catalog").between(at(21_000), at(60_000)).requests.len(), 0);
        change_pause(&fleet, |pause| pause.lifted(fleet.time.now()));
        fleet.run_until(at(62_000));
        let sent = fleet.traffic("catalog").between(at(60_000), at(62_000)).requests.len();
        assert!(sent >= 30, "{sent}: what is new is sent as ever, by workers that knew of the pause, too");
        assert!(fleet.drain(at(2 * 3_600_000)), "what was parked looks again within an hour");
        assert_eq!(fleet.traffic("catalog").delivered(), 2400);
    }
}

fn change_pause(fleet: &Fleet, change: impl FnOnce(Pause) -> Pause) {
    let changed =
        |clocks: lapse_policy::clock::Clocks| lapse_policy::clock::Clocks { pause: change(clocks.pause), ..clocks };
    fleet.world.limits.change(&name("catalog"), changed);
}
