//! One run: a limit, a burst, so many events and environments; and what they allow at best.
//!
//! Owns: the destination's row, and the ideal that a run is measured against. Must not: play it.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result};
use lapse_local::LOCAL_SECRET;
use lapse_local::driver::Event;
use lapse_local::partner::Script;
use lapse_policy::clock::Spacing;
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

/// The destination's name, and that of the receiver's side of it.
pub const STRICT: &str = "strict";
/// What the one 429 in the middle asks for, in seconds.
pub const ASKED: u64 = 5;

/// One run.
#[derive(Debug, Clone)]
pub struct Case {
    /// The limit per second.
    pub rate: NonZeroU32,
    /// The burst.
    pub burst: NonZeroU32,
    /// Environments at work.
    pub environments: NonZeroU32,
    /// Events, all put in at once.
    pub events: NonZeroU32,
    /// The request that is answered with 429 whatever the bucket holds, counted from 1.
    pub refused: Option<usize>,
    /// The destination's `jitter_ms`, where it has one.
    jitter_ms: Option<u32>,
    spacing: Spacing,
}

impl Case {
    /// A run of one event.
    pub fn new(rate: NonZeroU32, burst: NonZeroU32, environments: NonZeroU32, jitter_ms: Option<u32>) -> Result<Self> {
        let name = DestinationName::parse(STRICT)?;
        let row = row("http://127.0.0.1/", rate, burst, jitter_ms);
        let destination = Destination::parse(&name, row.as_object().context("a row is an object")?)?;
        let limit = destination.rate.context("the row has a rate")?;
        let spacing = Spacing::of(limit, destination.jitter);
        Ok(Self { rate, burst, environments, events: NonZeroU32::MIN, refused: None, jitter_ms, spacing })
    }

    /// So many events, or as many as take the same time where the gate spaces wider than the limit (LIM-5).
    #[must_use]
    pub fn events(self, events: NonZeroU32) -> Self {
        let share = (self.gate_rate() / f64::from(self.rate.get())).min(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a small number")]
        let events = NonZeroU32::new((f64::from(events.get()) * share).ceil() as u32).unwrap_or(NonZeroU32::MIN);
        Self { events, ..self }
    }

    /// The receiver refuses one request in the middle.
    #[must_use]
    pub fn paused_in_the_middle(self) -> Self {
        let middle = usize::try_from(self.events.get() / 2).unwrap_or(usize::MAX).max(1);
        Self { refused: Some(middle), ..self }
    }

    /// Requests per second at the gate, which is less than the limit where the burst is small (LIM-5).
    #[must_use]
    pub fn gate_rate(&self) -> f64 {
        1.0 / Duration::from_micros(self.spacing.gate_step.0.unsigned_abs()).as_secs_f64()
    }

    /// Whether the gate gives places as fast as the limit allows.
    #[must_use]
    pub fn at_full_rate(&self) -> bool {
        self.gate_rate() >= f64::from(self.rate.get()) * 0.999
    }

    /// What it takes at best: a sender that knows the receiver's bucket uses up the burst at once and every token after.
    #[must_use]
    pub fn ideal(&self) -> Duration {
        let paced = f64::from(self.events.get().saturating_sub(self.burst.get())) / f64::from(self.rate.get());
        Duration::from_secs_f64(paced) + Duration::from_secs(if self.refused.is_some() { ASKED } else { 0 })
    }

    /// When a run is given up: far beyond anything that the plan allows for.
    #[must_use]
    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(f64::from(self.events.get()) / self.gate_rate()) * 3 + Duration::from_mins(1)
    }

    /// The destination's row.
    #[must_use]
    pub fn row(&self, url: &str) -> Value {
        row(url, self.rate, self.burst, self.jitter_ms)
    }

    /// The receiver's behaviour.
    #[must_use]
    pub fn script(&self) -> Script {
        let (limit_per_second, burst) = (self.rate.get(), self.burst.get());
        match self.refused {
            None => Script::Bucket { limit_per_second, burst },
            Some(nth) => Script::BucketBut { limit_per_second, burst, nth, retry_after: ASKED },
        }
    }

    /// The events, as of now.
    pub fn all_events(&self, now: Timestamp) -> impl Iterator<Item = Event> {
        (0..self.events.get()).map(move |n| Event {
            id: format!("burst_{n}:1"),
            destination: STRICT.to_owned(),
            kind: "perf.burst".to_owned(),
            occurred_at: now,
            deadline: None,
            payload: json!({"n": n}).to_string(),
        })
    }
}

fn row(url: &str, rate: NonZeroU32, burst: NonZeroU32, jitter_ms: Option<u32>) -> Value {
    let mut row = json!({
        "destination": STRICT,
        "url": url,
        "allow_http": true,
        "rate": {"limit": rate, "per_seconds": 1, "burst": burst},
        "secrets": [LOCAL_SECRET],
    });
    if let Some(jitter_ms) = jitter_ms {
        row["jitter_ms"] = json!(jitter_ms);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(burst: u32) -> Case {
        let number = |n| NonZeroU32::new(n).expect("not 0");
        Case::new(number(50), number(burst), number(10), None).expect("a row").events(number(1000))
    }

    #[test]
    fn the_ideal_uses_up_the_burst_and_every_token_after() {
        assert_eq!(case(50).ideal(), Duration::from_secs(19));
        assert_eq!(case(10).ideal(), Duration::from_millis(19_800));
        assert_eq!(case(50).paused_in_the_middle().ideal(), Duration::from_secs(24));
    }

    #[test]
    fn lim_5_a_small_burst_gets_what_its_wider_spacing_takes_in_the_same_time() {
        assert_eq!(case(1).events.get(), 118, "170 ms apart: 5.9/s");
        assert_eq!(case(5).events.get(), 589, "34 ms apart: 29.4/s");
        assert_eq!(case(10).events.get(), 1000);
        assert!(case(10).at_full_rate() && !case(5).at_full_rate());
    }
}
