//! RET-3: how long to wait after the n-th counted attempt, and the jitter of RET-2.
//!
//! Owns: [`RetryPolicy`], a destination's schedule, and [`cool_down`], the pause after throttled answers (LIM-7).
//! Must not: know the deadline or the outcome; `decision` puts those together.

use std::num::NonZeroU32;
use std::time::Duration;

/// Jitter adds at most this, whatever the wait (RET-2): beyond, it would only delay.
pub const MAX_JITTER: Duration = Duration::from_secs(30);
/// The default fraction of the wait that jitter may add (RET-2).
pub const JITTER: f64 = 0.25;
/// Default number of counted attempts (RET-5): with the default schedule some 9 minutes.
pub const MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::new(12).unwrap();
/// The first cool-down of a destination that throttles without saying for how long (LIM-7).
pub const FIRST_COOL_DOWN: Duration = Duration::from_secs(2);
/// The longest cool-down of our own choosing (LIM-7).
pub const MAX_COOL_DOWN: Duration = Duration::from_mins(5);

/// How a destination's transient outcomes are retried.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// The steps between attempts.
    pub schedule: Schedule,
    /// Counted attempts before the delivery is dead (RET-5).
    pub max_attempts: NonZeroU32,
    /// The fraction of a wait that jitter may add, 0 to 1.
    pub jitter: f64,
}

/// The wait after the n-th counted attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    /// `initial x factor^n`, at most `cap`.
    Exponential {
        /// What grows: the wait after the first attempt is already `factor` times this.
        initial: Duration,
        /// What each attempt multiplies it by, at least 1.
        factor: f64,
        /// The longest wait.
        cap: Duration,
    },
    /// The n-th step; the last one repeats. Never empty.
    Steps(Vec<Duration>),
}

impl Default for RetryPolicy {
    /// `1 s x 2^min(n,6)`: 2, 4, 8, 16, 32, 64, 64 .. seconds (RET-3).
    fn default() -> Self {
        Self {
            schedule: Schedule::Exponential {
                initial: Duration::from_secs(1),
                factor: 2.0,
                cap: Duration::from_secs(64),
            },
            max_attempts: MAX_ATTEMPTS,
            jitter: JITTER,
        }
    }
}

impl RetryPolicy {
    /// The wait after the `n`-th counted attempt, without jitter (RET-3).
    #[must_use]
    pub fn wait_after(&self, n: u32) -> Duration {
        match &self.schedule {
            Schedule::Exponential { initial, factor, cap } => {
                let power = i32::try_from(n).unwrap_or(i32::MAX);
                // To the millisecond: seconds as a fraction have no exact 2.7.
                let ms = (initial.as_secs_f64() * 1000.0 * factor.powi(power)).round();
                Duration::try_from_secs_f64(ms / 1000.0).map_or(*cap, |wait| wait.min(*cap))
            }
            Schedule::Steps(steps) => {
                let index = usize::try_from(n.saturating_sub(1)).unwrap_or(usize::MAX);
                steps.get(index).or(steps.last()).copied().unwrap_or_default()
            }
        }
    }

    /// What jitter adds to `wait`: `draw` (0 to 1) of its span; it never subtracts (RET-2).
    #[must_use]
    pub fn jitter_of(&self, wait: Duration, draw: f64) -> Duration {
        let span = wait.mul_f64(self.jitter.clamp(0.0, 1.0)).min(MAX_JITTER);
        let draw = if draw.is_nan() { 0.0 } else { draw.clamp(0.0, 1.0) };
        let ms = (span.as_secs_f64() * 1000.0 * draw).round();
        Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(span).min(span)
    }

    /// The whole schedule: the wait after each counted attempt that is followed by another one.
    pub fn waits(&self) -> impl Iterator<Item = Duration> + '_ {
        (1..self.max_attempts.get()).map(|n| self.wait_after(n))
    }

    /// The longest that all waits may take: each with all of its jitter.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.waits()
            .fold(Duration::ZERO, |sum, wait| sum.saturating_add(wait).saturating_add(self.jitter_of(wait, 1.0)))
    }

    /// The worst case: the longest waits, between attempts each of which lasts `timeout` and fails.
    #[must_use]
    pub fn worst_case(&self, timeout: Duration) -> Duration {
        self.longest().saturating_add(timeout.saturating_mul(self.max_attempts.get()))
    }
}

