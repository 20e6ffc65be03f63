//! LED-4, LED-5, LED-10, DLQ-1, DLQ-3: what a record says about the message at hand.

use lapse_policy::ledger::{Record, Standing, State, standing};
use lapse_policy::message::Mark;
use lapse_policy::reason::Reason;

use crate::{NOW, STATES, at, moment, record};

fn mark(epoch: Option<u32>) -> Mark {
    Mark { epoch, at: NOW }
}

#[track_caller]
fn check_standing(label: &str, record: &Record, mark: Option<Mark>, expected: Standing) {
    assert_eq!(standing(Some(record), mark, at(0)), expected, "{label}");
}

#[test]
fn led_4_a_lease_is_live_to_its_last_millisecond() {
    let sending = |lease| Record { lease, ..record(State::Sending) };
    check_standing("live", &sending(Some(at(1))), None, Standing::Busy(at(1)));
    check_standing("over", &sending(Some(at(0))), None, Standing::Crashed);
    check_standing("without one", &sending(None), None, Standing::Crashed);
    check_standing("a redrive's copy", &sending(Some(at(1))), Some(mark(Some(2))), Standing::Busy(at(1)));
}

#[test]
fn led_5_delivered_is_delivered_whatever_the_copy_carries() {
    assert_eq!(standing(None, None, NOW), Standing::Absent);
    for copy in [None, Some(mark(Some(2))), Some(mark(None))] {
        check_standing("delivered", &record(State::Delivered), copy, Standing::Delivered);
    }
}

#[test]
fn led_10_it_is_due_a_second_before_its_time() {
    let waiting = |next_at| Record { next_at, ..record(State::Waiting) };
    check_standing("later", &waiting(Some(at(1001))), None, Standing::NotYet(at(1001)));
    check_standing("within 1.0 s", &waiting(Some(at(1000))), None, Standing::Due);
    check_standing("past", &waiting(Some(at(0))), None, Standing::Due);
    check_standing("no time", &waiting(None), None, Standing::Due);
    check_standing("a mark changes nothing", &waiting(Some(at(1001))), Some(mark(Some(2))), Standing::NotYet(at(1001)));
}

#[test]
fn dlq_1_a_dead_record_gets_its_letter_until_triage_has_seen_it() {
    let dead = |triaged_epoch| Record { triaged_epoch, ..record(State::Dead) };
    check_standing("never", &dead(None), None, Standing::LetterMissing);
    check_standing("that of an earlier epoch", &dead(Some(1)), None, Standing::LetterMissing);
    check_standing("this one's", &dead(Some(2)), None, Standing::LetterThere);
}

#[test]
fn dlq_3_only_the_mark_of_this_epoch_is_a_redrive() {
    let dead = Record { triaged_epoch: Some(2), ..record(State::Dead) };
    check_standing("this epoch's", &dead, Some(mark(Some(2))), Standing::Redriven);
    check_standing("an older one is a copy", &dead, Some(mark(Some(1))), Standing::LetterThere);
    check_standing("a newer one is none of ours", &dead, Some(mark(Some(3))), Standing::LetterThere);
    check_standing("a mark without an epoch", &dead, Some(mark(None)), Standing::LetterThere);
    let untriaged = Record { triaged_epoch: None, ..dead.clone() };
    check_standing("its disposition was not written", &untriaged, Some(mark(Some(2))), Standing::Redriven);
    let again = dead.redriven(at(9000), moment(0)).and_then(|r| r.dead("t9", Reason::Gone, None, moment(1)));
    let again = again.expect("waiting");
    check_standing("the redrive's own copy, dead again", &again, Some(mark(Some(2))), Standing::LetterMissing);
}

#[test]
fn a_states_name_leads_back_to_it() {
    for state in STATES {
        assert_eq!(State::named(state.name()), Some(state));
    }
    assert_eq!(State::named("lost"), None);
}
