//! What must hold for any bytes that reach Lapse from outside.
//!
//! Owns: one `check` per way in, each a function of bytes that panics where a promise is broken. libFuzzer calls it
//! from `fuzz_targets`, `cargo test` from `tests`. Must not: know who calls it, or keep anything from call to call.

pub mod destination;
mod header_lines;
pub mod message;
pub mod request;
pub mod retry_after;
