//! `cargo perf burst`: many events at once for one destination whose receiver enforces its limit without tolerance.
//!
//! Owns: the options, the order of the runs, and the targets. Must not: play a run; `scene` does.
//!
//! Real are the use case, the adapters of DynamoDB (on an engine in a process of its own, over HTTP) and of HTTP, and
//! time. SQS and the event source are played in this process. All environments are warm: none has to start first.

pub mod case;
pub mod outcome;
pub mod scene;

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, json};

use self::case::Case;
use self::outcome::Outcome;
use super::progress::Progress;
use super::report::Report;

/// What is measured.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Events of a run. A destination that is spaced wider (LIM-5) gets what it takes in the same time.
    #[arg(long, default_value = "1000")]
    events: NonZeroU32,
    /// The destination's limit in requests per second, which the receiver enforces.
    #[arg(long, default_value = "50")]
    rate: NonZeroU32,
    /// Bursts that the destination allows, each a run.
    #[arg(long, value_delimiter = ',', default_value = "50,10,5,1")]
    bursts: Vec<NonZeroU32>,
    /// Environments that work at once, each a run.
    #[arg(long, value_delimiter = ',', default_value = "10,50")]
    environments: Vec<NonZeroU32>,
    /// The destination's `jitter_ms`, if not the default.
    #[arg(long)]
    jitter_ms: Option<u32>,
    /// Let the receiver answer one request in the middle with 429 and `Retry-After: 5`, whatever its bucket holds.
    #[arg(long)]
    pause: bool,
}

/// Plays all runs, one after another.
pub async fn run(options: &Options, progress: &Progress) -> Result<Report> {
    let perf = std::env::current_exe().context("cannot tell where this command is")?;
    let mut outcomes = Vec::new();
    for case in cases(options)? {
        outcomes.push(scene::play(&case, &perf, progress).await?);
    }
    Ok(report(options, &outcomes))
}

/// Plays one run without a word, with the engine from another binary than this.
pub async fn run_one(case: &Case, perf: &Path) -> Result<Outcome> {
    scene::play(case, perf, &Progress::hidden()).await
}

fn cases(options: &Options) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for burst in &options.bursts {
        for environments in &options.environments {
            let case = Case::new(options.rate, *burst, *environments, options.jitter_ms)?.events(options.events);
            cases.push(if options.pause { case.paused_in_the_middle() } else { case });
        }
    }
    Ok(cases)
}

fn report(options: &Options, outcomes: &[Outcome]) -> Report {
    let mut table = Outcome::table();
    for outcome in outcomes {
        table.push(outcome.row());
    }
    let numbers = Map::from_iter([
        ("events".to_owned(), json!(options.events)),
        ("rate".to_owned(), json!(options.rate)),
        ("runs".to_owned(), json!(outcomes)),
    ]);
    Report { table, numbers, missed: outcomes.iter().flat_map(Outcome::missed).collect() }
}
