//! LED-3, LED-9: writing to the ledger and learning what really became of a write.
//!
//! Owns: the resolution of refused, lost and throttled writes. Must not: choose a move.

use std::collections::HashMap;

use lapse_policy::ledger::Record;
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Ledger, LedgerWrite, Unavailable, Written};

/// Statements of one BatchExecuteStatement (DynamoDB quota).
pub const WRITE_MOST: usize = 25;

/// What a write came to in the end.
#[derive(Debug, Clone, PartialEq)]
pub enum Committed {
    /// It is stored: by this call, or by one whose reply was lost.
    Stored,
    /// Someone else's write came first: the record as it is now.
    Lost(Option<Box<Record>>),
    /// The store could not be used; whether the write is stored is not known.
    Unavailable,
}

/// Makes the writes of one batch, all for different keys.
pub async fn commit<L: Ledger>(ledger: &L, writes: Vec<(DeliveryKey, LedgerWrite)>) -> Vec<Committed> {
    let first = written(ledger, &writes).await;
    let mut answers = resolve(ledger, &writes, &first).await;
    // What was not stored, by throttling or because the call never arrived, is tried once more (LED-9).
    let again: Vec<_> = answers.iter().enumerate().filter(|(_, a)| a.is_none()).map(|(i, _)| i).collect();
    if !again.is_empty() {
        let writes: Vec<_> = again.iter().filter_map(|i| writes.get(*i).cloned()).collect();
        let second = written(ledger, &writes).await;
        let resolved = resolve(ledger, &writes, &second).await;
        for (index, answer) in again.into_iter().zip(resolved) {
            answers[index] = answer;
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or(Committed::Unavailable)).collect()
}

async fn written<L: Ledger>(ledger: &L, writes: &[(DeliveryKey, LedgerWrite)]) -> Vec<Written> {
    ledger.write(writes).await.unwrap_or_else(|error| {
        log(&error);
        vec![Written::Unknown; writes.len()]
    })
}

/// `None` is a write that is certainly not stored.
async fn resolve<L: Ledger>(
    ledger: &L,
    writes: &[(DeliveryKey, LedgerWrite)],
    written: &[Written],
) -> Vec<Option<Committed>> {
    let doubtful = |w: &Written| matches!(w, Written::Refused | Written::Unknown);
    let keys: Vec<_> =
        writes.iter().zip(written).filter(|(_, w)| doubtful(w)).map(|((key, _), _)| key.clone()).collect();
    let found = if keys.is_empty() { Ok(HashMap::new()) } else { ledger.read(&keys).await.inspect_err(log) };
    let judge = |((key, write), outcome): (&(DeliveryKey, LedgerWrite), &Written)| match (outcome, &found) {
        (Written::Stored, _) => Some(Committed::Stored),
        (Written::NotStored, _) => None,
        (Written::Refused | Written::Unknown, Err(_)) => Some(Committed::Unavailable),
        (Written::Refused | Written::Unknown, Ok(found)) => by_record(write, found.get(key)),
    };
    writes.iter().zip(written).map(judge).collect()
}

fn by_record(write: &LedgerWrite, found: Option<&Record>) -> Option<Committed> {
    let (LedgerWrite::Insert(mine) | LedgerWrite::Swap(mine)) = write;
    match found {
        // "The record carries my token" is success (LED-3); a token is made per claim and kept by its completion,
        // so the version and the state tell which of the two writes it was.
        Some(theirs) if (theirs.version, theirs.state, &theirs.token) == (mine.version, mine.state, &mine.token) => {
            Some(Committed::Stored)
        }
        Some(theirs) if theirs.version + 1 == mine.version => None,
        None if matches!(write, LedgerWrite::Insert(_)) => None,
        other => Some(Committed::Lost(other.cloned().map(Box::new))),
    }
}

fn log(error: &Unavailable) {
    tracing::error!(operation = error.operation, cause = error.cause, "ledger_unavailable");
}
