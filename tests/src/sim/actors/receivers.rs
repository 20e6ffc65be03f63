//! Receivers of a run: their rows, and how they are minded as time goes on.
//!
//! Owns: what a seed makes of them. Must not: answer; `fleet::receivers` does.

use std::rc::Rc;
use std::sync::Arc;

use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Clock as _;
use serde_json::{Map, Value, json};

use super::Stage;
use crate::fleet::chance::Span;
use crate::fleet::moods::Mood;
use crate::fleet::name;
use crate::fleet::receivers::Behaviour;
use crate::fleet::steps::Step;

/// The one with the reference receiver behind it.
pub(super) const CATALOG: &str = "catalog";

/// Rates per second or slower, with a burst, as limit, seconds and burst.
const RATES: [(u32, u32, u32); 6] = [(1, 1, 1), (1, 5, 2), (2, 1, 2), (10, 1, 10), (10, 1, 1), (50, 1, 50)];

/// Puts rows and starts their receivers.
pub(super) fn start(stage: &Stage, count: u32) -> Vec<DestinationName> {
    let names = (0..count.max(1)).map(|n| if n == 0 { name(CATALOG) } else { name(&format!("partner-{n}")) });
    let names: Vec<_> = names.collect();
    for destination in &names {
        put(stage, destination, row(stage));
        let takes = [Span(5, 60), Span(20, 400), Span(100, 4000)][stage.dice.below(3)];
        stage.world.shared.receivers.add(destination, Behaviour::Accepts, takes);
        if destination.as_str() == CATALOG {
            stage.world.shared.receivers.back(destination, Rc::new(stage.catalog.clone()));
        }
        for _ in 0..stage.dice.below(5) {
            change_of_mind(stage, destination.clone());
        }
        end(stage, destination.clone());
    }
    names
}

/// A row as a seed makes it.
pub(super) fn row(stage: &Stage) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("url".to_owned(), json!("https://receiver.example/"));
    row.insert("secrets".to_owned(), json!(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]));
    if !stage.one_in(3) {
        row.insert("rate".to_owned(), rate(stage));
    }
    if stage.one_in(2) {
        row.insert("max_in_flight".to_owned(), json!([1, 1, 2, 3][stage.dice.below(4)]));
    }
    row.insert("timeout_ms".to_owned(), json!([1000, 3000, 10_000, 20_000][stage.dice.below(4)]));
    row.insert("jitter_ms".to_owned(), json!([0, 150][stage.dice.below(2)]));
    row.insert("max_age".to_owned(), json!([600, 3600, 86_400, 604_800][stage.dice.below(4)]));
    let most = 1 + stage.dice.below(6);
    let policy = match stage.dice.below(3) {
        0 => json!({"max_attempts": most}),
        1 => json!({"max_attempts": most, "initial_ms": 200, "factor": 3, "cap_ms": 3_600_000, "jitter": 0.5}),
        _ => json!({"max_attempts": most, "schedule_s": [1, 60, 2000, 20_000]}),
    };
    row.insert("policy".to_owned(), policy);
    if stage.one_in(6) {
        row.insert("require_decision".to_owned(), json!(true));
    }
    if stage.one_in(6) {
        row.insert("statuses".to_owned(), json!({"delivered": [409], "transient": [404], "permanent": [500]}));
    }
    row
}

/// Some rate.
pub(super) fn rate(stage: &Stage) -> Value {
    let (limit, per_seconds, burst) = RATES[stage.dice.below(RATES.len())];
    json!({"limit": limit, "per_seconds": per_seconds, "burst": burst})
}

/// Puts a row, and tells whoever watches.
pub(super) fn put(stage: &Stage, destination: &DestinationName, row: Map<String, Value>) {
    let parsed = Destination::parse(destination, &row).ok().map(Arc::new);
    stage.world.shared.destinations.put(destination, row);
    stage.world.eyes.see(stage.time().now(), || Step::Configured(destination.clone(), parsed));
}

/// At some time it behaves otherwise.
fn change_of_mind(stage: &Stage, destination: DestinationName) {
    let (here, at) = (stage.clone(), stage.sometime());
    let behaviour = match stage.dice.below(9) {
        0 => Behaviour::Hangs,
        1 => Behaviour::ActsThenSilent,
        2 => Behaviour::Answers(500, None),
        3 => Behaviour::Minded(Mood::Throttling),
        4 => Behaviour::Minded(Mood::Odd),
        5 => Behaviour::Minded(Mood::Mute),
        6 => Behaviour::Enforces { per_second: 2, burst: 2, retry_after: Some(3) },
        7 => Behaviour::Accepts,
        _ => Behaviour::Minded(Mood::Flaky),
    };
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        here.world.eyes.see(here.time().now(), || Step::Did(format!("{destination} is now {behaviour:?}")));
        here.world.shared.receivers.behave(&destination, behaviour);
    });
}

/// At the end most of them are well; some never are.
fn end(stage: &Stage, destination: DestinationName) {
    if stage.one_in(5) {
        return;
    }
    let here = stage.clone();
    stage.spawn(async move {
        here.time().sleep_until(here.until).await;
        here.world.shared.receivers.behave(&destination, Behaviour::Accepts);
    });
}
