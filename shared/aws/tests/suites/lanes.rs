//! LAN-1: what every store of lanes keeps to: the adapter on an engine, and the fake of `deliver`'s scenarios.
//!
//! Owns: the suite. Must not: know which store it tests. Tests of other crates include this file by its path.

#![expect(clippy::expect_used, reason = "set-up that fails is a failed test")]

use std::time::Duration;

use lapse_policy::lanes::Lane;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Lanes;
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_000);

/// Asks a store everything that the port promises. Each part has a destination of its own.
pub(crate) async fn keeps_the_ports_promise(store: &impl Lanes) {
    a_lane_has_one_owner_until_its_lease_is_over(store).await;
    an_owner_that_asks_again_is_told_the_same(store).await;
    only_its_owner_gives_a_lane_back(store).await;
    lanes_of_two_destinations_never_meet(store).await;
}

async fn a_lane_has_one_owner_until_its_lease_is_over(store: &impl Lanes) {
    let name = name("leases");
    assert_eq!(store.read(&name).await, Ok(vec![]), "nothing is held at first");
    let (first, second) = (lane(3, "first", 35_000), lane(3, "second", 70_000));
    assert_eq!(store.take(&name, &first, NOW).await, Ok(true));
    for (ms, taken) in [(0, false), (34_999, false), (35_000, false), (35_001, true)] {
        assert_eq!(store.take(&name, &second, after(ms)).await, Ok(taken), "{ms} ms after it was taken");
        let holder = if taken { &second } else { &first };
        assert_eq!(store.read(&name).await, Ok(vec![holder.clone()]), "{ms}");
    }
}

async fn an_owner_that_asks_again_is_told_the_same(store: &impl Lanes) {
    let name = name("again");
    let mine = lane(0, "me", 35_000);
    for _ in 0..2 {
        assert_eq!(store.take(&name, &mine, NOW).await, Ok(true), "the first reply may have been lost");
        assert_eq!(store.read(&name).await, Ok(vec![mine.clone()]));
    }
    for _ in 0..2 {
        assert_eq!(store.release(&name, &mine).await, Ok(()));
        assert_eq!(store.read(&name).await, Ok(vec![]));
    }
}

async fn only_its_owner_gives_a_lane_back(store: &impl Lanes) {
    let name = name("owners");
    let (mine, theirs) = (lane(7, "me", 35_000), lane(7, "them", 90_000));
    assert_eq!(store.take(&name, &mine, NOW).await, Ok(true));
    assert_eq!(store.take(&name, &theirs, after(40_000)).await, Ok(true), "my lease is over");
    assert_eq!(store.release(&name, &mine).await, Ok(()), "a late worker does no harm");
    assert_eq!(store.read(&name).await, Ok(vec![theirs.clone()]));
    assert_eq!(store.release(&name, &theirs).await, Ok(()));
    assert_eq!(store.take(&name, &mine, NOW).await, Ok(true), "free at once");
}

async fn lanes_of_two_destinations_never_meet(store: &impl Lanes) {
    let (one, other) = (name("one"), name("other"));
    for number in [0, 1, 9, 10, 999] {
        assert_eq!(store.take(&one, &lane(number, "me", 35_000), NOW).await, Ok(true));
    }
    assert_eq!(store.read(&other).await, Ok(vec![]));
    let held = store.read(&one).await.expect("it can be read");
    let mut numbers: Vec<_> = held.iter().map(|lane| lane.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 9, 10, 999], "numbers as they were, in whatever order");
}

fn name(text: &str) -> DestinationName {
    DestinationName::parse(text).expect("a name")
}

fn lane(number: u32, owner: &str, until: u64) -> Lane {
    Lane { number, owner: owner.to_owned(), until: after(until) }
}

fn after(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}