/// The pause of our own choosing after `streak` earlier pauses in a row: `2 s x 2^streak`, at most 5 min (LIM-7).
#[must_use]
pub fn cool_down(streak: u32) -> Duration {
    let factor = 2_u32.checked_pow(streak).unwrap_or(u32::MAX);
    FIRST_COOL_DOWN.saturating_mul(factor).min(MAX_COOL_DOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, policy: &RetryPolicy, expected_ms: &[u64]) {
        let waits: Vec<_> =
            (1..=expected_ms.len()).map(|n| policy.wait_after(u32::try_from(n).expect("small"))).collect();
        let expected: Vec<_> = expected_ms.iter().copied().map(Duration::from_millis).collect();
        assert_eq!(waits, expected, "{label}");
    }

    fn exponential(initial: u64, factor: f64, cap: u64) -> RetryPolicy {
        let schedule =
            Schedule::Exponential { initial: Duration::from_millis(initial), factor, cap: Duration::from_millis(cap) };
        RetryPolicy { schedule, ..RetryPolicy::default() }
    }

    #[test]
    fn ret_3_schedules() {
        let policy = RetryPolicy::default();
        check("default", &policy, &[2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000]);
        check("own exponential", &exponential(100, 3.0, 5000), &[300, 900, 2700, 5000, 5000]);
        let steps = [5, 300, 1200].map(Duration::from_secs).to_vec();
        let list = RetryPolicy { schedule: Schedule::Steps(steps), ..RetryPolicy::default() };
        check("list, the last repeats", &list, &[5000, 300_000, 1_200_000, 1_200_000]);
    }

    #[test]
    fn ret_3_no_attempt_number_overflows() {
        let cap = Duration::from_secs(5);
        for n in [0, 1000, u32::MAX] {
            assert!(exponential(100, 3.0, 5000).wait_after(n) <= cap, "n = {n}");
        }
        assert_eq!(exponential(1, f64::MAX, 9).wait_after(u32::MAX), Duration::from_millis(9));
    }

    #[test]
    fn ret_2_jitter_only_adds_and_is_bounded() {
        let policy = RetryPolicy::default();
        let jitter = |wait, draw| policy.jitter_of(Duration::from_secs(wait), draw);
        assert_eq!(jitter(2, 0.0), Duration::ZERO);
        assert_eq!(jitter(2, 1.0), Duration::from_millis(500));
        assert_eq!(jitter(600, 1.0), MAX_JITTER, "at most 30 s");
        assert_eq!(jitter(2, -1.0), Duration::ZERO, "never earlier");
        assert_eq!(jitter(2, f64::NAN), Duration::ZERO);
        assert_eq!(jitter(2, 9.0), Duration::from_millis(500));
    }

    #[test]
    fn lim_7_cool_downs_double_up_to_five_minutes() {
        let seconds: Vec<_> = [0, 1, 3, 7, 8, 12, u32::MAX].map(|s| cool_down(s).as_secs()).to_vec();
        assert_eq!(seconds, [2, 4, 16, 256, 300, 300, 300]);
    }

    #[test]
    fn ret_3_the_worst_case_counts_every_attempt_every_wait_and_its_jitter() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.waits().count(), 11);
        let waits = 2 + 4 + 8 + 16 + 32 + 6 * 64;
        assert_eq!(policy.longest(), Duration::from_millis(waits * 1250));
        let attempts = 12 * 10_000;
        assert_eq!(policy.worst_case(Duration::from_secs(10)), Duration::from_millis(waits * 1250 + attempts));
        let once = RetryPolicy { max_attempts: NonZeroU32::MIN, ..policy };
        assert_eq!(once.worst_case(Duration::from_secs(10)), Duration::from_secs(10), "no wait after the last");
    }
}
