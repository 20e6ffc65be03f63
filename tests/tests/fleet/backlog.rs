//! LIM-3 to LIM-6, I9: deep backlogs drain at the plan's rate, with two receives a delivery and few in flight.

use std::time::Duration;

use lapse_policy::timestamp::Timestamp;
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::time::at;
use lapse_tests::fleet::{Settings, Stream};

use crate::{assert_bound, catalog, rate};

/// What 10,000 events at once must come to at this rate; figures of the whole are printed.
fn check(per_second: u32, workers: usize) {
    let settings = Settings { workers, ..Settings::default() };
    let fleet = catalog(settings, &rate(per_second, per_second), Behaviour::Accepts);
    fleet.offer("catalog", 10_000);
    assert!(fleet.drain(at(3_600_000)));
    let figures = fleet.figures("catalog");
    assert_eq!((figures.delivered, figures.requests), (10_000, 10_000));
    assert!(figures.receives_per_delivery <= 2.1, "{figures:?}");
    let most = 30 * usize::try_from(per_second).expect("small") + 10 * workers;
    assert!(figures.most_in_flight <= most, "at most {most} in flight: {figures:?}");
    assert_eq!(fleet.world.deliveries.counts().moved, 0, "none is lost to receive counts");
    let ideal = 10_000.0 / (0.98 * f64::from(per_second));
    assert!(ideal / figures.drained_s >= 0.95, "{ideal} s ideal: {figures:?}");
    assert_bound(&fleet, per_second, Duration::ZERO);
}

#[test]
fn lim_3_ten_thousand_at_once_drain_at_50_a_second() {
    check(50, 50);
}

#[test]
fn lim_3_ten_thousand_at_once_drain_at_10_a_second() {
    check(10, 50);
}

#[test]
fn lim_6_more_than_can_be_sent_before_its_deadline_leaves_the_rate_whole() {
    let fleet = catalog(Settings { workers: 20, ..Settings::default() }, &rate(5, 5), Behaviour::Accepts);
    let deadline = Some(Duration::from_secs(120));
    // Thrice in two seconds what five a second can take; then half of it.
    fleet.offer_steadily("catalog", Stream { per_second: 15, lasting: Duration::from_secs(300), deadline });
    fleet.run_until(at(300_000));
    fleet.offer_steadily("catalog", Stream { per_second: 2, lasting: Duration::from_secs(300), deadline });
    assert!(fleet.drain(at(1_200_000)));
    let figures = fleet.figures("catalog");
    assert_eq!(figures.delivered + figures.dead, figures.offered);
    assert_eq!(figures.no_place_before_deadline, figures.dead, "for no other reason");
    let fewest = fleet.traffic("catalog").fewest_each(Duration::from_secs(30), at(0), at(390_000));
    assert!(fewest >= 139, "{fewest} in 30 s: 0.95 of the plan's 147, throughout");
    assert_eq!(fleet.traffic("catalog").between(at(720_000), Timestamp::FAR_FUTURE).requests.len(), 0);
}
