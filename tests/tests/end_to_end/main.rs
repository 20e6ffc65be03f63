//! End to end: the real functions from the real template on the local stack, with real HTTP to scripted partners.
//!
//! Owns: one stack for all tests of this binary. Each test has destinations, ids and a partner of its own, so that
//! they run side by side. Must not: count what is in a queue that others use (`quiet_stack` does), or kill anything
//! (`crash` does).

mod answers;
mod bad_input;
mod holds;
mod lanes;
mod messages;
mod redrives;
mod secrecy;
mod telemetry;

use std::sync::LazyLock;

use anyhow::Result;
use lapse_tests::ground::{Ground, Shared};

static STACK: LazyLock<Shared> = LazyLock::new(|| Shared::start("end_to_end"));

/// Runs a test on the stack.
fn play(test: impl AsyncFnOnce(&Ground) -> Result<()>) -> Result<()> {
    STACK.play(test)
}
