//! Counting the calls that `deliver` makes to its stores, by table and kind.
//!
//! Owns: the counts, and adapters that count and hand on. Must not: change a call or its answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lapse_policy::clock::{Clock, Clocks, Write};
use lapse_policy::ledger::Record;
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::{ClockAnswer, Destinations, Ledger, LedgerWrite, Limits, Parking, Row, Unavailable, Written};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// A number that only grows, whoever adds to it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    fn add(&self, more: usize) {
        self.0.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.now().serialize(serializer)
    }
}

/// The calls of all environments. A conditional write is one whether its condition holds or not.
#[derive(Debug, Default, Serialize)]
pub struct Calls {
    /// UpdateItem on the plan's clock, or on both.
    pub limits_plan_writes: Count,
    /// UpdateItem on the gate's clock.
    pub limits_gate_writes: Count,
    /// UpdateItem on the pause.
    pub limits_pause_writes: Count,
    /// Those of the three whose condition did not hold.
    pub limits_refused_writes: Count,
    /// GetItem of a clock.
    pub limits_reads: Count,
    /// BatchExecuteStatement on records.
    pub ledger_write_calls: Count,
    /// Records in them.
    pub ledger_writes: Count,
    /// Those whose condition did not hold.
    pub ledger_refused_writes: Count,
    /// BatchGetItem of records.
    pub ledger_read_calls: Count,
    /// Records asked for in them.
    pub ledger_reads: Count,
    /// GetItem of a destination.
    pub destination_reads: Count,
    /// Rows put into the schedule.
    pub schedule_writes: Count,
    /// Calls of any kind that failed, the client's own retries included.
    pub failed: Count,
}

impl Calls {
    /// Conditional writes on clock items.
    #[must_use]
    pub fn limiter_writes(&self) -> u64 {
        self.limits_plan_writes.now() + self.limits_gate_writes.now() + self.limits_pause_writes.now()
    }
}

/// An adapter that counts.
#[derive(Debug)]
pub struct Counted<T> {
    inner: T,
    calls: Arc<Calls>,
}

impl<T> Counted<T> {
    /// Counts what goes through.
    pub fn new(inner: T, calls: &Arc<Calls>) -> Self {
        Self { inner, calls: Arc::clone(calls) }
    }

    fn told<A>(&self, answer: Result<A, Unavailable>) -> Result<A, Unavailable> {
        if answer.is_err() {
            self.calls.failed.add(1);
        }
        answer
    }
}

impl<T: Limits> Limits for Counted<T> {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        match write {
            Write::Busy { clock: Clock::Plan, .. }
            | Write::Idle { clock: Clock::Plan, .. }
            | Write::BothIdle { .. } => &self.calls.limits_plan_writes,
            Write::Busy { clock: Clock::Gate, .. } | Write::Idle { clock: Clock::Gate, .. } => {
                &self.calls.limits_gate_writes
            }
            Write::Pause { .. } => &self.calls.limits_pause_writes,
        }
        .add(1);
        let answer = self.told(self.inner.write(destination, write).await);
        if matches!(answer, Ok(ClockAnswer::Refused(_))) {
            self.calls.limits_refused_writes.add(1);
        }
        answer
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        self.calls.limits_reads.add(1);
        self.told(self.inner.read(destination).await)
    }
}

impl<T: Ledger> Ledger for Counted<T> {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        self.calls.ledger_read_calls.add(1);
        self.calls.ledger_reads.add(keys.len());
        self.told(self.inner.read(keys).await)
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        self.calls.ledger_write_calls.add(1);
        self.calls.ledger_writes.add(writes.len());
        let answer = self.told(self.inner.write(writes).await);
        if let Ok(written) = &answer {
            self.calls.ledger_refused_writes.add(written.iter().filter(|w| **w == Written::Refused).count());
        }
        answer
    }
}

impl<T: Destinations> Destinations for Counted<T> {
    async fn read(&self, destination: &DestinationName) -> Result<Option<Map<String, Value>>, Unavailable> {
        self.calls.destination_reads.add(1);
        self.told(self.inner.read(destination).await)
    }
}

impl<T: Parking> Parking for Counted<T> {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        self.calls.schedule_writes.add(rows.len());
        self.inner.put(rows).await.into_iter().map(|answer| self.told(answer)).collect()
    }
}
