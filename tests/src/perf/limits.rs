//! `cargo perf limits`: many workers that book at one destination at once, on each DynamoDB engine.
//!
//! Owns: the options, the engines, and the targets. Must not: book; `contention` does.

pub mod contention;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use anyhow::{Context, Result};
use clap::Args;
use lapse_local::dynamodb_local::Storage;
use serde_json::{Map, json};

use self::contention::{Contention, InBudget, LOADS, Place, contend};
use super::dynoxide_process::DynoxideProcess;
use super::progress::Progress;
use super::report::{Report, Table};
use super::store;

/// What is measured.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Workers that book at once, each a run.
    #[arg(long, value_delimiter = ',', default_value = "5,20,50,100")]
    workers: Vec<NonZeroUsize>,
    /// How often each worker books planned times, and places at the gate for those that are due.
    #[arg(long, default_value = "10")]
    rounds: NonZeroUsize,
}

/// Plays all runs, one after another.
pub async fn run(options: &Options, progress: &Progress) -> Result<Report> {
    let perf = std::env::current_exe().context("cannot tell where this command is")?;
    let mut outcomes = Vec::new();
    let dynoxide = DynoxideProcess::start(&perf).await?;
    outcomes.extend(on_engine("Dynoxide", &dynoxide.endpoint, options, progress).await?);
    drop(dynoxide);
    // It blocks while Java starts; nothing else runs then.
    if let Some(installed) = lapse_engines::dynamodb_local() {
        let local = installed.start(&Storage::Memory, None)?;
        outcomes.extend(on_engine("DynamoDB Local", &local.endpoint(), options, progress).await?);
    }
    Ok(report(options, &outcomes))
}

async fn on_engine(
    engine: &'static str,
    endpoint: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Vec<Contention>> {
    store::make_tables(&lapse_engines::client(endpoint)).await?;
    let place = Place { engine, endpoint: endpoint.to_owned(), table: "limits".to_owned() };
    let mut outcomes = Vec::new();
    progress.begin(engine, LOADS.len() * options.workers.len());
    for load in &LOADS {
        for workers in &options.workers {
            progress.at(outcomes.len(), &format!("{}, {workers} workers", load.name));
            outcomes.push(contend(&place, load, workers.get(), options.rounds.get())?);
        }
    }
    Ok(outcomes)
}

fn report(options: &Options, outcomes: &[Contention]) -> Report {
    let mut table = Table::new(&Contention::HEADS);
    for outcome in outcomes {
        table.push(outcome.row());
    }
    // Of the loads that the budget is for, the worst.
    let mut writes: BTreeMap<&str, BTreeMap<usize, f64>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.in_budget == InBudget::Yes) {
        let worst = writes.entry(outcome.engine).or_default().entry(outcome.workers).or_default();
        *worst = worst.max(outcome.writes_per_booking());
    }
    let numbers = Map::from_iter([
        ("rounds".to_owned(), json!(options.rounds)),
        ("writes_per_booking".to_owned(), json!(writes)),
        ("runs".to_owned(), json!(outcomes)),
    ]);
    Report { table, numbers, missed: outcomes.iter().flat_map(Contention::missed).collect() }
}
