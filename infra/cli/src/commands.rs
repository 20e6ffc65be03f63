//! The commands and their flags.
//!
//! Owns: arguments, exit codes and what is printed where. Must not: do the work; each command has its own file.
//! Exit codes: 0 done, 1 it failed or a check did not hold, 2 wrong usage, 130 interrupted.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::jsonl::{Run, answer_all};
use crate::{demo, explain, guard, local};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "lapse",
    version,
    about = "Delivers webhooks at least once, inside limits, before deadlines.",
    after_help = "Examples:\n  lapse demo                 play the main job on this machine\n  lapse local up             a stack to try things on\n  lapse explain --jsonl < outcomes.jsonl"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The local stack: the real functions and template on this machine.
    #[command(subcommand)]
    Local(Local),
    /// Play the main job on a local stack of its own and prove what came of it.
    #[command(after_help = "Takes about a minute after the build. Exit code 1 if a proof line does not hold.")]
    Demo {
        /// Print one JSON object as the last line of standard output.
        #[arg(long)]
        json: bool,
    },
    /// What would be done after an outcome: the code that `deliver` calls.
    Explain(Lines),
    /// Whether a URL may be called: the code that `deliver` calls.
    Guard(Lines),
}

#[derive(Debug, Subcommand)]
enum Local {
    /// Build, start and deploy; reuses what runs.
    Up {
        /// The port to listen on, on 127.0.0.1; a free one if it is not given.
        #[arg(long)]
        port: Option<u16>,
        /// Print one JSON object with the endpoint and the stack's outputs.
        #[arg(long)]
        json: bool,
    },
    /// Stop it, with everything that it started.
    Down,
    /// Whether it runs, and where. Exit code 1 if it does not.
    Status {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Lines {
    /// Read one JSON object a line from standard input and answer each with one.
    #[arg(long, required = true)]
    jsonl: bool,
}

/// Runs a command.
pub async fn run(arguments: Arguments) -> ExitCode {
    let work = async {
        match arguments.command {
            Command::Local(Local::Up { port, json }) => local::up(&root()?, port, json).await,
            Command::Local(Local::Down) => local::down(&root()?).await,
            Command::Local(Local::Status { json }) => local::status(&root()?, json).await,
            Command::Demo { json } => demo::run(&root()?, json).await,
            Command::Explain(_) => answered(answer_all(io::stdin().lock(), io::stdout().lock(), explain::answer_line)),
            Command::Guard(_) => answered(answer_all(io::stdin().lock(), io::stdout().lock(), guard::answer_line)),
        }
    };
    let outcome = tokio::select! {
        outcome = Box::pin(work) => outcome,
        // Dropping the work stops what it started.
        _ = tokio::signal::ctrl_c() => {
            say("interrupted; everything that was started is stopped");
            return ExitCode::from(130);
        }
    };
    outcome.unwrap_or_else(|error| {
        say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn answered(run: io::Result<Run>) -> Result<ExitCode> {
    Ok(match run.context("cannot read or write lines")? {
        Run::Clean => ExitCode::SUCCESS,
        Run::Errors => ExitCode::FAILURE,
    })
}

/// The workspace: the nearest folder above with the template in it, else where this command was built.
fn root() -> Result<PathBuf> {
    let has_template = |path: &&std::path::Path| path.join("infra/sam/template.yaml").is_file();
    let here = std::env::current_dir().context("cannot tell the current folder")?;
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().chain(built.ancestors()).find(has_template);
    found.map(ToOwned::to_owned).context("no Lapse workspace here: run this command inside a clone")
}

/// A line for the person: standard error, so that standard output stays for results.
pub fn say(line: &str) {
    use std::io::Write as _;
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A line of a result.
pub fn print(line: &str) -> Result<()> {
    use std::io::Write as _;
    writeln!(io::stdout().lock(), "{line}").context("cannot write to standard output")
}
