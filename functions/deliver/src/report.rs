//! OBS-1, OBS-2: one wide event per attempt, one metrics document per batch.
//!
//! Owns: the names and units of log fields and metrics. Must not: log payloads, headers or secrets (OBS-4).

use lapse_aws::telemetry::{self, Metric, Unit};
use lapse_policy::classifier::Class;
use lapse_policy::decision::{Action, Counting, Decision};
use lapse_policy::names::DeliveryKey;
use lapse_policy::timestamp::{Timestamp, millis};
use lapse_policy::waiting::{Wait, wait};
use serde_json::Map;

use crate::tally::Tally;

/// One attempt, as it is logged.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The delivery.
    pub key: &'a DeliveryKey,
    /// The request's number in its epoch.
    pub number: u32,
    /// The epoch.
    pub epoch: u32,
    /// What was decided: the value that is acted on (RET-9).
    pub decision: &'a Decision,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// How long the request took.
    pub took_ms: i64,
    /// How far ahead of its planned time it started; negative is late.
    pub plan_lead_ms: Option<i64>,
    /// How long after its place it started.
    pub place_lag_ms: Option<i64>,
    /// How often its message was received.
    pub receives: u32,
    /// When it ended.
    pub now: Timestamp,
}

/// Logs an attempt (OBS-1).
pub fn attempt(attempt: &Attempt<'_>) {
    let decision = attempt.decision;
    let (disposition, wait_ms) = match decision.action {
        Action::Acknowledge => ("acknowledge", None),
        Action::Dead(reason) => (reason.name(), None),
        Action::RetryAt(at) => {
            let means = match wait(at, attempt.now, attempt.receives) {
                Wait::Here(_) | Wait::Defer(_) => "defer",
                Wait::Republish(_) => "republish",
                Wait::Park(_) => "park",
            };
            (means, Some(millis(at.since(attempt.now))))
        }
    };
    tracing::info!(
        event_id = %attempt.key.id,
        destination = %attempt.key.destination,
        attempt = attempt.number,
        epoch = attempt.epoch,
        class = class(decision.class),
        rule = decision.rule,
        chosen_by = decision.chosen_by,
        status = attempt.status,
        duration_ms = attempt.took_ms,
        asked_ms = decision.asked.map(millis),
        scheduled_ms = millis(decision.scheduled),
        jitter_ms = millis(decision.jitter),
        wait_ms,
        counted = decision.counting == Counting::Counted,
        plan_lead_ms = attempt.plan_lead_ms,
        place_lag_ms = attempt.place_lag_ms,
        paused_until = decision.pause_until.map(|at| at.to_string()),
        deadline_left_ms = millis(decision.deadline_left),
        disposition,
        "attempt"
    );
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Delivered => "delivered",
        Class::Throttled => "throttled",
        Class::Transient => "transient",
        Class::Permanent => "permanent",
    }
}

/// Emits the metrics of one batch: sums as metrics, destinations as properties, never as a dimension (OBS-2).
pub fn batch(tally: &Tally, remaining: usize, now: Timestamp) {
    let sum = tally.sum();
    let dead = sum.dead.values().sum::<u32>() + tally.malformed;
    let mut metrics = vec![
        Metric::count("Received", sum.received + tally.malformed),
        Metric::count("Remaining", u32::try_from(remaining).unwrap_or(u32::MAX)),
        Metric::count("Attempts", sum.attempts),
        Metric::count("Delivered", sum.delivered),
        Metric::count("Throttled", sum.throttled),
        Metric::count("Transient", sum.transient),
        Metric::count("Dead", dead),
        Metric::count("Malformed", tally.malformed),
        Metric::count("Deferred", sum.deferred),
        Metric::count("LaneWaits", sum.lane_waits),
        Metric::count("Republished", sum.republished),
        Metric::count("Parked", sum.parked),
        Metric::count("EpochsStarted", sum.epochs_started),
        Metric::count("Duplicates", sum.duplicates),
    ];
    let spans = [("DeliveryAge", sum.delivery_age_ms), ("PlaceWait", sum.place_wait_ms)];
    for (name, ms) in spans.into_iter().filter(|(_, ms)| *ms > 0) {
        #[expect(clippy::cast_precision_loss, reason = "a double holds milliseconds exactly for 285,000 years")]
        metrics.push(Metric::new(name, Unit::Milliseconds, [ms as f64]));
    }
    let destinations: Map<_, _> = tally
        .destinations()
        .filter_map(|(name, counts)| Some((name.to_string(), serde_json::to_value(counts).ok()?)))
        .collect();
    telemetry::emit(
        telemetry::NAMESPACE,
        &metrics,
        Map::from_iter([("destinations".to_owned(), destinations.into())]),
        now,
    );
}
