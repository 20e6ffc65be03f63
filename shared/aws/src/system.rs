//! Time and chance, as the operating system has them.
//!
//! Owns: the adapters of `ports::Clock` and `ports::Chance`; no other file of the functions reads a clock or draws
//! a number. Must not: be reached by a rule, which gets both as arguments.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lapse_policy::ports::{Chance, Clock};
use lapse_policy::timestamp::Timestamp;

/// This sandbox's clock. The bounds of LIM-5 allow for sandboxes that differ by up to 2 s.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock's adapter")]
    fn now(&self) -> Timestamp {
        // A clock before 1970 reads as 1970.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.plus(since_epoch)
    }

    async fn sleep_until(&self, at: Timestamp) {
        // The timer runs on another clock than `now`: what it left over is waited for as well.
        loop {
            let left = at.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// This sandbox's chance.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    #[expect(clippy::disallowed_methods, reason = "this is chance's adapter")]
    fn draw(&self) -> f64 {
        fastrand::f64()
    }

    /// 128 bits from the operating system, 22 characters: sandboxes that start alike do not draw alike.
    fn token(&self) -> String {
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_err() {
            // Not met on Linux once it has booted. The generator was seeded from the same source.
            fastrand::fill(&mut bytes);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::time::Duration;

    #[tokio::test]
    async fn a_sleep_never_ends_early() {
        let at = SystemClock.now().plus(Duration::from_millis(7));
        SystemClock.sleep_until(at).await;
        assert!(SystemClock.now() >= at);
        SystemClock.sleep_until(Timestamp::EPOCH).await;
    }

    #[test]
    fn led_3_tokens_are_different_and_short() {
        let tokens: HashSet<_> = (0..1000).map(|_| SystemChance.token()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| token.len() == 22));
    }

    #[test]
    fn ret_2_a_draw_is_from_0_to_1() {
        assert!((0..1000).map(|_| SystemChance.draw()).all(|draw| (0.0..=1.0).contains(&draw)));
    }
}
