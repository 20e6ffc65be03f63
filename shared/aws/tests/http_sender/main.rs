//! The HTTP sender over real sockets: SEC-1 to SEC-4, CLS-1, CLS-3 to CLS-7, CLS-9, RET-1, I2.
//!
//! Owns: what a request carries, which addresses it may reach, and what each end of it counts as, against peers that
//! break every promise of HTTP. Must not: test what a class leads to; that is the policy's.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod addresses;
mod attempts;
mod bodies;
mod connecting;
mod early_answers;
mod heads;
mod peer;
mod pooling;
mod requests;
mod tls;
