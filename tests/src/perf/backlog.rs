//! `cargo perf backlog`: deep backlogs, overload and neighbours across a fleet, in virtual time.
//!
//! Owns: the cases, their sizes and their targets. Must not: simulate; `fleet` does.
//! All numbers are those of the model: they repeat exactly with the same seed, on any machine.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::progress::Progress;
use super::report::{Report, Table};
use crate::fleet::receivers::Behaviour;
use crate::fleet::report::Figures;
use crate::fleet::time::at;
use crate::fleet::{Fleet, Settings, Stream};

/// I9: receives per delivery of a drain.
const MOST_RECEIVES: f64 = 2.1;
/// Of the plan's rate, how much is used.
const LEAST_USED: f64 = 0.95;
/// The plan runs at this share of the rate (LIM-3).
const PLAN: f64 = 0.98;
/// The lateness that a healthy destination may have beside limited ones, at the 99th percentile, in seconds.
const MOST_LATE_S: f64 = 1.0;
/// Limited destinations beside a healthy one, and the events that each has at once.
const LIMITED: (u32, u32) = (200, 500);
/// Longer than any case: virtual milliseconds.
const LATEST_MS: u64 = 24 * 3_600_000;

/// What is played.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Decides all that chance decides.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// `MaximumConcurrency` beside 200 limited destinations, each a case.
    #[arg(long, value_delimiter = ',', default_value = "50,100,150,200,400")]
    workers: Vec<usize>,
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    /// 10,000 events at once, at this rate.
    Deep(u32),
    /// 75 events a second for an hour, then 25 for another, for a destination that takes 50, with deadlines of 10 min.
    Overload,
    /// 20 events a second to a healthy destination, alone: as with a queue and a mapping of its own.
    Alone,
    /// The same beside the limited ones.
    Beside,
}

/// What a case came to.
#[derive(Debug, Clone, Serialize)]
struct Outcome {
    case: String,
    workers: usize,
    #[serde(flatten)]
    figures: Figures,
    /// The part of the plan's rate that was used; absent where the rate is not the limit.
    used: Option<f64>,
    #[serde(skip)]
    judged: Case,
}

/// Plays all cases, one after another.
pub async fn run(options: &Options, progress: &Progress) -> Result<Report> {
    let mut cases = vec![(Case::Deep(50), 50), (Case::Deep(10), 50), (Case::Overload, 50), (Case::Alone, 50)];
    cases.extend(options.workers.iter().map(|workers| (Case::Beside, *workers)));
    progress.begin("backlog", cases.len());
    let mut outcomes = Vec::with_capacity(cases.len());
    for (case, workers) in cases {
        progress.at(outcomes.len(), &case.name());
        let settings = Settings { seed: options.seed, workers, ..Settings::default() };
        let played = tokio::task::spawn_blocking(move || case.play(settings)).await;
        outcomes.push(played.context("a case broke")?);
    }
    Ok(report(options, &outcomes))
}

impl Case {
    fn name(self) -> String {
        match self {
            Self::Deep(rate) => format!("10,000 at once, {rate}/s"),
            Self::Overload => "75/s, then 25/s, at 50/s".to_owned(),
            Self::Alone => "healthy, 20/s, alone".to_owned(),
            Self::Beside => format!("healthy beside {}", LIMITED.0),
        }
    }

    fn play(self, settings: Settings) -> Outcome {
        let fleet = Fleet::new(settings);
        let (figures, used) = match self {
            Self::Deep(rate) => deep(&fleet, rate),
            Self::Overload => overload(&fleet),
            Self::Alone => (healthy(&fleet), None),
            Self::Beside => {
                let (destinations, events) = LIMITED;
                for n in 0..destinations {
                    let limited = format!("limited-{n}");
                    fleet.destination(&limited, &rate(5), Behaviour::Accepts);
                    fleet.offer(&limited, events);
                }
                (healthy(&fleet), None)
            }
        };
        Outcome { case: self.name(), workers: settings.workers, figures, used, judged: self }
    }
}

fn rate(per_second: u32) -> Value {
    json!({"rate": {"limit": per_second}})
}

