//! RET-2, RET-3: a schedule never shrinks, never passes its cap, and jitter only adds to it.

use std::num::NonZeroU32;
use std::time::Duration;

use lapse_policy::retry_policy::{MAX_JITTER, RetryPolicy, Schedule};
use proptest::prelude::*;

const WEEK_MS: u64 = 604_800_000;

/// `initial x factor^n` up to a cap that is at least the initial wait, as a destination may set it.
fn exponentials() -> impl Strategy<Value = Schedule> {
    let factor = prop_oneof![Just(1.0), Just(2.0), 1.0..100.0_f64];
    (1..=WEEK_MS, factor, 0..=WEEK_MS).prop_map(|(initial, factor, more)| Schedule::Exponential {
        initial: Duration::from_millis(initial),
        factor,
        cap: Duration::from_millis(initial.saturating_add(more).min(WEEK_MS)),
    })
}

fn lists() -> impl Strategy<Value = Schedule> {
    let steps = prop::collection::vec(0..=WEEK_MS / 1000, 1..8);
    steps.prop_map(|steps| Schedule::Steps(steps.into_iter().map(Duration::from_secs).collect()))
}

/// Any policy that a destination may set, and the default.
pub(crate) fn policies() -> impl Strategy<Value = RetryPolicy> {
    let schedule = prop_oneof![2 => Just(RetryPolicy::default().schedule), 2 => exponentials(), 1 => lists()];
    let jitter = prop_oneof![Just(0.25), Just(0.0), Just(1.0), 0.0..=1.0_f64];
    (schedule, jitter, 1..=20_u32).prop_map(|(schedule, jitter, most)| RetryPolicy {
        schedule,
        jitter,
        max_attempts: NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN),
    })
}

/// Where in jitter's span a wait falls: 0 to 1, and what no port should give.
pub(crate) fn draws() -> impl Strategy<Value = f64> {
    prop_oneof![8 => 0.0..=1.0_f64, 1 => Just(1.0), 1 => Just(f64::NAN), 1 => Just(-1.0), 1 => Just(f64::INFINITY)]
}

fn with(schedule: Schedule) -> RetryPolicy {
    RetryPolicy { schedule, ..RetryPolicy::default() }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn ret_3_an_exponential_schedule_never_shrinks_and_ends_at_its_cap(schedule in exponentials(), n in 1..200_u32) {
        let Schedule::Exponential { initial, factor, cap } = schedule else { unreachable!("an exponential one") };
        let policy = with(schedule);
        let (this, next) = (policy.wait_after(n), policy.wait_after(n + 1));
        prop_assert!(this <= next, "after attempt {} it waits {this:?}, then {next:?}", n);
        prop_assert!(initial <= this && next <= cap);
        prop_assert!(factor < 1.5 || policy.wait_after(64) == cap, "2^64 ms is past any cap");
    }

    #[test]
    fn ret_3_a_whole_factor_gives_whole_milliseconds(
        initial in 1..10_000_u64,
        factor in 1..=20_u32,
        cap in 10_000..WEEK_MS,
        n in 1..40_u32,
    ) {
        let grown = u128::from(factor).checked_pow(n).and_then(|f| f.checked_mul(u128::from(initial)));
        let expected = grown.map_or(cap, |ms| u64::try_from(ms).unwrap_or(u64::MAX).min(cap));
        let (initial, cap) = (Duration::from_millis(initial), Duration::from_millis(cap));
        let policy = with(Schedule::Exponential { initial, factor: f64::from(factor), cap });
        prop_assert_eq!(policy.wait_after(n), Duration::from_millis(expected));
    }

    #[test]
    fn ret_3_the_last_step_of_a_list_repeats(schedule in lists(), n in 1..200_usize) {
        let Schedule::Steps(steps) = &schedule else { unreachable!("a list") };
        let expected = steps[(n - 1).min(steps.len() - 1)];
        prop_assert_eq!(with(schedule.clone()).wait_after(u32::try_from(n).unwrap_or(u32::MAX)), expected);
    }

    #[test]
    fn ret_2_jitter_is_at_most_its_share_of_the_wait_and_30_s(
        policy in policies(),
        wait_ms in 0..=WEEK_MS,
        draw in draws(),
    ) {
        let wait = Duration::from_millis(wait_ms);
        let jitter = policy.jitter_of(wait, draw);
        prop_assert!(jitter <= MAX_JITTER);
        prop_assert!(jitter <= wait.mul_f64(policy.jitter));
    }

    #[test]
    fn ret_2_jitter_is_its_draw_of_the_span_to_the_millisecond(
        policy in policies(),
        wait_ms in 0..=WEEK_MS,
        draw in 0.0..=1.0_f64,
    ) {
        let wait = Duration::from_millis(wait_ms);
        let exact = policy.jitter_of(wait, 1.0).mul_f64(draw);
        prop_assert!(policy.jitter_of(wait, draw).abs_diff(exact) <= Duration::from_millis(1));
    }
}
