//! ACK-2, ACK-5, ACK-6, ACK-8: a batch of messages from its bodies to the list of those that stay.
//!
//! Owns: the order of the whole. Must not: let one record, or one destination, decide about another.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use lapse_aws::sqs_event::Received;
use lapse_policy::message::malformed_letter;
use lapse_policy::ports::{Clock as _, Ledger as _, Outgoing};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;

use crate::group::{by_destination, group};
use crate::intent::{BACK_LEAST, BACK_MOST};
use crate::lane::give_back_all;
use crate::run::{Memory, Run};
use crate::settle::{settle, settle_malformed};
use crate::tally::Tally;
use crate::work::{Copy, End, Work, parse};
use crate::world::World;

/// The handler answers this much before its deadline, whatever still runs (ACK-6).
const ANSWER_BEFORE: Duration = Duration::from_secs(1);

/// Unless lanes are still held then: they are given back until this much before it.
const GIVE_BACK_BEFORE: Duration = Duration::from_millis(500);

/// Clocks differ by at most this (LIM-5's D).
const CLOCKS_DIFFER: Duration = Duration::from_secs(2);

/// What a batch came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The positions of the messages that stay in the queue.
    pub remaining: Vec<usize>,
    /// The counts.
    pub tally: Tally,
}

/// Delivers a batch.
pub async fn deliver<W: World>(world: &W, memory: &Memory, batch: &[Received], ends_at: Timestamp) -> Delivered {
    let function_timeout = about(ends_at.since(world.clock().now()));
    let run = Run::new(world, memory, batch.len(), ends_at, function_timeout);
    run.drive(work(&run, batch), ends_at.minus(ANSWER_BEFORE)).await;
    // Requests that were cut off are dropped by now: their lanes are free to use.
    give_back_all(&run, ends_at.minus(GIVE_BACK_BEFORE)).await;
    Delivered { remaining: run.remaining(), tally: run.tally.take() }
}

/// The function's timeout at most: what is left of it just after the start, and what clocks may differ by. A
/// destination must not be taken for unusable because this sandbox's clock is fast.
fn about(left: Duration) -> Duration {
    left + CLOCKS_DIFFER
}

async fn work<W: World>(run: &Run<'_, W>, batch: &[Received]) {
    let parsed = parse(batch);
    for work in &parsed.works {
        let copies = u32::try_from(work.copies.len()).unwrap_or(u32::MAX);
        run.count(&work.key.destination, |counts| {
            counts.received += copies;
            counts.duplicates += copies.saturating_sub(1);
        });
    }
    let letters = async {
        let _me = run.activity.join();
        let letters = parsed.malformed.into_iter().map(|(copy, body, error)| {
            tracing::warn!(error = %error, "malformed_message");
            run.tally.borrow_mut().malformed += 1;
            // Without room for a mark it goes on as it is; `triage` tells by the body.
            let body = malformed_letter(&body, &error, run.now()).map_or(body, Into::into);
            (copy, Outgoing { body, group: None, delay_seconds: 0, origin: Origin::New })
        });
        let letters: Vec<(Copy, Outgoing)> = letters.collect();
        if !letters.is_empty() {
            settle_malformed(run, letters).await;
        }
    };
    let deliveries = async {
        let me = run.activity.join();
        let works = read(run, parsed.works).await;
        let now = run.now();
        let (suspects, works): (Vec<_>, Vec<_>) = works.into_iter().partition(|work| work.is_suspect(now));
        let groups: Vec<_> = by_destination(works).into_iter().map(|(name, works)| guarded(run, name, works)).collect();
        drop(me);
        futures::future::join_all(groups).await;
        // LED-4: what may have killed its workers is claimed alone, when nothing else is at stake.
        for (name, works) in by_destination(suspects) {
            for work in works {
                guarded(run, name.clone(), vec![work]).await;
            }
        }
    };
    futures::future::join(letters, deliveries).await;
}

/// A panic in what a destination's deliveries share fails them, and no others.
async fn guarded<W: World>(run: &Run<'_, W>, name: lapse_policy::names::DestinationName, works: Vec<Work>) {
    if AssertUnwindSafe(group(run, &name, works)).catch_unwind().await.is_err() {
        tracing::error!(destination = %name, "group_panicked");
    }
}

/// Reads the records of all deliveries that may have one, in one call (LED-2).
async fn read<W: World>(run: &Run<'_, W>, works: Vec<Work>) -> Vec<Work> {
    let keys: Vec<_> = works.iter().filter(|work| work.may_have_record()).map(|work| work.key.clone()).collect();
    if keys.is_empty() {
        return works;
    }
    match run.world.ledger().read(&keys).await {
        Ok(mut records) => {
            let with_record = |work: Work| Work { record: records.remove(&work.key), ..work };
            works.into_iter().map(with_record).collect()
        }
        Err(error) => {
            tracing::error!(operation = error.operation, cause = error.cause, "ledger_unavailable");
            let (unread, rest): (Vec<_>, Vec<_>) = works.into_iter().partition(Work::may_have_record);
            let back = |work| (work, End::Back(run.between(BACK_LEAST, BACK_MOST)));
            settle(run, unread.into_iter().map(back).collect()).await;
            rest
        }
    }
}