fn deep(fleet: &Fleet, per_second: u32) -> (Figures, Option<f64>) {
    fleet.destination("deep", &rate(per_second), Behaviour::Accepts);
    fleet.offer("deep", 10_000);
    let drained = fleet.drain(at(LATEST_MS));
    let figures = fleet.figures("deep");
    let used = 10_000.0 / (f64::from(per_second) * PLAN) / figures.drained_s;
    (figures, Some(if drained { used } else { 0.0 }))
}

/// The part used is that of the worst minute while there is more than the rate can take.
fn overload(fleet: &Fleet) -> (Figures, Option<f64>) {
    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);
    let stream = |per_second| Stream { per_second, lasting: HOUR, deadline: Some(10 * MINUTE) };
    fleet.destination("overload", &rate(50), Behaviour::Accepts);
    fleet.offer_steadily("overload", stream(75));
    fleet.run_until(at(3_600_000));
    fleet.offer_steadily("overload", stream(25));
    let drained = fleet.drain(at(LATEST_MS));
    let fewest = fleet.traffic("overload").fewest_each(MINUTE, at(60_000), at(3_600_000));
    let used = f64::from(u32::try_from(fewest).unwrap_or(0)) / (60.0 * 50.0 * PLAN);
    (fleet.figures("overload"), Some(if drained { used } else { 0.0 }))
}

/// 20 events a second for two minutes: longer than the limited ones have a backlog.
fn healthy(fleet: &Fleet) -> Figures {
    fleet.destination("healthy", &rate(100), Behaviour::Accepts);
    let stream = Stream { per_second: 20, lasting: Duration::from_secs(120), deadline: None };
    fleet.offer_steadily("healthy", stream);
    fleet.run_until(at(180_000));
    fleet.figures("healthy")
}

impl Outcome {
    const HEADS: [&str; 13] = [
        "case",
        "workers",
        "offered",
        "delivered",
        "dead",
        "drained s",
        "used",
        "receives",
        "in flight",
        "limiter w.",
        "ledger w.",
        "re-plans",
        "late p99 s",
    ];

    fn row(&self) -> Vec<String> {
        let Figures { offered, delivered, dead, drained_s, receives_per_delivery, .. } = &self.figures;
        vec![
            self.case.clone(),
            self.workers.to_string(),
            offered.to_string(),
            delivered.to_string(),
            dead.to_string(),
            format!("{drained_s:.1}"),
            self.used.map_or_else(|| "-".to_owned(), |used| format!("{used:.3}")),
            format!("{receives_per_delivery:.3}"),
            self.figures.most_in_flight.to_string(),
            format!("{:.3}", self.figures.limiter_writes_per_delivery),
            format!("{:.3}", self.figures.ledger_writes_per_delivery),
            format!("{:.3}", self.figures.replans_per_delivery),
            format!("{:.3}", self.figures.late_p99_s),
        ]
    }

    fn missed(&self) -> Vec<String> {
        let Self { case, figures, .. } = self;
        let drain = matches!(self.judged, Case::Deep(_));
        let mut missed = Vec::new();
        if drain && figures.receives_per_delivery > MOST_RECEIVES {
            missed.push(format!("{case}: {} receives a delivery", figures.receives_per_delivery));
        }
        if let Some(used) = self.used.filter(|used| *used < LEAST_USED) {
            missed.push(format!("{case}: {used:.3} of the plan's rate is used"));
        }
        if figures.dead != figures.no_place_before_deadline {
            missed.push(format!("{case}: deaths for other reasons than the rate"));
        }
        missed
    }
}

fn report(options: &Options, outcomes: &[Outcome]) -> Report {
    let mut table = Table::new(&Outcome::HEADS);
    for outcome in outcomes {
        table.push(outcome.row());
    }
    let enough = outcomes
        .iter()
        .filter(|outcome| outcome.judged == Case::Beside && outcome.figures.late_p99_s < MOST_LATE_S)
        .map(|outcome| outcome.workers)
        .min();
    let mut missed: Vec<_> = outcomes.iter().flat_map(Outcome::missed).collect();
    if enough.is_none() {
        missed.push(format!("no concurrency keeps a healthy destination within {MOST_LATE_S} s"));
    }
    let numbers = Map::from_iter([
        ("seed".to_owned(), json!(options.seed)),
        ("workers_for_healthy_p99_below_1s".to_owned(), json!(enough)),
        ("cases".to_owned(), json!(outcomes)),
    ]);
    Report { table, numbers, missed }
}
