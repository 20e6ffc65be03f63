//! The rules of Lapse as functions over values.
//!
//! Owns: every decision. Must not: do I/O, await (but for the traits in [`ports`]), read a clock, draw a random
//! number, or know AWS. Its dependency list is held by a test.

pub mod booking;
pub mod classifier;
pub mod clock;
pub mod config_fields;
pub mod decision;
pub mod destination;
pub mod forecast;
pub mod guard;
pub mod headers;
pub mod lanes;
pub mod ledger;
pub mod members;
pub mod message;
pub mod names;
pub mod pause;
pub mod ports;
pub mod reason;
pub mod retry_after;
pub mod retry_policy;
pub mod schedule;
pub mod secret;
pub mod timestamp;
pub mod triage;
pub mod waiting;
