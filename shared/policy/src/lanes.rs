//! LAN-1: which of a destination's lanes are free, and which of them to try.
//!
//! Owns: [`Lane`], when its lease is over, and the choice among free ones.
//! Must not: take one, or know a store. A lane that is chosen may be gone when it is tried.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use crate::timestamp::Timestamp;

/// The most lanes that a destination may have: one Query shows them all (some 150 bytes each, of 1 MB).
pub const MAX_IN_FLIGHT: u32 = 1000;

/// One of a destination's concurrent requests, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Which: from 0.
    pub number: u32,
    /// A token that no one else has.
    pub owner: String,
    /// The end of the lease.
    pub until: Timestamp,
}

impl Lane {
    /// Whether its lease lasts.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.until >= now
    }

    /// Whether `owner` may take it: the lease is over, or it is theirs already and only the reply was lost.
    #[must_use]
    pub fn yields_to(&self, owner: &str, now: Timestamp) -> bool {
        !self.is_live(now) || self.owner == owner
    }
}

/// At most two free lanes to try, in this order; none if all that there may be are held.
#[must_use]
pub fn choose(lanes: &[Lane], most: NonZeroU32, now: Timestamp, draw: f64) -> Vec<u32> {
    let live: BTreeSet<_> = lanes.iter().filter(|lane| lane.is_live(now)).map(|lane| lane.number).collect();
    let mut free: Vec<_> = (0..open_below(&live, most.get())).filter(|number| !live.contains(number)).collect();
    let mut chosen = Vec::new();
    if !free.is_empty() {
        let (first, rest) = pick(draw, free.len());
        chosen.push(free.swap_remove(first));
        if !free.is_empty() {
            chosen.push(free.swap_remove(pick(rest, free.len()).0));
        }
    }
    chosen
}

/// Lanes below this number may be taken: if all of them were, at once, no more than `most` would be held.
/// That is `most` itself, unless it was lowered and lanes beyond it are still held.
fn open_below(live: &BTreeSet<u32>, most: u32) -> u32 {
    let mut held = live.range(most..).count();
    let mut below = most;
    while below > 0 && held > usize::try_from(most - below).unwrap_or(usize::MAX) {
        below -= 1;
        held += usize::from(live.contains(&below));
    }
    below
}

/// One of `count` places by a number from 0 to 1, and what is left of that number for the next choice.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to at most MAX_IN_FLIGHT")]
#[expect(clippy::cast_precision_loss, reason = "a double holds MAX_IN_FLIGHT exactly")]
fn pick(draw: f64, count: usize) -> (usize, f64) {
    let at = draw.clamp(0.0, 1.0) * count as f64;
    let index = (at as usize).min(count.saturating_sub(1));
    (index, at - index as f64)
}
