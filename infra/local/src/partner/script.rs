//! What a partner does with a request, as its test or demo wants it.
//!
//! Owns: [`Script`], the [`Reply`], and the strict token bucket. Must not: read a clock; `now` is an argument.

use std::collections::BTreeSet;
use std::time::Duration;

/// The behaviour of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Script {
    /// 200 at once.
    Accept,
    /// 200 while there is a token, else 429 with the whole seconds until there is one, at least 1.
    /// Zero counts as one in both.
    Bucket {
        /// Tokens that come back in a second.
        limit_per_second: u32,
        /// Tokens that can be saved up.
        burst: u32,
    },
    /// As [`Self::Bucket`], but one request is refused whatever the bucket holds.
    BucketBut {
        /// Tokens that come back in a second.
        limit_per_second: u32,
        /// Tokens that can be saved up.
        burst: u32,
        /// Which request, counted from 1.
        nth: usize,
        /// What that one is asked for, in seconds.
        retry_after: u64,
    },
    /// One reply after another, for each event on its own; the last repeats. None at all is [`Self::Accept`].
    Sequence(Vec<Reply>),
    /// No answer until the client goes.
    Hang,
    /// The connection is reset after the whole request was read.
    Reset,
    /// Passed on to another server, whose answer is passed back, or lost.
    Forward {
        /// Where to, as it is; such as the reference receiver's function URL.
        url: String,
        /// Of which events the first 2xx is lost: the receiver has committed, and the sender does not know.
        lose_answers: Lose,
    },
}

/// Of which events the first 2xx is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lose {
    /// Of the first so many different ones to arrive; 0 is none.
    First(usize),
    /// Of these.
    Of(BTreeSet<String>),
}

/// One answer of a [`Script::Sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u64>,
    /// How long the answer takes.
    pub delay: Duration,
}

impl Reply {
    /// An answer at once.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self { status, retry_after: None, delay: Duration::ZERO }
    }

    /// The same with a `Retry-After`.
    #[must_use]
    pub const fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The same after a while.
    #[must_use]
    pub const fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// A token bucket without any tolerance (GCRA: its whole state is the instant at which it is full again).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    step: Duration,
    saved: Duration,
    full_at: Duration,
}

impl Bucket {
    /// A full one.
    pub(crate) fn new(limit_per_second: u32, burst: u32) -> Self {
        let step = Duration::from_secs(1) / limit_per_second.max(1);
        Self { step, saved: step.saturating_mul(burst.max(1) - 1), full_at: Duration::ZERO }
    }

    /// Takes a token, or says how long there is none. Times are measured from any one instant.
    pub(crate) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(now);
        let there_at = full_at.saturating_sub(self.saved);
        if there_at > now {
            return Err(there_at.saturating_sub(now));
        }
        self.full_at = full_at.saturating_add(self.step);
        Ok(())
    }
}

/// A wait as `Retry-After` can say it: whole seconds, never less than it is, and at least 1.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    let up = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(up).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[track_caller]
    fn check(label: &str, limit: u32, burst: u32, arrivals_ms: &[u32], refused_ms: &[Option<u32>]) {
        let mut bucket = Bucket::new(limit, burst);
        for (arrival, refused) in arrivals_ms.iter().zip(refused_ms) {
            let taken = bucket.take(MS * *arrival);
            assert_eq!(taken, refused.map_or(Ok(()), |ms| Err(MS * ms)), "{label}: at {arrival} ms");
        }
        assert_eq!(arrivals_ms.len(), refused_ms.len(), "{label}");
    }

    #[test]
    fn a_bucket_is_strict_to_the_instant() {
        let (yes, no) = (None, Some);
        check("no burst", 10, 1, &[0, 99, 100, 150, 200], &[yes, no(1), yes, no(50), yes]);
        check("a burst, then the rate", 2, 3, &[0, 0, 0, 0, 499, 500], &[yes, yes, yes, no(500), no(1), yes]);
        check("it saves no more than the burst", 2, 2, &[9000, 9000, 9000], &[yes, yes, no(500)]);
        check("a refusal costs nothing", 1, 1, &[0, 1, 1, 1, 1000], &[yes, no(999), no(999), no(999), yes]);
        check("zero counts as one", 0, 0, &[0, 1, 1000], &[yes, no(999), yes]);
    }

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_too_short() {
        let check = |ms: u32, seconds| assert_eq!(whole_seconds(MS * ms), seconds, "{ms} ms");
        check(0, 1);
        check(1, 1);
        check(1000, 1);
        check(1001, 2);
        assert_eq!(whole_seconds(Duration::MAX), u64::MAX);
    }
}
