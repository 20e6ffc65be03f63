//! ACK-5, LIM-4: a destination in trouble does not make its neighbours late.

use std::sync::LazyLock;
use std::time::Duration;

use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::report::Figures;
use lapse_tests::fleet::time::at;
use lapse_tests::fleet::{Fleet, Settings, Stream};

use crate::rate;

/// Ten events a second for a minute to a healthy destination, beside whatever else there is.
fn healthy(beside: impl FnOnce(&Fleet)) -> Figures {
    let fleet = Fleet::new(Settings::default());
    fleet.destination("healthy", &rate(50, 50), Behaviour::Accepts);
    beside(&fleet);
    fleet.offer_steadily("healthy", steadily(10));
    fleet.run_until(at(90_000));
    let figures = fleet.figures("healthy");
    assert_eq!(figures.delivered, 600);
    figures
}

fn steadily(per_second: u32) -> Stream {
    Stream { per_second, lasting: Duration::from_secs(60), deadline: None }
}

static ALONE: LazyLock<Figures> = LazyLock::new(|| healthy(|_| {}));

#[track_caller]
fn check(label: &str, beside: impl FnOnce(&Fleet)) {
    let (alone, beside) = (&*ALONE, healthy(beside));
    assert!(beside.late_p95_s <= 1.5 * alone.late_p95_s, "{label}: {beside:?}\nalone: {alone:?}");
}

fn slow(fleet: &Fleet) {
    fleet.destination("slow", &rate(5, 5), Behaviour::Accepts);
    fleet.offer("slow", 5000);
}

/// Each of its requests holds an invocation for 10 s: the rate bounds how many do at once.
fn hangs(fleet: &Fleet) {
    fleet.destination("hangs", &rate(2, 2), Behaviour::Hangs);
    fleet.offer_steadily("hangs", steadily(2));
}

fn fails(fleet: &Fleet) {
    fleet.destination("fails", &rate(10, 10), Behaviour::Answers(503, None));
    fleet.offer_steadily("fails", steadily(5));
}

#[test]
fn ack_5_a_deep_backlog_makes_no_neighbour_late() {
    check("5,000 at 5/s", slow);
}

#[test]
fn ack_5_a_destination_that_hangs_makes_no_neighbour_late() {
    check("one that hangs", hangs);
}

#[test]
fn ack_5_a_destination_that_fails_makes_no_neighbour_late() {
    check("one that answers 503", fails);
}

#[test]
fn ack_5_all_of_them_at_once_make_no_neighbour_late() {
    check("all three", |fleet| {
        slow(fleet);
        hangs(fleet);
        fails(fleet);
    });
}
