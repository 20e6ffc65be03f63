//! What a run came to, in numbers, and whether that is enough.
//!
//! Owns: the figures, their names and the targets. Must not: touch anything that runs.

use std::sync::Arc;
use std::time::Duration;

use lapse_deliver::tally::Counts;
use lapse_local::partner::{Checks, Seen};
use lapse_policy::booking::INLINE;
use lapse_policy::clock::Clocks;
use lapse_policy::clock::LATE;
use lapse_policy::timestamp::Timestamp;
use serde::Serialize;

use super::case::{ASKED, Case};
use crate::perf::calls::Calls;
use crate::perf::queue::QueueCalls;
use crate::perf::report::Table;

/// The least share of the ideal drain time.
const LEAST_SHARE: f64 = 0.95;
/// The most receives per delivery, on average.
const MOST_RECEIVES: f64 = 2.1;

/// What was counted in a run.
#[derive(Debug)]
pub struct Counted {
    /// When the events were put in.
    pub began: Timestamp,
    /// What the receiver saw, in order of arrival.
    pub requests: Vec<Seen>,
    /// Records that say Delivered.
    pub delivered: usize,
    /// Messages that were left when patience ended.
    pub left: usize,
    /// What each batch came to.
    pub batches: Vec<Counts>,
    /// Calls of the queue.
    pub queue: QueueCalls,
    /// The clock item afterwards.
    pub clocks: Clocks,
    /// Calls to DynamoDB.
    pub calls: Arc<Calls>,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The destination's burst.
    pub burst: u32,
    /// Environments at work.
    pub environments: u32,
    /// Events.
    pub events: u32,
    /// Requests that the receiver took.
    pub answered_200: usize,
    /// Requests that it refused.
    pub answered_429: usize,
    /// Different events that it saw.
    pub different_events: usize,
    /// Records that say Delivered.
    pub delivered: usize,
    /// Messages that were left.
    pub left: usize,
    /// From the moment the events were there to the last 200.
    pub drain_s: f64,
    /// The least that the receiver's bucket allows for.
    pub ideal_s: f64,
    /// 200s per second of the drain, as a share of the limit. A burst that is used up makes it more than 1.
    pub utilisation: f64,
    /// `ideal_s` / `drain_s`.
    pub share_of_ideal: f64,
    /// 200s per second of the drain.
    pub rate_per_s: f64,
    /// Places per second at the gate, by LIM-5.
    pub gate_rate_per_s: f64,
    /// Receives of messages per event.
    pub receives_per_delivery: f64,
    /// The most requests in any one second.
    pub max_in_1s: usize,
    /// The least burst with which the receiver would have taken every one of those that it took: what is left of
    /// the destination's burst is room for delays.
    pub burst_needed: u32,
    /// The most requests without an answer at once.
    pub max_in_flight: usize,
    /// Conditional writes on the clock item per event.
    pub limiter_writes_per_delivery: f64,
    /// Writes of records per event.
    pub ledger_writes_per_delivery: f64,
    /// Calls to DynamoDB of any kind per event.
    pub dynamodb_calls_per_delivery: f64,
    /// Batches per event.
    pub invocations_per_delivery: f64,
    /// Messages that were hidden.
    pub deferred: u32,
    /// Messages that were sent again.
    pub republished: u32,
    /// The pause in the middle, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseSeen>,
    /// Calls to DynamoDB by table and kind.
    #[serde(flatten)]
    calls: Shared,
    /// Calls to SQS by kind.
    pub sqs: QueueCalls,
    #[serde(skip)]
    full_rate: bool,
    #[serde(skip)]
    limit: u32,
}

/// Counts that the environments have added to.
#[derive(Debug, Clone, Serialize)]
struct Shared {
    dynamodb: Arc<Calls>,
}

