//! LED-2, LED-10, ACK-8: what is next for a delivery, from its record and the time, and writing that down.
//!
//! Owns: judging a record, turning an [`Intent`] into a ledger write, reading the write's answer.
//! Must not: book places or send.

use std::time::Duration;

use lapse_policy::ledger::{IllegalMove, LEASE_MARGIN, Moment, Record, Standing, State, standing};
use lapse_policy::ports::{Chance as _, LedgerWrite};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::commit::Committed;
use crate::run::Run;
use crate::work::{End, Work};
use crate::world::World;

/// Someone else's lease is looked at again after this at the latest (LED-4).
const BUSY_MOST: Duration = Duration::from_secs(30);
/// What could not be worked on comes back between these (LIM-8).
pub const BACK_LEAST: Duration = Duration::from_secs(1);
/// See [`BACK_LEAST`].
pub const BACK_MOST: Duration = Duration::from_secs(10);

/// For how long a delivery waits whose claim is undone: by its floor second it comes back after 1 s (ACK-4), not at
/// once.
pub const UNDONE: Duration = Duration::from_millis(1_900);

/// A delivery that may be worked on now.
#[derive(Debug)]
pub struct Ready {
    /// The delivery.
    pub work: Work,
    /// Its record: as it was read, as it starts, or as it was claimed.
    pub base: Record,
    /// The deadline that holds.
    pub deadline: Timestamp,
    /// What the destination asked for, or our schedule: no attempt before this (RET-2).
    pub not_before: Option<Timestamp>,
    /// A place at the gate that is booked for it.
    pub place: Option<Micros>,
}

/// What is written about a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Intent {
    /// Claim it for sending.
    Send,
    /// Let it wait, with a planned time if it has one.
    Wait(Timestamp, Option<Micros>),
    /// End it for a person.
    Dead(Reason, Option<String>),
    /// Nothing is written: it comes back.
    Back(Duration),
}

/// What became of an intent.
#[derive(Debug)]
pub enum Outcome {
    /// It is claimed, and its record is the claim's.
    Claimed(Box<Ready>),
    /// It is done with in this invocation.
    Ended(Work, End),
    /// Another write came first: judge it again.
    Lost(Work),
}

/// A delivery that may be worked on, or what it comes to.
pub type Judged = Result<Box<Ready>, Box<(Work, End)>>;

/// Judges a delivery by its record (ACK-8: Delivered, Dead, not yet).
pub fn judge(work: Work, max_age: Duration, now: Timestamp, token: &str) -> Judged {
    let of_event = work.message.deadline(max_age);
    let moment = Moment { now, deadline: of_event };
    let record = work.record.as_ref();
    let end = match (standing(record, work.message.mark, now), record) {
        (Standing::Absent, _) | (_, None) => {
            // A redriven message whose record is gone keeps its epoch's number.
            let epoch = work.message.mark.and_then(|mark| mark.epoch).unwrap_or(1);
            let base = Record::first(token, epoch, moment);
            return Ok(Box::new(Ready { work, base, deadline: of_event, not_before: None, place: None }));
        }
        (Standing::Delivered | Standing::LetterThere, _) => End::Acknowledge,
        (Standing::LetterMissing, Some(record)) => End::Letter(record.epoch),
        (Standing::Busy(until), _) => End::Back((until.since(now) + Duration::from_secs(1)).min(BUSY_MOST)),
        (Standing::NotYet(next_at), _) => End::Wait(next_at),
        (Standing::Redriven, Some(record)) => match record.redriven(now.plus(max_age), moment) {
            Ok(base) => {
                let deadline = base.deadline(of_event);
                return Ok(Box::new(Ready { work, base, deadline, not_before: None, place: None }));
            }
            Err(error) => refused(&work, error),
        },
        (Standing::Due | Standing::Crashed, Some(record)) => {
            let base = record.clone();
            let deadline = base.deadline(of_event);
            // A planned message keeps its time, however late it wakes; the gate says whether it is sent (LIM-4).
            let planned = base.planned_at.filter(|_| base.state == State::Waiting);
            let not_before = if base.planned_at.is_none() { base.next_at } else { None };
            let mut work = work;
            work.planned = work.planned.or(planned);
            return Ok(Box::new(Ready { work, base, deadline, not_before, place: None }));
        }
    };
    Err(Box::new((work, end)))
}

fn refused(work: &Work, error: IllegalMove) -> End {
    // Unreachable by the rules; if it is reached all the same, the message stays and says so.
    tracing::error!(delivery = %work.key, cause = %error, "illegal_move");
    End::Back(BACK_MOST)
}

