//! The limits across a fleet, in virtual time: what one sandbox cannot show.
//!
//! Owns: the list of scenarios and what they have in common. Must not: wait in real time; sizes that take minutes are
//! in `cargo perf backlog`.

#![expect(clippy::expect_used, reason = "a helper of tests fails the test it is called from")]

mod backlog;
mod changes;
mod course;
mod faults;
mod neighbours;
mod pauses;
mod stalls;

use std::time::Duration;

use lapse_policy::timestamp::Micros;
use lapse_tests::fleet::receivers::Behaviour;
use lapse_tests::fleet::{Fleet, Settings};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// A fleet with the destination `catalog`.
fn catalog(settings: Settings, members: &Value, behaviour: Behaviour) -> Fleet {
    let fleet = Fleet::new(settings);
    fleet.destination("catalog", members, behaviour);
    fleet
}

/// The members of a row with a rate per second.
fn rate(per_second: u32, burst: u32) -> Value {
    json!({"rate": {"limit": per_second, "burst": burst}})
}

/// LIM-5 over all windows of what `catalog` was sent, with a burst of one second and clocks that differ by so much
/// from true time.
#[track_caller]
fn assert_bound(fleet: &Fleet, per_second: u32, differ: Duration) {
    let step = Micros(1_000_000 / i64::from(per_second));
    let slack = Micros::of(2 * differ);
    let most = step.times(usize::try_from(per_second).expect("small")).plus(slack);
    let densest = fleet.traffic("catalog").densest(step);
    assert!(densest <= most, "LIM-5: {densest:?} is more than {most:?}");
}
