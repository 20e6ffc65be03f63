//! `deliver` in whole batches, on a world in memory whose clock is virtual: each rule as a producer, a receiver or an
//! operator would see it.
//!
//! Owns: the list of scenarios, by rule family. Must not: test adapters; each of those has a suite of its own.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests fails the test it is called from")]

mod world;

mod scenarios {
    mod acknowledge;
    mod copies;
    mod crashes;
    mod destinations;
    mod gate;
    mod in_a_lane;
    mod lanes;
    mod letters;
    mod order;
    mod pauses;
    mod plan;
    mod records;
    mod redrives;
    mod time_left;
}
