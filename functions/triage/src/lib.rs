//! `triage`: dead letters, their dispositions, and their way back.
//!
//! Owns: the order of a batch of letters. Must not: hold rules; they are `lapse_policy::triage`'s.

pub mod config;
pub mod dispositions;
pub mod handler;
pub mod triage;
