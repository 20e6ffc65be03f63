//! OBS-1, OBS-2, OBS-4: log lines and metric documents, both as JSON lines on standard output.
//!
//! Owns: the form of both. Must not: know which metrics there are (that is each function's), nor print payloads,
//! headers or secrets: of other crates only warnings are logged, since some show requests in their details.

use std::io::{self, Write as _};

use lapse_policy::timestamp::Timestamp;
use serde_json::{Map, Value, json};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::environment::{Environment, InvalidSetting};

/// The prefix of the targets that are ours: the names of the workspace's crates.
const OURS: &str = "lapse";
/// CloudWatch takes at most so many values of one metric in a document (EMF specification).
const MOST_VALUES: usize = 100;

/// Starts logging for the process, at the level that `LOG_LEVEL` names. A second call changes nothing.
pub fn init() -> Result<(), InvalidSetting> {
    let level = level(&Environment::of_process())?;
    // An error means that there is a subscriber already.
    let _ = subscriber(level, io::stdout).try_init();
    Ok(())
}

/// `LOG_LEVEL`; `info` where it is not set.
fn level(environment: &Environment<'_>) -> Result<LevelFilter, InvalidSetting> {
    let read = |text: &str| match text.to_ascii_lowercase().as_str() {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err(format!("{text:?} is no level")),
    };
    let level = environment.read("LOG_LEVEL", "error, warn, info or debug", read)?;
    Ok(level.unwrap_or(LevelFilter::INFO))
}

/// One flat JSON object per event: a line reads alone and queries well.
pub fn subscriber<W>(level: LevelFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(writer);
    let levels = Targets::new().with_target(OURS, level).with_default(level.min(LevelFilter::WARN));
    tracing_subscriber::registry().with(levels).with(lines)
}

/// The namespace of all of Lapse's metrics.
pub const NAMESPACE: &str = "Lapse";

/// A metric's unit, as CloudWatch names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// A span of time.
    Milliseconds,
    /// A size.
    Bytes,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Milliseconds => "Milliseconds",
            Self::Bytes => "Bytes",
        }
    }
}

/// One metric of a document: one value, or one per thing that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    name: &'static str,
    unit: Unit,
    values: Vec<f64>,
}

impl Metric {
    /// A metric with these values. One without a finite value is left out of its document; of more than 100 values
    /// the first 100 count.
    #[must_use]
    pub fn new(name: &'static str, unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite()).take(MOST_VALUES).collect();
        Self { name, unit, values }
    }

    /// A number of things.
    #[must_use]
    pub fn count(name: &'static str, count: u32) -> Self {
        Self::new(name, Unit::Count, [f64::from(count)])
    }

    fn value(&self) -> Option<Value> {
        match self.values.as_slice() {
            [] => None,
            [one] => Some(json!(one)),
            several => Some(json!(several)),
        }
    }
}

