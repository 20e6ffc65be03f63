//! The functions' sandboxes: handles to what all share, and a clock, chance and memory of their own.
//!
//! Owns: the ports of `deliver` and of `triage`. Must not: have behaviour of its own.

use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_deliver::batch::deliver;
use lapse_deliver::run::Memory;
use lapse_deliver::world::World;
use lapse_policy::timestamp::Timestamp;
use lapse_policy::triage::REDRIVE_AFTER;
use lapse_triage::triage::Triage;

use super::bugs::Bug;
use super::chance::Dice;
use super::lanes::LanesTable;
use super::mapping::{Function, Handled};
use super::queue::{By, Queue};
use super::receivers::Receivers;
use super::schedule::ScheduleTable;
use super::stores::{DestinationsTable, LedgerTable, LimitsTable};
use super::time::SandboxClock;
use super::weather::Weather;

/// What all sandboxes share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The ledger.
    pub ledger: LedgerTable,
    /// The limiter's store.
    pub limits: LimitsTable,
    /// The lanes' store.
    pub lanes: LanesTable,
    /// The destinations' rows.
    pub destinations: DestinationsTable,
    /// The receivers.
    pub receivers: Receivers,
    /// The queue `deliveries`.
    pub deliveries: Queue,
    /// The queue `failures`.
    pub failures: Queue,
    /// The queue `dead-letters`.
    pub dead_letters: Queue,
    /// The schedule.
    pub schedule: ScheduleTable,
    /// What goes wrong.
    pub weather: Weather,
}

/// One sandbox of `deliver`.
#[derive(Debug)]
pub struct Deliver {
    shared: Shared,
    clock: SandboxClock,
    dice: Dice,
    /// What it keeps between invocations.
    memory: Memory,
}

impl Deliver {
    /// A sandbox that has seen nothing.
    #[must_use]
    pub fn new(shared: &Shared, clock: SandboxClock, dice: Dice) -> Self {
        let deliveries = shared.deliveries.by(By::Deliver);
        let failures = shared.failures.by(By::Deliver);
        Self { shared: Shared { deliveries, failures, ..shared.clone() }, clock, dice, memory: Memory::default() }
    }
}

impl Function for Deliver {
    fn name(&self) -> &'static str {
        "deliver"
    }
    fn clock(&self) -> &SandboxClock {
        &self.clock
    }
    fn handle<'a>(&'a self, batch: &'a [Received], ends_at: Timestamp) -> Handled<'a> {
        Box::pin(async move { deliver(self, &self.memory, batch, ends_at).await.remaining })
    }
}

impl World for Deliver {
    type Clock = SandboxClock;
    type Chance = Dice;
    type Ledger = LedgerTable;
    type Limits = LimitsTable;
    type Lanes = LanesTable;
    type Destinations = DestinationsTable;
    type Sender = Receivers;
    type Deliveries = Queue;
    type Failures = Queue;
    type Parking = ScheduleTable;

    fn clock(&self) -> &SandboxClock {
        &self.clock
    }
    fn chance(&self) -> &Dice {
        &self.dice
    }
    fn ledger(&self) -> &LedgerTable {
        &self.shared.ledger
    }
    fn limits(&self) -> &LimitsTable {
        &self.shared.limits
    }
    fn lanes(&self) -> &LanesTable {
        &self.shared.lanes
    }
    fn destinations(&self) -> &DestinationsTable {
        &self.shared.destinations
    }
    fn sender(&self) -> &Receivers {
        &self.shared.receivers
    }
    fn deliveries(&self) -> &Queue {
        &self.shared.deliveries
    }
    fn failures(&self) -> &Queue {
        &self.shared.failures
    }
    fn parking(&self) -> &ScheduleTable {
        &self.shared.schedule
    }
}

/// One sandbox of `triage`.
#[derive(Debug)]
pub struct Letters {
    triage: Triage<SandboxClock, LedgerTable, LedgerTable, Queue, Queue>,
    clock: SandboxClock,
}

impl Letters {
    /// A sandbox of it.
    #[must_use]
    pub fn new(shared: &Shared, clock: SandboxClock) -> Self {
        let at_once = shared.weather.has(Bug::EpochByCopy);
        let triage = Triage {
            clock: clock.clone(),
            ledger: shared.ledger.clone(),
            dispositions: shared.ledger.clone(),
            failures: shared.failures.by(By::Triage),
            deliveries: shared.deliveries.by(By::Triage),
            redrive_after: if at_once { Duration::ZERO } else { REDRIVE_AFTER },
        };
        Self { triage, clock }
    }
}

impl Function for Letters {
    fn name(&self) -> &'static str {
        "triage"
    }
    fn clock(&self) -> &SandboxClock {
        &self.clock
    }
    fn handle<'a>(&'a self, batch: &'a [Received], _: Timestamp) -> Handled<'a> {
        Box::pin(async move { self.triage.batch(batch).await.remaining })
    }
}
