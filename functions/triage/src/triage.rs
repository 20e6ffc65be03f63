//! DLQ-2, ACK-2: a batch of letters.
//!
//! Owns: the order "write the disposition, then hand over" and "send on, then acknowledge".
//! Must not: acknowledge anything it has not sent on, but for the letter of a delivered event; send to `dead-letters`.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use lapse_aws::sqs_event::Received;
use lapse_policy::ledger::Record;
use lapse_policy::message::Letter;
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Accepted, Clock, Ledger, Outbox, Outgoing, Unavailable, Visibility};
use lapse_policy::schedule::Origin;
use lapse_policy::triage::{Disposition, UNMARKED_DELAY, Verdict, disposition, judge};

/// Writing what the operator reads onto a dead record.
pub trait Dispositions {
    /// Writes it if the record is still Dead in that epoch; a record that moved on is left alone.
    fn write(&self, key: &DeliveryKey, record: &Record) -> impl Future<Output = Result<(), Unavailable>>;
}

/// The ports of a batch.
#[derive(Debug)]
pub struct Triage<C, L, D, F, Q> {
    /// Time.
    pub clock: C,
    /// The ledger, to read.
    pub ledger: L,
    /// The ledger, to write dispositions.
    pub dispositions: D,
    /// The queue `failures`, whose messages these are.
    pub failures: F,
    /// The queue `deliveries`.
    pub deliveries: Q,
    /// A letter sent this much after its death was redriven.
    pub redrive_after: Duration,
}

/// What a batch came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Triaged {
    /// The positions of the messages that stay: they go to `dead-letters` by SQS's own move, or come back.
    pub remaining: Vec<usize>,
    /// Letters whose disposition is written.
    pub disposed: u32,
    /// Letters that an operator redrove.
    pub redriven: u32,
    /// Messages without a mark that were sent back to work.
    pub unmarked: u32,
    /// Letters of deliveries that were delivered after all.
    pub void: u32,
}

enum Step {
    /// Write the disposition, if any, and hand it to SQS for the move.
    HandOver(Option<(DeliveryKey, Record)>),
    /// Send it to `deliveries`, then acknowledge.
    SendOn(Outgoing),
    /// Acknowledge: it was delivered.
    Void,
    /// It could not be judged: it comes back by the queue's own visibility.
    Stay,
}

/// What is left to do for a letter once its disposition is written.
enum Done {
    HandOver { disposed: bool },
    SendOn(Outgoing),
    Void,
    Stay,
}

