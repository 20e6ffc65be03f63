//! Everything that `deliver` needs of the world, bundled.
//!
//! Owns: the list of ports. Must not: have behaviour of its own; `main` and the tests bring the parts.

use lapse_policy::ports::{Chance, Clock, Destinations, Lanes, Ledger, Limits, Outbox, Parking, Sender, Visibility};

/// The ports of one sandbox.
pub trait World {
    /// Time.
    type Clock: Clock;
    /// Chance.
    type Chance: Chance;
    /// The ledger.
    type Ledger: Ledger;
    /// The limiter's store.
    type Limits: Limits;
    /// The lanes.
    type Lanes: Lanes;
    /// The destinations' rows.
    type Destinations: Destinations;
    /// The HTTP sender.
    type Sender: Sender;
    /// The queue `deliveries`.
    type Deliveries: Outbox + Visibility;
    /// The queue `failures`.
    type Failures: Outbox;
    /// The schedule.
    type Parking: Parking;

    /// Time.
    fn clock(&self) -> &Self::Clock;
    /// Chance.
    fn chance(&self) -> &Self::Chance;
    /// The ledger.
    fn ledger(&self) -> &Self::Ledger;
    /// The limiter's store.
    fn limits(&self) -> &Self::Limits;
    /// The lanes.
    fn lanes(&self) -> &Self::Lanes;
    /// The destinations' rows.
    fn destinations(&self) -> &Self::Destinations;
    /// The HTTP sender.
    fn sender(&self) -> &Self::Sender;
    /// The queue `deliveries`.
    fn deliveries(&self) -> &Self::Deliveries;
    /// The queue `failures`.
    fn failures(&self) -> &Self::Failures;
    /// The schedule.
    fn parking(&self) -> &Self::Parking;
}
