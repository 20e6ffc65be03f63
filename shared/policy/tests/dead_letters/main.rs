//! DLQ-1 to DLQ-5: every interleaving of small worlds, with a crash after every step, copies, SQS's own moves, redrives
//! by both ways and records that are deleted: nothing is lost, and no epoch begins without an operator.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of tests fails the test it is called from")]

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Outcome, StatusLists};
use lapse_policy::decision::{Attempt, Decision, Rules, decide};
use lapse_policy::ledger::Moment;
use lapse_policy::retry_policy::RetryPolicy;

use crate::bodies::Bodies;
use crate::world::{Bounds, Step, World};

mod bodies;
mod deliver;
mod triage;
mod world;

/// What the policy makes of an answer.
fn decision(status: u16, unknown_before: bool, moment: Moment) -> Decision {
    let (retry, statuses) = (RetryPolicy::default(), StatusLists::default());
    let timeout = Duration::from_secs(10);
    let rules = Rules { statuses: &statuses, require_decision: false, retry: &retry, timeout };
    let Moment { now, deadline } = moment;
    let attempt = Attempt { attempts: 0, streak: 0, unknown_before, deadline, now, draw: 0.0 };
    decide(&Outcome::Answered(Answer { status, ..Answer::default() }), rules, attempt)
}

/// A walked state and the step from the one before.
struct Visited {
    world: Rc<World>,
    from: Option<(usize, Step)>,
}

/// Walks all states breadth-first. A walk that became small, or in which something no longer happens, proves nothing.
#[track_caller]
fn check_walk(start: World, bodies: &mut Bodies, least: usize, expected: &[Step]) {
    let start = Rc::new(start);
    let (mut known, mut steps) = (HashSet::from([Rc::clone(&start)]), BTreeSet::new());
    let mut visited = vec![Visited { world: start, from: None }];
    let mut at = 0;
    while at < visited.len() {
        let world = Rc::clone(&visited[at].world);
        for (step, after) in world.successors(bodies) {
            steps.insert(step);
            let after = Rc::new(after);
            let new = known.insert(Rc::clone(&after));
            let checked = world.check_step(&after).and_then(|()| if new { after.check(bodies) } else { Ok(()) });
            if let Err(broken) = checked {
                panic!("{broken}:\n{}  {step:?}\n{after:#?}\n{bodies:#?}", trace(&visited, at));
            }
            if new {
                visited.push(Visited { world: after, from: Some((at, step)) });
            }
        }
        at += 1;
    }
    assert!(visited.len() >= least, "only {} states", visited.len());
    let missing: Vec<_> = expected.iter().filter(|step| !steps.contains(step)).collect();
    assert!(missing.is_empty(), "never in {} states: {missing:?}", visited.len());
}

/// The steps that led to a state.
fn trace(visited: &[Visited], mut at: usize) -> String {
    let mut steps = Vec::new();
    while let Some((before, step)) = visited[at].from {
        steps.push(format!("  {step:?}\n"));
        at = before;
    }
    steps.into_iter().rev().collect()
}

const NONE: Bounds = Bounds { instants: 0, crashes: 0, copies: 0, redrives: 0, losses: 0, deletions: 0, waits: 0 };

/// What happens in every world with an operator and a worker that may crash.
const ALWAYS: [Step; 17] = [
    Step::AnInstantPasses,
    Step::DeliverReceives,
    Step::ClaimStored,
    Step::Accepted,
    Step::Refused,
    Step::DeliveredStored,
    Step::DeathStored,
    Step::LetterSent,
    Step::LetterSentAgain,
    Step::Acknowledged,
    Step::TriageReceives,
    Step::DispositionWritten,
    Step::SentOn,
    Step::TriageAcknowledges,
    Step::SqsMovesALetter,
    Step::RedrivenToSource,
    Step::RedrivenToDeliveries,
];

/// Walks a world with one event.
#[track_caller]
fn check_one(workers: usize, bounds: Bounds, least: usize, also: &[Step]) {
    let mut bodies = Bodies::default();
    let event = bodies.produced(0, World::deadline());
    let expected = [&ALWAYS, also].concat();
    check_walk(World::new(&[event], workers, bounds), &mut bodies, least, &expected);
}

#[test]
fn dlq_1_dlq_3_with_crashes_copies_and_a_redrive_nothing_is_lost_and_no_epoch_begins_by_itself() {
    let bounds = Bounds { instants: 2, crashes: 1, copies: 1, redrives: 1, ..NONE };
    let also = [Step::DeliverReceivesTwoCopies, Step::SqsCopies, Step::DeliverCrashes, Step::TriageCrashes];
    check_one(1, bounds, 120_000, &also);
}

#[test]
fn dlq_3_two_redrives_with_a_crash_begin_two_epochs_at_most() {
    check_one(1, Bounds { instants: 2, crashes: 1, redrives: 2, ..NONE }, 70_000, &[Step::DeliverCrashes]);
}

#[test]
fn dlq_3_two_redrives_of_copied_letters_begin_two_epochs_at_most() {
    check_one(1, Bounds { instants: 2, copies: 1, redrives: 2, ..NONE }, 70_000, &[Step::SqsCopies]);
}

#[test]
fn dlq_3_two_workers_with_two_copies_of_a_letter_begin_one_epoch() {
    let also = [Step::WriteRefused, Step::GivenBack];
    check_one(2, Bounds { instants: 2, copies: 1, redrives: 1, ..NONE }, 50_000, &also);
}

#[test]
fn dlq_3_a_redriven_delivery_may_wait_for_a_place() {
    let also = [Step::WaitStored, Step::GivenBack, Step::DeliverCrashes];
    check_one(1, Bounds { instants: 2, crashes: 1, redrives: 1, waits: 1, ..NONE }, 20_000, &also);
}

#[test]
fn dlq_5_what_sqs_moves_from_deliveries_is_an_ordinary_receive_when_it_comes_back() {
    let bounds = Bounds { instants: 2, crashes: 1, redrives: 1, losses: 1, ..NONE };
    check_one(1, bounds, 18_000, &[Step::SqsMovesADelivery, Step::DeliverCrashes]);
}

#[test]
fn dlq_3_led_8_a_letter_outlives_its_record() {
    let bounds = Bounds { instants: 2, crashes: 1, redrives: 1, deletions: 1, ..NONE };
    check_one(1, bounds, 30_000, &[Step::RecordDeleted, Step::DeliverCrashes]);
}

#[test]
fn dlq_4_a_malformed_body_and_an_event_do_not_touch_each_other() {
    for text in ["hello", r#"{"v":2,"id":"event_1:1","destination":"catalog","payload":1}"#] {
        let mut bodies = Bodies::default();
        let event = bodies.produced(0, World::deadline());
        let malformed = bodies.malformed(1, text);
        let world = World::new(&[event, malformed], 1, Bounds { instants: 1, redrives: 1, ..NONE });
        let expected = [&ALWAYS[..8], &[Step::MalformedSent, Step::RedrivenToSource, Step::SentOn]].concat();
        check_walk(world, &mut bodies, 1_000, &expected);
    }
}
