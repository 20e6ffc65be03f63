//! DST-1, LIM-5: what an operator changes in a destination's row takes hold within 60 s, without a deploy.

use std::time::Duration;

use lapse_policy::pause::Pause;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::time::at;
use lapse_tests::fleet::{Fleet, Settings, Stream, name};
use serde_json::{Value, json};

use crate::{SECOND, catalog, rate};

/// How long a sandbox may know an older row, and how far ahead of a request its place is booked.
const CACHED: u64 = 30_000 + 1_000;

/// A fleet that sends at 20 a second for three minutes, and whose row changes after one.
fn changed(to: &Value) -> Fleet {
    let settings = Settings { workers: 20, ..Settings::default() };
    let fleet = catalog(settings, &rate(20, 20), Behaviour::Accepts);
    let stream = Stream { per_second: 18, lasting: Duration::from_secs(180), deadline: None };
    fleet.offer_steadily("catalog", stream);
    fleet.run_until(at(60_000));
    fleet.configure("catalog", to);
    fleet.run_until(at(180_000));
    fleet
}

#[test]
fn lim_5_a_lowered_rate_holds_as_soon_as_the_caches_have_seen_it() {
    let traffic = changed(&rate(5, 1)).traffic("catalog");
    let before = traffic.between(at(30_000), at(60_000)).requests.len();
    let after = traffic.between(at(60_000 + CACHED), at(180_000));
    assert!(before > 500, "{before}");
    // Burst 1 with 150 ms of jitter is 350 ms between places.
    let (seconds, most) = (89, after.most_within(SECOND));
    assert!(after.requests.len() <= seconds * 3 && most <= 4, "{} in {seconds} s, {most} in one", after.requests.len());
}

#[test]
fn lim_5_a_raised_rate_is_used_as_soon_as_the_caches_have_seen_it() {
    let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &rate(10, 10), Behaviour::Accepts);
    let stream = Stream { per_second: 20, lasting: Duration::from_secs(120), deadline: None };
    fleet.offer_steadily("catalog", stream);
    fleet.run_until(at(30_000));
    fleet.configure("catalog", &rate(50, 50));
    assert!(fleet.drain(at(600_000)));
    let after = fleet.traffic("catalog").between(at(30_000 + CACHED), at(120_000));
    assert!(after.requests.len() >= 59 * 20, "{}: what is offered is sent", after.requests.len());
}

#[test]
fn dst_1_a_changed_secret_signs_as_soon_as_the_caches_have_seen_it() {
    let secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    let fleet = changed(&json!({"rate": {"limit": 20}, "secrets": secrets}));
    let traffic = fleet.traffic("catalog");
    let signatures = |from, until| {
        let mut all: Vec<_> = traffic.between(from, until).requests.iter().map(|request| request.signatures).collect();
        all.dedup();
        all
    };
    assert_eq!(signatures(at(0), at(60_000)), [1]);
    assert_eq!(signatures(at(60_000 + CACHED), at(180_000)), [2]);
}

#[test]
fn dst_2_an_operators_pause_holds_from_the_next_booking_on() {
    let fleet = changed(&rate(20, 20));
    let now = fleet.time.now();
    let stream = Stream { per_second: 18, lasting: Duration::from_secs(30), deadline: None };
    fleet.offer_steadily("catalog", stream);
    fleet.run_until(now.plus(Duration::from_secs(10)));
    let pause = |pause: Pause| pause.raised(Timestamp::FAR_FUTURE, fleet.time.now());
    let changed =
        |clocks: lapse_policy::clock::Clocks| lapse_policy::clock::Clocks { pause: pause(clocks.pause), ..clocks };
    fleet.world.limits.change(&name("catalog"), changed);
    fleet.run_until(now.plus(Duration::from_secs(40)));
    let after = fleet.traffic("catalog").between(now.plus(Duration::from_secs(11)), Timestamp::FAR_FUTURE);
    assert_eq!(after.requests.len(), 0);
}
