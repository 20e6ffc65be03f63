//! Every promise has a bug that breaks it, and the simulator finds each within the number of runs that it names: a check
//! that has never caught anything proves nothing.
//!
//! Owns: the hunts. Must not: plant bugs in the code; they are in the world around it.

use std::collections::BTreeSet;

use lapse_tests::fleet::bugs::Bug;
use lapse_tests::sim::command::hunt;
use lapse_tests::sim::invariants::Invariant;

#[test]
fn i_1_to_10_every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let found = hunt(*bug);
        let (name, breaks, within) = (bug.name(), bug.breaks().name(), bug.within());
        assert!(found.run.is_some(), "{name}: {breaks} was never seen broken in {within} runs");
    }
}

#[test]
fn i_1_to_10_every_promise_has_a_bug_that_breaks_it() {
    let broken: BTreeSet<_> = Bug::ALL.iter().map(|bug| bug.breaks()).collect();
    let promised: BTreeSet<_> = Invariant::ALL.into_iter().collect();
    assert_eq!(broken, promised, "plant a bug in tests/src/fleet/bugs.rs for what is missing");
}