/// Prints one document of CloudWatch's Embedded Metric Format (OBS-2). CloudWatch makes metrics of it by itself.
pub fn emit(namespace: &str, metrics: &[Metric], properties: Map<String, Value>, now: Timestamp) {
    let mut line = document(namespace, metrics, properties, now).to_string();
    line.push('\n');
    // There is no place left where a failure could be told.
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

/// A document without dimensions: a dimension per destination would make a metric, and a price, of each. A property
/// is searched with Logs Insights. A property of a metric's name gives way to the metric.
#[must_use]
pub fn document(namespace: &str, metrics: &[Metric], properties: Map<String, Value>, now: Timestamp) -> Value {
    let measured: Vec<_> = metrics.iter().filter_map(|metric| Some((metric, metric.value()?))).collect();
    let names: Vec<_> =
        measured.iter().map(|(metric, _)| json!({"Name": metric.name, "Unit": metric.unit.name()})).collect();
    let mut document = properties;
    document.extend(measured.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)));
    let directive = json!({"Namespace": namespace, "Dimensions": [[]], "Metrics": names});
    document.insert("_aws".to_owned(), json!({"Timestamp": now.millis(), "CloudWatchMetrics": [directive]}));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const NOW: Timestamp = Timestamp::from_millis(1_772_366_400_123);

    #[test]
    fn obs_2_a_document_has_metrics_and_properties_but_no_dimension() {
        let metrics = [Metric::count("attempts", 3), Metric::new("age", Unit::Milliseconds, [1.5, 20.0])];
        let properties = Map::from_iter([("destination".to_owned(), json!("catalog"))]);
        let expected = json!({
            "_aws": {
                "Timestamp": 1_772_366_400_123_i64,
                "CloudWatchMetrics": [{
                    "Namespace": "Lapse",
                    "Dimensions": [[]],
                    "Metrics": [{"Name": "attempts", "Unit": "Count"}, {"Name": "age", "Unit": "Milliseconds"}],
                }],
            },
            "attempts": 3.0,
            "age": [1.5, 20.0],
            "destination": "catalog",
        });
        assert_eq!(document("Lapse", &metrics, properties, NOW), expected);
    }

    #[test]
    fn obs_2_what_cloudwatch_would_refuse_is_left_out() {
        let metrics = [
            Metric::new("none", Unit::Bytes, []),
            Metric::new("not a number", Unit::Bytes, [f64::NAN, f64::INFINITY]),
            Metric::new("many", Unit::Bytes, (0..200).map(f64::from)),
        ];
        let properties = Map::from_iter([("many".to_owned(), json!("a property"))]);
        let document = document("Lapse", &metrics, properties, NOW);
        let names = document.pointer("/_aws/CloudWatchMetrics/0/Metrics").expect("metrics");
        assert_eq!(names, &json!([{"Name": "many", "Unit": "Bytes"}]));
        assert_eq!(document["many"].as_array().map(Vec::len), Some(100));
        assert!(document.get("none").is_none() && document.get("not a number").is_none());
    }

    #[test]
    fn the_level_is_one_of_four() {
        let level_of = |text| level(&Environment::of(&[("LOG_LEVEL", text)]));
        assert_eq!(level_of("error"), Ok(LevelFilter::ERROR));
        assert_eq!(level_of("WARN"), Ok(LevelFilter::WARN));
        assert_eq!(level_of(" debug "), Ok(LevelFilter::DEBUG));
        assert_eq!(level_of(""), Ok(LevelFilter::INFO));
        assert_eq!(level(&Environment::of(&[])), Ok(LevelFilter::INFO));
        for invalid in ["trace", "4", "lapse=debug"] {
            let error = level_of(invalid).expect_err(invalid).to_string();
            assert!(error.contains("LOG_LEVEL") && error.contains("error, warn, info or debug"), "{error}");
        }
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn obs_1_an_event_is_one_flat_line_and_others_details_are_not_logged() {
        let lines = Lines::default();
        let writer = lines.clone();
        tracing::subscriber::with_default(subscriber(LevelFilter::DEBUG, move || writer.clone()), || {
            let _span = tracing::info_span!("batch", size = 2).entered();
            tracing::info!(target: "lapse_deliver", destination = "catalog", duration_ms = 12, "attempt");
            tracing::debug!(target: "lapse_deliver", "ours");
            tracing::info!(target: "hyper", "theirs");
            tracing::warn!(target: "hyper", "theirs too");
        });
        let text = String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("UTF-8");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let messages: Vec<_> = events.iter().filter_map(|event| event["message"].as_str()).collect();
        assert_eq!(messages, ["attempt", "ours", "theirs too"]);
        let event = &events[0];
        assert_eq!(event["level"], "INFO");
        assert_eq!(event["destination"], "catalog");
        assert_eq!(event["duration_ms"], 12);
        assert!(event["timestamp"].is_string() && event.get("fields").is_none() && event.get("span").is_none());
    }
}