/// Writes intents down, all in one go, and tells what became of each.
pub async fn write_down<W: World>(run: &Run<'_, W>, intents: Vec<(Ready, Intent)>) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(intents.len());
    let mut pending = Vec::with_capacity(intents.len());
    let mut writes = Vec::with_capacity(intents.len());
    for (ready, intent) in intents {
        match next_record(run, &ready, &intent) {
            None => {
                let end = if let Intent::Back(after) = intent { End::Back(after) } else { End::Back(BACK_LEAST) };
                outcomes.push(Outcome::Ended(ready.work, end));
            }
            Some(Err(error)) => {
                let end = refused(&ready.work, error);
                outcomes.push(Outcome::Ended(ready.work, end));
            }
            Some(Ok(record)) => {
                let insert = ready.base.version == 0;
                let write =
                    if insert { LedgerWrite::Insert(record.clone()) } else { LedgerWrite::Swap(record.clone()) };
                writes.push((ready.work.key.clone(), write));
                pending.push((ready, intent, record));
            }
        }
    }
    if writes.is_empty() {
        return outcomes;
    }
    let answers = run.ledger.submit(&run.activity, writes).await;
    for ((ready, intent, record), answer) in pending.into_iter().zip(answers) {
        outcomes.push(match answer.unwrap_or(Committed::Unavailable) {
            Committed::Stored => stored(run, ready, &intent, record),
            Committed::Lost(theirs) => {
                // A time to wait for is no leave to send: their record says whether it has one (LIM-4).
                let planned = ready.work.planned.filter(|_| intent == Intent::Send);
                Outcome::Lost(Work { record: theirs.map(|record| *record), planned, ..ready.work })
            }
            Committed::Unavailable => Outcome::Ended(ready.work, End::Back(run.between(BACK_LEAST, BACK_MOST))),
        });
    }
    outcomes
}

fn next_record<W: World>(run: &Run<'_, W>, ready: &Ready, intent: &Intent) -> Option<Result<Record, IllegalMove>> {
    let moment = Moment { now: run.now(), deadline: ready.deadline };
    let token = run.world.chance().token();
    Some(match intent {
        Intent::Back(_) => return None,
        Intent::Send => {
            let base = Record { planned_at: ready.work.planned, ..ready.base.clone() };
            base.claimed(&token, run.ends_at.plus(LEASE_MARGIN), moment)
        }
        Intent::Wait(next_at, planned) => ready.base.waiting(&token, *next_at, *planned, moment),
        Intent::Dead(reason, error) => ready.base.dead(&token, *reason, error.clone(), moment),
    })
}

fn stored<W: World>(run: &Run<'_, W>, ready: Ready, intent: &Intent, record: Record) -> Outcome {
    // Only the first write of an invocation follows the record that was read.
    let starts = |read: &Record| read.epoch < record.epoch && read.version + 1 == record.version;
    if ready.work.record.as_ref().is_some_and(starts) {
        run.count(&ready.work.key.destination, |counts| counts.epochs_started += 1);
    }
    match intent {
        Intent::Send => Outcome::Claimed(Box::new(Ready { base: record, ..ready })),
        Intent::Wait(next_at, _) => Outcome::Ended(ready.work, End::Wait(*next_at)),
        Intent::Dead(reason, _) => {
            run.count(&ready.work.key.destination, |counts| *counts.dead.entry(*reason).or_default() += 1);
            tracing::warn!(
                event_id = %ready.work.key.id,
                destination = %ready.work.key.destination,
                epoch = record.epoch,
                reason = reason.name(),
                error = told(*reason, &record),
                attempts = record.attempts,
                "delivery_dead"
            );
            Outcome::Ended(ready.work, End::Letter(record.epoch))
        }
        Intent::Back(after) => Outcome::Ended(ready.work, End::Back(*after)),
    }
}

/// The error, where its words are ours: the start of an answer stays in the record (OBS-4). What a destination's row
/// is told for is ours whatever an earlier attempt was answered.
fn told(reason: Reason, record: &Record) -> Option<&str> {
    let ours = match reason {
        Reason::UnknownDestination | Reason::InvalidDestination | Reason::DisabledDestination => true,
        Reason::MalformedMessage
        | Reason::PermanentStatus
        | Reason::Redirect
        | Reason::Gone
        | Reason::BlockedAddress
        | Reason::InvalidUrl
        | Reason::AttemptsExhausted
        | Reason::DeadlinePassed
        | Reason::RetryAfterExceedsDeadline
        | Reason::RetryAfterExceedsLimit
        | Reason::NoRetryBeforeDeadline
        | Reason::NoPlaceBeforeDeadline
        | Reason::Poison => record.last_status.is_none(),
    };
    record.last_error.as_deref().filter(|_| ours)
}

/// Outcomes of intents that claim nothing: what each delivery comes to.
#[must_use]
pub fn ends(outcomes: Vec<Outcome>) -> Vec<(Work, End)> {
    let end = |outcome| match outcome {
        Outcome::Ended(work, end) => (work, end),
        // Whoever wrote first will be read when the message comes back.
        Outcome::Lost(work) => (work, End::Back(BACK_LEAST)),
        Outcome::Claimed(ready) => (ready.work, End::Back(BACK_LEAST)),
    };
    outcomes.into_iter().map(end).collect()
}