impl<C, L, D, F, Q> Triage<C, L, D, F, Q>
where
    C: Clock,
    L: Ledger,
    D: Dispositions,
    F: Visibility,
    Q: Outbox,
{
    /// Triages a batch. Each message is judged on its own (ACK-2).
    pub async fn batch(&self, batch: &[Received]) -> Triaged {
        let letters: Vec<_> = batch.iter().map(|received| Letter::parse(&received.body)).collect();
        let records = self.records(&letters).await;
        let mut triaged = Triaged::default();
        let (mut handed, mut sending) = (Vec::new(), Vec::new());
        for (index, (received, letter)) in batch.iter().zip(&letters).enumerate() {
            match self.guarded(received, letter, records.as_ref()).await {
                Done::Void => triaged.void += 1,
                Done::Stay => triaged.remaining.push(index),
                Done::SendOn(message) => sending.push((index, message)),
                Done::HandOver { disposed } => {
                    triaged.disposed += u32::from(disposed);
                    handed.push((received.receipt_handle.clone(), 0));
                    triaged.remaining.push(index);
                }
            }
        }
        self.hand_over(&handed).await;
        self.send_on(sending, batch, &mut triaged).await;
        triaged.remaining.sort_unstable();
        triaged
    }

    /// One letter, up to what is done for all together. A panic fails this letter alone (ACK-2): it comes back.
    async fn guarded(
        &self,
        received: &Received,
        letter: &Letter,
        records: Option<&HashMap<DeliveryKey, Record>>,
    ) -> Done {
        let work = async {
            match self.step(received, letter, records) {
                Step::Void => Done::Void,
                Step::Stay => Done::Stay,
                Step::SendOn(message) => Done::SendOn(message),
                Step::HandOver(disposition) => self.dispose(disposition.as_ref()).await,
            }
        };
        AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(message_id = received.message_id, "record_panicked");
            Done::Stay
        })
    }

    /// The records of all letters that have one; `None` where the ledger cannot be read.
    async fn records(&self, letters: &[Letter]) -> Option<HashMap<DeliveryKey, Record>> {
        let key = |letter: &Letter| match letter {
            Letter::Marked { key, .. } => key.clone(),
            Letter::Unmarked(_) | Letter::Unreadable => None,
        };
        let mut keys: Vec<_> = letters.iter().filter_map(key).collect();
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Some(HashMap::new());
        }
        let found = self.ledger.read(&keys).await;
        found
            .inspect_err(|error| {
                tracing::error!(operation = error.operation, cause = error.cause, "ledger_unavailable");
            })
            .ok()
    }

    fn step(&self, received: &Received, letter: &Letter, records: Option<&HashMap<DeliveryKey, Record>>) -> Step {
        let sent_at = received.sent_at.unwrap_or_else(|| self.clock.now());
        let (key, epoch) = match letter {
            Letter::Marked { key, mark } => (key.as_ref(), mark.epoch),
            Letter::Unmarked(key) => (Some(key), None),
            Letter::Unreadable => (None, None),
        };
        let onward = |delay_seconds, origin| {
            let group = key.map(|key| key.destination.clone());
            Step::SendOn(Outgoing { body: received.body.clone(), group, delay_seconds, origin })
        };
        match judge(letter, sent_at, self.redrive_after) {
            Verdict::Unreadable => Step::HandOver(None),
            Verdict::Unmarked => onward(i32::try_from(UNMARKED_DELAY.as_secs()).unwrap_or(60), Origin::Resumed),
            Verdict::Redriven => onward(0, Origin::Resumed),
            Verdict::Fresh(_) => match (key, records) {
                (None, _) => Step::HandOver(None),
                (Some(_), None) => Step::Stay,
                (Some(key), Some(records)) => {
                    let record = records.get(key);
                    match (disposition(record, epoch), record) {
                        (Disposition::Delivered, _) => Step::Void,
                        (Disposition::Write, Some(record)) => Step::HandOver(Some((key.clone(), record.clone()))),
                        (Disposition::Write | Disposition::None, _) => Step::HandOver(None),
                    }
                }
            },
        }
    }

    /// Writes a disposition; a letter whose disposition could not be written stays until it is.
    async fn dispose(&self, disposition: Option<&(DeliveryKey, Record)>) -> Done {
        let Some((key, record)) = disposition else { return Done::HandOver { disposed: false } };
        match self.dispositions.write(key, record).await {
            // SQS hands a letter over thrice before it moves it: it is counted and logged the first time.
            Ok(()) if record.triaged_epoch == Some(record.epoch) => Done::HandOver { disposed: false },
            Ok(()) => {
                tracing::info!(
                    event_id = %key.id,
                    destination = %key.destination,
                    epoch = record.epoch,
                    reason = record.reason.map(lapse_policy::reason::Reason::name),
                    "dead_letter"
                );
                Done::HandOver { disposed: true }
            }
            Err(error) => {
                tracing::error!(operation = error.operation, cause = error.cause, "disposition_not_written");
                Done::Stay
            }
        }
    }

    /// Visible at once, so that SQS receives it again and moves it. Where that fails, it happens later.
    async fn hand_over(&self, receipts: &[(String, i32)]) {
        if receipts.is_empty() {
            return;
        }
        for answer in self.failures.hide(receipts).await {
            if let Accepted::No(cause) | Accepted::Never(cause) = answer {
                tracing::warn!(cause, "hand_over_delayed");
            }
        }
    }

    async fn send_on(&self, sending: Vec<(usize, Outgoing)>, batch: &[Received], triaged: &mut Triaged) {
        if sending.is_empty() {
            return;
        }
        let (indexes, messages): (Vec<_>, Vec<_>) = sending.into_iter().unzip();
        let answers = self.deliveries.send(&messages).await;
        for ((index, message), answer) in indexes.into_iter().zip(messages).zip(answers) {
            match answer {
                Accepted::Yes if message.delay_seconds > 0 => triaged.unmarked += 1,
                Accepted::Yes => triaged.redriven += 1,
                Accepted::No(cause) | Accepted::Never(cause) => {
                    let message_id = batch.get(index).map(|received| received.message_id.as_str());
                    tracing::error!(message_id, cause, "not_sent_on");
                    triaged.remaining.push(index);
                }
            }
        }
    }
}