/// What the receiver saw of the pause in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PauseSeen {
    /// Requests between the 429 and the end of what it asked for: they had their places before it.
    pub requests_during: usize,
    /// How long after the 429 the last of them came.
    pub last_after_ms: u64,
    /// The most requests in any one second after the pause.
    pub max_in_1s_after: usize,
    /// How far the pause moved the plan.
    pub shift_ms: i64,
    /// The streak afterwards.
    pub streak: u32,
}

impl Outcome {
    /// The figures of a run.
    #[must_use]
    pub fn of(case: &Case, counted: &Counted) -> Self {
        let Counted { began, requests, delivered, left, batches, queue, clocks, calls } = counted;
        let checks = Checks::of(requests);
        let of_status = |status| checks.statuses.get(&status).copied().unwrap_or(0);
        let events = f64::from(case.events.get());
        let ideal_s = case.ideal().as_secs_f64();
        let drain_s = drain(*began, requests).as_secs_f64();
        let rate_per_s = ratio(events, drain_s);
        let dynamodb_calls = calls.limiter_writes()
            + calls.limits_reads.now()
            + calls.ledger_write_calls.now()
            + calls.ledger_read_calls.now()
            + calls.destination_reads.now();
        Self {
            burst: case.burst.get(),
            environments: case.environments.get(),
            events: case.events.get(),
            answered_200: of_status(200),
            answered_429: of_status(429),
            different_events: checks.events,
            delivered: *delivered,
            left: *left,
            drain_s: round(drain_s),
            ideal_s: round(ideal_s),
            utilisation: ratio(rate_per_s, f64::from(case.rate.get())),
            share_of_ideal: ratio(ideal_s, drain_s),
            rate_per_s,
            gate_rate_per_s: round(case.gate_rate()),
            receives_per_delivery: ratio(wide(queue.received), events),
            max_in_1s: checks.most_in_a_second,
            burst_needed: burst_needed(requests, case.rate.get()),
            max_in_flight: checks.most_in_flight,
            limiter_writes_per_delivery: ratio(wide(calls.limiter_writes()), events),
            ledger_writes_per_delivery: ratio(wide(calls.ledger_writes.now()), events),
            dynamodb_calls_per_delivery: ratio(wide(dynamodb_calls), events),
            invocations_per_delivery: ratio(wide(queue.receive), events),
            deferred: batches.iter().map(|batch| batch.deferred).sum(),
            republished: batches.iter().map(|batch| batch.republished).sum(),
            pause: case.refused.and_then(|_| PauseSeen::of(requests, clocks)),
            calls: Shared { dynamodb: Arc::clone(calls) },
            sqs: *queue,
            full_rate: case.at_full_rate(),
            limit: case.rate.get(),
        }
    }

