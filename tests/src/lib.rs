//! What the end-to-end tests have in common: a stack to test on, patience, the letters, and a witness.
//!
//! Owns: set-up and looking. Must not: judge; every assertion is in a test.

pub mod fleet;
pub mod ground;
pub mod letters;
pub mod patience;
pub mod perf;
pub mod sim;
pub mod telemetry_schema;
pub mod witness;
