//! The adapters of Lapse's ports: DynamoDB, SQS, HTTP, the clock and chance.
//!
//! Owns: everything that touches AWS or the network. Must not: decide; that is `lapse_policy`'s.

mod answer_body;
mod attempt_failure;
pub mod clients;
pub mod destinations;
pub mod environment;
mod excerpt;
pub mod failure;
pub mod guarded_resolver;
pub mod http_sender;
pub mod lanes;
pub mod ledger;
pub mod limits;
pub mod queue;
pub mod record_item;
mod request_body;
pub mod schedule;
pub mod signer;
pub mod sqs_event;
pub mod system;
pub mod telemetry;
