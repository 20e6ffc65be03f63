//! I1 to I10 under faults from a seed: many short runs in virtual time, planted bugs that have to be found, and a
//! simulated world that answers as the real engines do.
//!
//! Owns: a fixed set of runs, and those that once found something. Must not: draw fresh seeds; `.ci/run` does that by
//! `cargo sim`.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests fails the test it is called from")]

mod agreement;
mod bugs;
mod command;

use lapse_tests::sim::{Options, Outcome, play, trace};

#[track_caller]
fn check(label: &str, outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let steps: Vec<_> = violation.steps.iter().map(|(at, step)| trace::line(*at, step)).collect();
    let (seed, invariant) = (outcome.seed, violation.invariant.name());
    panic!("{label}, seed {seed}: {invariant} is broken: {}\n{}", violation.what, steps.join("\n"));
}

#[test]
fn i_1_to_10_hold_in_a_thousand_short_runs() {
    let (mut sends, mut faults, mut fair) = (0, 0, 0);
    for seed in 1..=1000 {
        let outcome = play(seed, &Options::default());
        check("short", &outcome);
        sends += outcome.sends;
        faults += outcome.faults.values().sum::<u64>();
        fair += u32::from(outcome.faults.keys().count() <= 2);
    }
    assert!(sends > 20_000 && faults > 40_000, "the runs have lost their bite: {sends} sends, {faults} faults");
    assert!((50..500).contains(&fair), "fair and foul weather are both seen: {fair}");
}

#[test]
fn i_1_to_10_hold_for_a_crowd_and_over_a_day() {
    for seed in 1..=40 {
        let crowd = Options { events: 150, destinations: 1, ..Options::default() };
        check("a crowd", &play(seed, &crowd));
        let day = Options { hours: 24.0, events: 60, ..Options::default() };
        check("a day", &play(seed, &day));
    }
}

/// Seeds that found something once. What they found is a scenario of `deliver`'s tests as well: a seed's course changes
/// with the world.
#[test]
fn i_1_to_10_hold_where_they_once_did_not() {
    for (found, seed) in [
        ("a full plan near the end of a pause was looked at 40 times a second", 7021),
        ("half of hardly any time left was waited for over and over", 2980),
        ("the same, with one copy", 7815),
        ("a lost race let a delivery be sent without a lane", 113_312),
        ("a lost race let two be sent at once in one lane", 101_143),
    ] {
        check(found, &play(seed, &Options::default()));
    }
}

#[test]
fn the_same_seed_takes_the_same_course() {
    let course = |seed| {
        let outcome = play(seed, &Options::default());
        (outcome.polls, outcome.sends, outcome.lasted, outcome.ends, outcome.faults)
    };
    for seed in [3, 4, 5] {
        assert_eq!(course(seed), course(seed), "seed {seed}");
    }
    assert_ne!(course(3), course(4));
}
