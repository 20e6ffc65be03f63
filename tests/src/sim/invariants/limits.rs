//! I4: the bound of LIM-5 over every window, and no place at the gate while a pause lasts.
//!
//! Owns: one running bound per destination. Must not: know the limiter; it sees starts, and what was written.

use lapse_policy::clock::{Clocks, Write};
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::timestamp::Timestamp;

use super::{Broken, Checker, Found, Invariant};

/// After a change, sandboxes may use the row before for so long: the cache (DST-1), and an invocation.
const OLD_ROW_MS: i64 = 62_000;
/// How late after its place a request may start, either end of a window (LIM-5).
const LATE_US: i64 = 300_000;

/// One destination's bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// What is believed, the loosest of it: microseconds between two requests, and the burst.
    step_us: i64,
    burst: i64,
    /// What the row says now.
    now: Option<(i64, i64)>,
    /// From then on only that counts.
    settled: Timestamp,
    /// Requests so far.
    count: i64,
    /// The least of `i x step - start` so far.
    least: i64,
}

/// A row was put or taken away.
pub(super) fn configured(
    checker: &mut Checker,
    at: Timestamp,
    name: &DestinationName,
    destination: Option<&Destination>,
) {
    let rules = checker.rules.entry(name.clone()).or_default();
    let believed = rules.max_in_flight;
    match destination {
        Some(destination) => rules.set(destination),
        None => rules.exists = false,
    }
    // Who believed in more lanes, or in none at all, may do so for a while.
    let most = believed.zip(rules.max_in_flight).map(|(before, now)| before.max(now));
    rules.lanes = most.map(|most| (most, later(at, OLD_ROW_MS)));
    let rate = destination.and_then(|destination| destination.rate).map(|rate| {
        let step = i64::from(rate.per_seconds.get()) * 1_000_000 / i64::from(rate.limit.get());
        (step.max(1), i64::from(rate.burst.get()))
    });
    let known = checker.limits.remove(name);
    let limit = match (known, rate) {
        (None, None) => return,
        (None, Some((step_us, burst))) => Limit { step_us, burst, now: rate, settled: at, count: 0, least: i64::MAX },
        // While both are believed, the looser bound holds over what is sent from now on.
        (Some(limit), Some((step, burst))) => Limit {
            step_us: limit.step_us.min(step),
            burst: limit.burst + burst,
            now: rate,
            settled: later(at, OLD_ROW_MS),
            count: 0,
            least: i64::MAX,
        },
        (Some(limit), None) => Limit { now: None, settled: later(at, OLD_ROW_MS), ..limit },
    };
    checker.limits.insert(name.clone(), limit);
}

/// A request was started.
pub(super) fn started(checker: &mut Checker, at: Timestamp, destination: &Destination) -> Found {
    let slack = 2 * checker.tolerances.skew_ms * 1000 + LATE_US;
    let Some(limit) = checker.limits.get_mut(&destination.name) else { return Ok(()) };
    if at >= limit.settled
        && let Some((step_us, burst)) = limit.now
        && (limit.step_us, limit.burst) != (step_us, burst)
    {
        *limit = Limit { step_us, burst, now: limit.now, settled: at, count: 0, least: i64::MAX };
    }
    // Without a rate there is no bound; one that is new is not yet believed by all.
    if destination.rate.is_none() {
        return Ok(());
    }
    let start = at.micros().0;
    limit.least = limit.least.min(limit.count * limit.step_us - start);
    limit.count += 1;
    let dense = limit.count * limit.step_us - start - limit.least;
    let most = limit.burst * limit.step_us + slack;
    if dense <= most {
        return Ok(());
    }
    let what = format!(
        "{}: some window has {} ms more of requests than its length; a burst of {} at one per {} ms allows {} ms",
        destination.name,
        dense / 1000,
        limit.burst,
        limit.step_us / 1000,
        most / 1000
    );
    Err(Broken(Invariant::InsideLimit, None, what))
}

/// A clock item was written.
pub(super) fn clock(
    checker: &mut Checker,
    at: Timestamp,
    name: &DestinationName,
    write: &Write,
    [before, after]: &[Clocks; 2],
) -> Found {
    if let Write::Pause { .. } = write {
        if after.pause.until > before.pause.until {
            checker.rules.entry(name.clone()).or_default().pauses += 1;
        }
        return Ok(());
    }
    if before.gate == after.gate {
        return Ok(());
    }
    let latest = later(at, checker.tolerances.skew_ms);
    match before.paused(latest) {
        None => Ok(()),
        Some(until) => {
            let what = format!("{name}: a place at the gate was booked although it is paused until {until}");
            Err(Broken(Invariant::InsideLimit, None, what))
        }
    }
}

fn later(at: Timestamp, ms: i64) -> Timestamp {
    Timestamp::from_millis(at.millis() + ms)
}
