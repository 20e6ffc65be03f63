//! Waiting for what must come: a look now and then, and a generous end.
//!
//! Owns: the one way in which a test waits. Must not: be used to prove that something took long enough; requests
//! carry their own times for that.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Far longer than anything takes on a machine that compiles beside it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Looks until there is something. The error says what was waited for.
pub async fn eventually<T>(what: &str, look: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if Instant::now() >= until {
            bail!("waited {} s for this in vain: {what}", PATIENCE.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}
