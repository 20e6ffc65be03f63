//! The reference receiver: what a good destination of Lapse does with an expired hold.
//!
//! Owns: RCV-1 to RCV-5. `event` reads, `decide` judges, `receive` orders the calls, `reservations` stores,
//! `handler` speaks HTTP. Must not: know how events are delivered; only their headers and their payload.

pub mod config;
pub mod decide;
pub mod event;
pub mod handler;
pub mod receive;
pub mod reservations;