    /// The targets that it misses.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let refusals = usize::from(self.pause.is_some());
        let events = usize::try_from(self.events).unwrap_or(usize::MAX);
        let once = [self.answered_200, self.different_events, self.delivered].iter().all(|count| *count == events);
        let mut targets = vec![
            (once && self.left == 0, format!("every event is delivered once: {} of {events}", self.delivered)),
            (self.answered_429 == refusals, format!("no 429: {}", self.answered_429)),
        ];
        if let Some(pause) = self.pause {
            let most = usize::try_from(self.burst.saturating_add(self.limit)).unwrap_or(usize::MAX);
            let latest = INLINE + LATE;
            targets.extend([
                (
                    Duration::from_millis(pause.last_after_ms) <= latest,
                    format!("LIM-5: after a 429 only what has its place already: {} ms later", pause.last_after_ms),
                ),
                (
                    pause.max_in_1s_after <= most,
                    format!("LIM-7: paced after a pause: {} in 1 s", pause.max_in_1s_after),
                ),
                (pause.streak == 0, format!("LIM-7: a success ends the streak: {}", pause.streak)),
            ]);
        } else {
            // A pause costs each message that meets it one receive more, and its length once more at the end.
            targets.extend([
                (
                    self.receives_per_delivery <= MOST_RECEIVES,
                    format!("at most {MOST_RECEIVES} receives a delivery: {}", self.receives_per_delivery),
                ),
                (
                    self.share_of_ideal >= LEAST_SHARE || !self.full_rate,
                    format!("at least {LEAST_SHARE} of the ideal drain time: {}", self.share_of_ideal),
                ),
            ]);
        }
        let missed = targets.into_iter().filter(|(met, _)| !met);
        missed.map(|(_, text)| format!("burst {}, {} environments: {text}", self.burst, self.environments)).collect()
    }

    /// The heads of the table.
    #[must_use]
    pub fn table() -> Table {
        Table::new(&[
            "burst/environments",
            "events",
            "200s",
            "429s",
            "drain s",
            "ideal s",
            "share",
            "utilisation",
            "rate/s",
            "gate/s",
            "max in 1s",
            "burst needed",
            "receives",
            "limiter writes",
            "ledger writes",
            "in flight",
        ])
    }

    /// Its row.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        vec![
            format!("{} / {}", self.burst, self.environments),
            self.events.to_string(),
            self.answered_200.to_string(),
            self.answered_429.to_string(),
            self.drain_s.to_string(),
            self.ideal_s.to_string(),
            self.share_of_ideal.to_string(),
            self.utilisation.to_string(),
            self.rate_per_s.to_string(),
            self.gate_rate_per_s.to_string(),
            self.max_in_1s.to_string(),
            self.burst_needed.to_string(),
            self.receives_per_delivery.to_string(),
            self.limiter_writes_per_delivery.to_string(),
            self.ledger_writes_per_delivery.to_string(),
            self.sqs.most_in_flight.to_string(),
        ]
    }
}

impl PauseSeen {
    /// What is seen around the request that was asked to wait; `None` if none was.
    fn of(requests: &[Seen], clocks: &Clocks) -> Option<Self> {
        let refused = requests.iter().find(|seen| seen.retry_after == Some(ASKED))?;
        let end = refused.not_before_ms?;
        let answered = end.saturating_sub(ASKED * 1000);
        let during: Vec<_> = requests.iter().filter(|seen| (answered..end).contains(&seen.arrived_ms)).collect();
        let during: Vec<_> = during.into_iter().filter(|seen| seen.arrived > refused.arrived).collect();
        let after: Vec<_> = requests.iter().filter(|seen| seen.arrived_ms >= end).cloned().collect();
        Some(Self {
            requests_during: during.len(),
            last_after_ms: during.iter().map(|seen| seen.arrived_ms - answered).max().unwrap_or(0),
            max_in_1s_after: Checks::of(&after).most_in_a_second,
            shift_ms: clocks.pause.shift,
            streak: clocks.pause.streak,
        })
    }
}

/// From the moment the events were there to the arrival of the last request that was taken.
fn drain(began: Timestamp, requests: &[Seen]) -> Duration {
    let taken = requests.iter().filter(|seen| seen.status() == Some(200));
    let last = taken.map(|seen| seen.arrived_ms).max().and_then(|ms| i64::try_from(ms).ok());
    last.map_or(Duration::ZERO, |last| Timestamp::from_millis(last).since(began))
}

/// The least burst of a bucket that takes all of those that were taken (GCRA without a limit, at its fullest).
fn burst_needed(requests: &[Seen], rate: u32) -> u32 {
    let step = Duration::from_secs(1) / rate.max(1);
    let (mut clock, mut ahead) = (Duration::ZERO, Duration::ZERO);
    for seen in requests.iter().filter(|seen| seen.status() == Some(200)) {
        ahead = ahead.max(clock.saturating_sub(seen.arrived));
        clock = clock.max(seen.arrived) + step;
    }
    let steps = ahead.as_nanos().div_ceil(step.as_nanos().max(1));
    u32::try_from(steps).unwrap_or(u32::MAX).saturating_add(1)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { round(part / whole) } else { 0.0 }
}

/// To three digits after the point: what follows is noise.
fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn wide(count: u64) -> f64 {
    count as f64
}
