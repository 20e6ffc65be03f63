//! One sandbox of `deliver`: handles to what all share, and a clock, chance and memory of its own.
//!
//! Owns: the ports of one sandbox. Must not: have behaviour of its own.

use lapse_deliver::run::Memory;
use lapse_deliver::world::World;

use super::chance::Dice;
use super::lanes::LanesTable;
use super::queue::Queue;
use super::receivers::Receivers;
use super::schedule::ScheduleTable;
use super::stores::{DestinationsTable, LedgerTable, LimitsTable};
use super::time::SandboxClock;

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
    /// The queue `failures`: letters are collected there.
    pub failures: Queue,
    /// The schedule.
    pub schedule: ScheduleTable,
}

/// One sandbox.
#[derive(Debug)]
pub struct Sandbox {
    shared: Shared,
    clock: SandboxClock,
    dice: Dice,
    /// What it keeps between invocations.
    pub memory: Memory,
}

impl Sandbox {
    /// A sandbox that has seen nothing.
    #[must_use]
    pub fn new(shared: Shared, clock: SandboxClock, dice: Dice) -> Self {
        Self { shared, clock, dice, memory: Memory::default() }
    }
}

impl World for Sandbox {
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
