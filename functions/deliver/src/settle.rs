//! ACK-1, ACK-3, LED-10, DLQ-1: giving messages back to the queue, sending deliveries on, and acknowledging.
//!
//! Owns: the order "record, then new message, row or letter, then acknowledge": what arrives here is recorded.
//! Must not: acknowledge anything whose next message is not accepted.

use std::sync::Arc;

use lapse_policy::ports::{Accepted, Outgoing, Row};
use lapse_policy::schedule::{Origin, RowKey};
use lapse_policy::waiting::{FRESHEN_AT, Wait, wait};

use crate::run::Run;
use crate::tally::Counts;
use crate::work::{Copy, End, Work};
use crate::world::World;

/// Carries out what deliveries have come to.
pub async fn settle<W: World>(run: &Run<'_, W>, ended: Vec<(Work, End)>) {
    let now = run.now();
    let (mut hidden, mut republished, mut parked, mut letters) = (vec![], vec![], vec![], vec![]);
    for (work, end) in ended {
        let means = match end {
            End::Acknowledge => {
                acknowledge(run, &work);
                continue;
            }
            End::Letter(epoch) => {
                letters.push((letter(&work, epoch, run), work));
                continue;
            }
            End::Back(after) => Wait::Defer(seconds(after)),
            End::Again(after) => Wait::Republish(seconds(after)),
            End::Wait(until) => wait(until, now, work.receives),
        };
        match means {
            Wait::Here(_) | Wait::Defer(_) if work.receives < FRESHEN_AT => hidden.push((delay(means), work)),
            // ACK-7: whatever brings it back so often, a thousand receives must not.
            Wait::Here(_) | Wait::Defer(_) | Wait::Republish(_) => {
                republished.push((again(&work, delay(means)), work));
            }
            Wait::Park(due) => {
                let key = RowKey::new(due, work.key.clone());
                let row = Row { key, body: Arc::clone(&work.message.body), origin: Origin::Resumed };
                parked.push((row, work));
            }
        }
    }
    hide(run, hidden).await;
    if !republished.is_empty() {
        let (messages, works): (Vec<_>, Vec<_>) = republished.into_iter().unzip();
        let answers = run.republishes.submit(&run.activity, messages).await;
        finish(run, works, answers.into_iter().map(accepted), "republish", |counts| counts.republished += 1);
    }
    if !parked.is_empty() {
        let (rows, works): (Vec<_>, Vec<_>) = parked.into_iter().unzip();
        let answers = run.parks.submit(&run.activity, rows).await;
        let stored = answers.into_iter().map(|answer| match answer {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err(LOST.to_owned()),
        });
        finish(run, works, stored, "park", |counts| counts.parked += 1);
    }
    if !letters.is_empty() {
        let (messages, works): (Vec<_>, Vec<_>) = letters.into_iter().unzip();
        let answers = run.letters.submit(&run.activity, messages).await;
        finish(run, works, answers.into_iter().map(accepted), "letter", |_| {});
    }
}

/// Sends the letters of bodies that are no messages, then acknowledges them (DLQ-4).
pub async fn settle_malformed<W: World>(run: &Run<'_, W>, letters: Vec<(Copy, Outgoing)>) {
    let (copies, messages): (Vec<_>, Vec<_>) = letters.into_iter().unzip();
    let answers = run.letters.submit(&run.activity, messages).await;
    for (copy, answer) in copies.into_iter().zip(answers) {
        match accepted(answer) {
            Ok(()) => run.acknowledge(copy.index),
            Err(cause) => tracing::error!(cause, "letter_not_sent"),
        }
    }
}

const LOST: &str = "the call was lost";

fn accepted(answer: Option<Accepted>) -> Result<(), String> {
    match answer {
        Some(Accepted::Yes) => Ok(()),
        Some(Accepted::No(cause) | Accepted::Never(cause)) => Err(cause),
        None => Err(LOST.to_owned()),
    }
}

/// Marks all of a delivery's messages as done.
pub fn acknowledge<W: World>(run: &Run<'_, W>, work: &Work) {
    for copy in &work.copies {
        run.acknowledge(copy.index);
    }
}

/// Acknowledges each delivery whose successor is stored; another stays, and comes back by itself.
fn finish<W: World>(
    run: &Run<'_, W>,
    works: Vec<Work>,
    answers: impl Iterator<Item = Result<(), String>>,
    what: &'static str,
    counted: impl Fn(&mut Counts),
) {
    for (work, answer) in works.into_iter().zip(answers) {
        match answer {
            Ok(()) => {
                acknowledge(run, &work);
                run.count(&work.key.destination, &counted);
            }
            Err(cause) => tracing::error!(delivery = %work.key, what, cause, "not_sent_on"),
        }
    }
}

/// A failed deferral falls back to the queue's own visibility: later, never lost (ACK-3).
async fn hide<W: World>(run: &Run<'_, W>, works: Vec<(i32, Work)>) {
    if works.is_empty() {
        return;
    }
    let receipts = |(seconds, work): &(i32, Work)| {
        let (seconds, name) = (*seconds, work.key.destination.clone());
        work.copies.iter().map(move |copy| (name.clone(), (copy.receipt.clone(), seconds))).collect::<Vec<_>>()
    };
    let (names, items): (Vec<_>, Vec<_>) = works.iter().flat_map(receipts).unzip();
    for (name, answer) in names.iter().zip(run.hides.submit(&run.activity, items).await) {
        match accepted(answer) {
            Ok(()) => run.count(name, |counts| counts.deferred += 1),
            Err(cause) => tracing::warn!(cause, "deferral_failed"),
        }
    }
}

fn delay(means: Wait) -> i32 {
    match means {
        Wait::Here(_) | Wait::Park(_) => 0,
        Wait::Defer(seconds) | Wait::Republish(seconds) => seconds,
    }
}

fn seconds(after: std::time::Duration) -> i32 {
    i32::try_from(after.as_secs()).unwrap_or(i32::MAX)
}

fn again(work: &Work, delay_seconds: i32) -> Outgoing {
    Outgoing {
        body: Arc::clone(&work.message.body),
        group: Some(work.key.destination.clone()),
        delay_seconds,
        origin: Origin::Resumed,
    }
}

fn letter<W: World>(work: &Work, epoch: u32, run: &Run<'_, W>) -> Outgoing {
    Outgoing {
        body: work.message.letter(epoch, run.now()).into(),
        group: Some(work.key.destination.clone()),
        delay_seconds: 0,
        origin: Origin::New,
    }
}
