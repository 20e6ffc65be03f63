//! `cargo perf NAME [--json]`: every number that README and ARCHITECTURE claim, from the command that measures it.
//!
//! Owns: the command line, and what all measurements have in common: the machine, the progress, the report.
//! Must not: measure; each measurement has its own file. A number is a ratio within one run, a counted call or CPU
//! time, never a bare wall time.
//! Exit codes: 0 all targets are met, 1 it failed or a target was missed, 2 wrong usage, 130 interrupted.

pub mod backlog;
pub mod burst;
pub mod calls;
pub mod dynoxide_process;
pub mod environments;
pub mod limits;
pub mod machine;
pub mod progress;
pub mod queue;
pub mod report;
pub mod store;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use machine::Machine;
use progress::Progress;
use report::Report;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "perf",
    about = "Prints the numbers that Lapse claims, measured on this machine.",
    after_help = "Examples:\n  cargo perf burst                       bursts against a receiver that enforces the limit\n  cargo perf burst --bursts 10 --json    one of them, for a program"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Many workers that book at one destination at once: writes per booking, places, gaps.
    Limits(Measured<limits::Options>),
    /// Many events at once for one destination whose receiver enforces its limit: 429s, utilisation, receives.
    Burst(Measured<burst::Options>),
    /// Deep backlogs, overload and neighbours across a fleet, in virtual time.
    Backlog(Measured<backlog::Options>),
    /// Serves a DynamoDB engine until standard input ends. The measurements start it for themselves.
    #[command(hide = true, name = dynoxide_process::COMMAND)]
    Dynoxide,
}

/// A measurement's own options and the one that all have.
#[derive(Debug, Args)]
struct Measured<O: Args> {
    #[command(flatten)]
    options: O,
    /// Print one JSON object as the last line of standard output.
    #[arg(long)]
    json: bool,
}

/// Runs a command.
pub async fn run(arguments: Arguments) -> ExitCode {
    let progress = Progress::new();
    let work = async {
        match arguments.command {
            Command::Limits(Measured { options, json }) => {
                finish("limits", json, &progress, &limits::run(&options, &progress).await?)
            }
            Command::Burst(Measured { options, json }) => {
                finish("burst", json, &progress, &burst::run(&options, &progress).await?)
            }
            Command::Backlog(Measured { options, json }) => {
                finish("backlog", json, &progress, &backlog::run(&options, &progress).await?)
            }
            Command::Dynoxide => dynoxide_process::serve().await.map(|()| ExitCode::SUCCESS),
        }
    };
    let outcome = tokio::select! {
        outcome = Box::pin(work) => outcome,
        // Dropping the work stops what it started.
        _ = tokio::signal::ctrl_c() => {
            progress.say("interrupted; everything that was started is stopped");
            return ExitCode::from(130);
        }
    };
    outcome.unwrap_or_else(|error| {
        progress.say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn finish(name: &str, json: bool, progress: &Progress, report: &Report) -> Result<ExitCode> {
    progress.finish();
    let machine = Machine::look();
    report.print(name, &machine)?;
    if json {
        report.print_json(name, &machine)?;
    }
    Ok(if report.missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
