//! DLQ-2: what `triage` does with a message on `failures`.
//!
//! Owns: the judgement by body and times alone. Must not: look at receive counts, ids or attributes.

use std::time::Duration;

use crate::ledger::{Record, State};
use crate::message::{Letter, Mark};
use crate::timestamp::Timestamp;

/// A letter sent this much after its death was redriven (DLQ-2), unless configured otherwise.
pub const REDRIVE_AFTER: Duration = Duration::from_mins(1);
/// How long a message that SQS itself moved waits before it is delivered again: its sender may still run.
pub const UNMARKED_DELAY: Duration = Duration::from_mins(1);

/// What is done with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Write the disposition if the record is Dead in this epoch, then hand the message to SQS for `dead-letters`.
    Fresh(Option<u32>),
    /// Send it unchanged to `deliveries`, then acknowledge.
    Redriven,
    /// Send it to `deliveries` with a delay, then acknowledge.
    Unmarked,
    /// Hand it to SQS for `dead-letters`.
    Unreadable,
}

/// Judges a letter by its mark and by when it was sent to `failures`.
#[must_use]
pub fn judge(letter: &Letter, sent_at: Timestamp, redrive_after: Duration) -> Verdict {
    match letter {
        Letter::Marked { mark: Mark { epoch, at }, .. } => {
            if sent_at.since(*at) < redrive_after {
                Verdict::Fresh(*epoch)
            } else {
                Verdict::Redriven
            }
        }
        Letter::Unmarked(_) => Verdict::Unmarked,
        Letter::Unreadable => Verdict::Unreadable,
    }
}

/// What a fresh letter's record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is Dead in the letter's epoch: write what the operator reads.
    Write,
    /// It was delivered after all: the letter is void.
    Delivered,
    /// It moved on, or is gone: nothing to write, the letter stands.
    None,
}

/// Judges a fresh letter by its record.
#[must_use]
pub fn disposition(record: Option<&Record>, epoch: Option<u32>) -> Disposition {
    match record {
        Some(record) if record.state == State::Delivered => Disposition::Delivered,
        Some(record) if record.state == State::Dead && Some(record.epoch) == epoch => Disposition::Write,
        Some(_) | None => Disposition::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Moment;
    use crate::message::Message;

    const DEAD_AT: Timestamp = Timestamp::from_millis(1_764_504_000_000);
    const BODY: &str =
        r#"{"v":1,"id":"a:1","destination":"c","type":"t","occurred_at":"2026-11-30T12:00:00Z","payload":1}"#;

    fn letter(epoch: u32) -> Letter {
        Letter::parse(&Message::parse(BODY).expect("valid").letter(epoch, DEAD_AT))
    }

    #[track_caller]
    fn check(label: &str, letter: &Letter, ms: u64, expected: Verdict) {
        let sent_at = DEAD_AT.plus(Duration::from_millis(ms));
        assert_eq!(judge(letter, sent_at, REDRIVE_AFTER), expected, "{label}");
    }

    #[test]
    fn dlq_2_a_letter_sent_a_minute_after_its_death_was_redriven() {
        check("at once", &letter(2), 0, Verdict::Fresh(Some(2)));
        check("59.999 s", &letter(2), 59_999, Verdict::Fresh(Some(2)));
        check("60 s", &letter(2), 60_000, Verdict::Redriven);
        check("13 days", &letter(2), 13 * 86_400_000, Verdict::Redriven);
        let before = judge(&letter(2), DEAD_AT.minus(Duration::from_secs(2)), REDRIVE_AFTER);
        assert_eq!(before, Verdict::Fresh(Some(2)), "by a queue's clock that is behind");
    }

    #[test]
    fn dlq_2_how_long_a_letter_is_fresh_is_configuration() {
        let judged = |ms| judge(&letter(1), DEAD_AT.plus(Duration::from_millis(ms)), Duration::from_secs(2));
        assert_eq!([judged(1999), judged(2000)], [Verdict::Fresh(Some(1)), Verdict::Redriven]);
    }

    #[test]
    fn dlq_4_the_letter_of_a_malformed_body_has_no_epoch_and_is_judged_alike() {
        let error = Message::parse("hello").expect_err("no message");
        let malformed = crate::message::malformed_letter("hello", &error, DEAD_AT).expect("fits");
        check("fresh", &Letter::parse(&malformed), 59_999, Verdict::Fresh(None));
        check("redriven", &Letter::parse(&malformed), 60_000, Verdict::Redriven);
    }

    #[test]
    fn dlq_2_what_carries_no_mark_is_delivered_or_handed_over() {
        for ms in [0, 60_000] {
            check("a message that SQS moved", &Letter::parse(BODY), ms, Verdict::Unmarked);
            check("no message", &Letter::parse("hello"), ms, Verdict::Unreadable);
        }
    }

    fn record(state: State, epoch: u32) -> Record {
        let moment = Moment { now: DEAD_AT, deadline: DEAD_AT };
        Record { state, ..Record::first("token", epoch, moment) }
    }

    #[track_caller]
    fn check_disposition(label: &str, record: Option<&Record>, epoch: Option<u32>, expected: Disposition) {
        assert_eq!(disposition(record, epoch), expected, "{label}");
    }

    #[test]
    fn dlq_2_a_disposition_is_written_while_the_record_is_dead_in_that_epoch() {
        use State::{Dead, Delivered, Sending, Waiting};
        check_disposition("dead", Some(&record(Dead, 2)), Some(2), Disposition::Write);
        check_disposition("dead again since", Some(&record(Dead, 3)), Some(2), Disposition::None);
        check_disposition("a letter ahead of its record", Some(&record(Dead, 1)), Some(2), Disposition::None);
        check_disposition("redriven: sending", Some(&record(Sending, 3)), Some(2), Disposition::None);
        check_disposition("redriven: waiting", Some(&record(Waiting, 3)), Some(2), Disposition::None);
        check_disposition("a late 2xx", Some(&record(Delivered, 2)), Some(2), Disposition::Delivered);
        check_disposition("delivered in a later epoch", Some(&record(Delivered, 3)), Some(2), Disposition::Delivered);
        check_disposition("no record any more", None, Some(2), Disposition::None);
        check_disposition("malformed: no record ever", None, None, Disposition::None);
        check_disposition("a mark without an epoch", Some(&record(Dead, 1)), None, Disposition::None);
    }
}
