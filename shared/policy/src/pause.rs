//! LIM-7: how a throttled answer pauses a destination, how plan time stands still, how a streak ends.
//!
//! Owns: [`Pause`], the part of a clock item that is compared and swapped as a whole. Must not: write.

use std::time::Duration;

use crate::decision::pause_of;
use crate::retry_after::LONGEST_ASK;
use crate::timestamp::{Timestamp, millis};

/// The part of a clock item that pauses write (LIM-7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause {
    /// Nothing is sent before this.
    pub until: Option<Timestamp>,
    /// When the last pause was set.
    pub from: Option<Timestamp>,
    /// How far plan time is behind real time, in ms.
    pub shift: i64,
    /// Pauses in a row without a success between them.
    pub streak: u32,
}

impl Pause {
    /// What a throttled answer makes of the pause (LIM-7); `started` is when its request started.
    #[must_use]
    pub fn throttled(self, asked: Option<Duration>, started: Timestamp, now: Timestamp) -> Self {
        let belongs = self.from.is_some_and(|from| started < from);
        if belongs {
            // Its request was on its way when the pause was set: it may lengthen that one.
            return asked.map_or(self, |ask| self.raised(now.plus(ask.min(LONGEST_ASK)), now));
        }
        let length = pause_of(asked, self.streak).min(LONGEST_ASK);
        let raised = self.raised(now.plus(length), now);
        Self { from: Some(now), streak: self.streak.saturating_add(1), ..raised }
    }

    /// Raises the end of the pause, never lowers it; plan time stands still for what was added.
    #[must_use]
    pub fn raised(self, until: Timestamp, now: Timestamp) -> Self {
        let old = self.until.unwrap_or(now).max(now);
        if until <= old {
            return self;
        }
        let shift = self.shift.saturating_add(millis(until.since(old)));
        Self { until: Some(until), shift, from: self.from.or(Some(now)), ..self }
    }

    /// Lifts the pause: what was left of it is taken from the shift again.
    #[must_use]
    pub fn lifted(self, now: Timestamp) -> Self {
        let left = self.until.map_or(0, |until| millis(until.since(now)));
        Self { until: None, shift: self.shift.saturating_sub(left), ..self }
    }

    /// What a 2xx to a request that started after the pause makes of it: the streak ends (LIM-7).
    #[must_use]
    pub fn succeeded(self, started: Timestamp) -> Self {
        let after = self.from.is_none_or(|from| started >= from);
        Self { streak: if after { 0 } else { self.streak }, ..self }
    }
}
