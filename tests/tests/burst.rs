//! The harness of `cargo perf burst`, once and small: what it counts must be what happened.
//!
//! Owns: that nothing is refused, lost or sent twice in a burst. Must not: assert times; the command tells them.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result};
use lapse_tests::perf::burst::case::Case;
use lapse_tests::perf::burst::outcome::Outcome;
use lapse_tests::perf::burst::run_one;

const EVENTS: u32 = 60;

fn number(n: u32) -> Result<NonZeroU32> {
    NonZeroU32::new(n).context("not 0")
}

/// A destination at 20/s with a burst of 20, of which 900 ms are kept for delays: a busy machine may need them.
fn case() -> Result<Case> {
    Ok(Case::new(number(20)?, number(20)?, number(4)?, Some(900))?.events(number(EVENTS)?))
}

async fn play(case: &Case) -> Result<Outcome> {
    run_one(case, Path::new(env!("CARGO_BIN_EXE_perf"))).await
}

#[tokio::test]
async fn lim_5_a_burst_at_a_strict_receiver_is_delivered_once_and_never_refused() -> Result<()> {
    let outcome = play(&case()?).await?;
    assert_eq!((outcome.answered_200, outcome.answered_429), (60, 0), "{outcome:?}");
    assert_eq!((outcome.different_events, outcome.delivered, outcome.left), (60, 60, 0), "{outcome:?}");
    assert!(outcome.max_in_1s <= 40, "a burst and a second: {outcome:?}");
    // The first receive, and one after the wait for a place; a crowded machine may wake some late.
    assert!((1.0..=3.0).contains(&outcome.receives_per_delivery), "{outcome:?}");
    assert!(outcome.deferred > 0, "not all find a place at once: {outcome:?}");
    assert!(outcome.limiter_writes_per_delivery > 0.0 && outcome.ledger_writes_per_delivery >= 2.0, "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn lim_7_one_429_in_the_middle_is_one_pause_for_all() -> Result<()> {
    let outcome = play(&case()?.paused_in_the_middle()).await?;
    assert_eq!((outcome.answered_200, outcome.answered_429), (60, 1), "{outcome:?}");
    assert_eq!((outcome.different_events, outcome.delivered, outcome.left), (60, 60, 0), "{outcome:?}");
    let pause = outcome.pause.context("a pause was seen")?;
    assert_eq!((pause.streak, pause.shift_ms), (0, 5000), "{pause:?}");
    assert!(pause.max_in_1s_after <= 40, "paced: {pause:?}");
    Ok(())
}
