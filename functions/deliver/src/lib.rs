//! `deliver`: SQS-triggered delivery.
//!
//! Owns: the order of a batch. Must not: hold rules; each decision is a call into `lapse_policy`.

pub mod attempt;
pub mod batch;
pub mod batcher;
pub mod booking;
pub mod commit;
pub mod config;
pub mod configuration;
pub mod course;
pub mod group;
pub mod handler;
pub mod intent;
pub mod lane;
pub mod limiter;
pub mod report;
pub mod run;
pub mod settle;
pub mod tally;
pub mod work;
pub mod world;
