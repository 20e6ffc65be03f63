//! The commands and their flags.
//!
//! Owns: arguments, exit codes and what is printed where. Must not: do the work; each command has its own file.
//! Exit codes: 0 done; 1 it failed, or a check did not hold (`demo`, `check`), or it is not so (`local status` with nothing
//! running, `guard` of a URL that may not be called, `sign` with a secret that is none), or with `--jsonl` some line
//! could not be answered, or of many events some were not taken, or what was asked for is not there (`delivery show`,
//! `schedule cancel`); 2 wrong usage; 130 interrupted. `explain` ends with 0 whatever was decided.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::Value;

use crate::jsonl::{BadLine, Run, answer_all};
use crate::{check, dead, delivery, demo, destination, explain, guard, local, producer, sign};

const EXAMPLES: &str = "\
Examples:
  lapse demo                               play the main job on this machine
  lapse local up                           a stack to try things on
  lapse destination --help                 destinations of a deployed stack
  lapse dead summary                       what is dead, and why
  lapse check                              whether a deployed stack keeps its promises
  lapse explain --status 503 --attempts 3  what would be done after this answer
  lapse explain --schedule                 when an event that nobody takes is tried again

Exit codes: 0 done; 1 it failed or was refused; 2 wrong usage; 130 interrupted. Each command says more.";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "lapse",
    version,
    about = "Delivers webhooks at least once, inside limits, before deadlines.",
    after_help = EXAMPLES
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
    /// Destinations of a deployed stack.
    #[command(subcommand)]
    Destination(destination::Destination),
    /// Send events for now.
    Send(producer::Send),
    /// Events for later: put them, take them back, look at them.
    #[command(subcommand)]
    Schedule(producer::Schedule),
    /// One delivery of a deployed stack.
    #[command(subcommand)]
    Delivery(delivery::Delivery),
    /// Dead deliveries of a deployed stack.
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Whether a deployed stack keeps what Lapse promises; it only reads.
    Check(check::Flags),
    /// A shell's completions, on standard output.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// What would be done after an outcome: the code that `deliver` calls.
    Explain(explain::flags::Flags),
    /// Whether a URL may be called: the code that `deliver` calls.
    Guard(guard::Flags),
    /// The signed headers of a request: the code that `deliver` calls.
    Sign(sign::Flags),
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

/// Runs a command.
pub async fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Local(command) => until_interrupted(local(command)).await,
        Command::Demo { json } => until_interrupted(async { demo::run(&root()?, json).await }).await,
        Command::Destination(command) => until_interrupted(destination::run(command)).await,
        Command::Send(flags) => until_interrupted(producer::send(flags)).await,
        Command::Schedule(command) => until_interrupted(producer::schedule(command)).await,
        Command::Delivery(command) => until_interrupted(delivery::run(command)).await,
        Command::Dead(command) => until_interrupted(dead::run(command)).await,
        Command::Check(flags) => until_interrupted(check::run(&flags)).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "lapse", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        // These start nothing: an interruption may end the process as it does by default.
        Command::Explain(flags) => explain::run(&flags),
        Command::Guard(flags) => guard::run(flags),
        Command::Sign(flags) => sign::run(&flags),
    };
    outcome.unwrap_or_else(|error| {
        say(&format!("error: {error:#}"));
        if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

async fn local(command: Local) -> Result<ExitCode> {
    match command {
        Local::Up { port, json } => local::up(&root()?, port, json).await,
        Local::Down => local::down(&root()?).await,
        Local::Status { json } => local::status(&root()?, json).await,
    }
}

async fn until_interrupted(work: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    tokio::select! {
        outcome = Box::pin(work) => outcome,
        // Dropping the work stops what it started.
        _ = tokio::signal::ctrl_c() => {
            say("interrupted; everything that was started is stopped");
            Ok(ExitCode::from(130))
        }
    }
}

/// The user's own mistake that only shows when a flag's value is used.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The error of a wrong flag: it names the flag and what it accepts.
#[must_use]
pub fn usage(problem: &str) -> anyhow::Error {
    Usage(problem.to_owned()).into()
}

/// Answers every line of standard input.
pub fn answer_lines(answer_line: impl Fn(&str) -> Result<String, BadLine>) -> Result<ExitCode> {
    let run = answer_all(io::stdin().lock(), io::stdout().lock(), answer_line).context("cannot read or write lines")?;
    Ok(match run {
        Run::Clean => ExitCode::SUCCESS,
        Run::Errors => ExitCode::FAILURE,
    })
}

/// All of a file, or of standard input if the path is `-`.
pub fn read_input(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The workspace: the nearest folder above with the template in it, else where this command was built.
pub fn root() -> Result<PathBuf> {
    let has_template = |path: &&Path| path.join("infra/sam/template.yaml").is_file();
    let here = std::env::current_dir().context("cannot tell the current folder")?;
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().chain(built.ancestors()).find(has_template);
    found.map(ToOwned::to_owned).context("no Lapse workspace here: run this command inside a clone")
}

/// A line for the person: standard error, so that standard output stays for results.
pub fn say(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A line of a result.
pub fn print(line: &str) -> Result<()> {
    writeln!(io::stdout().lock(), "{line}").context("cannot write to standard output")
}

/// A result in the form that was asked for.
pub fn show(as_json: bool, object: &Value, lines: &[String]) -> Result<()> {
    if as_json { print(&object.to_string()) } else { lines.iter().try_for_each(|line| print(line)) }
}
