//! `expiry`: scheduled emission of due events.
//!
//! Owns: the order of a tick. Must not: hold rules; they are `lapse_policy::schedule`'s.

pub mod config;
pub mod emit;
pub mod handler;
