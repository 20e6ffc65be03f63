//! LIM, LED, EMT, DLQ, DST at the tables: each DynamoDB adapter keeps its port's promise, on each engine over HTTP.
//!
//! Owns: one suite per adapter, and one for the answers that no emulator gives. Must not: test rules; those are pure.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod answers;
mod destinations;
mod lanes;
mod ledger;
mod ledger_record;
mod limits;
mod limits_bookings;
mod limits_trace;
mod pair;
mod schedule;
