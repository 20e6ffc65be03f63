//! `cargo sim`: many runs, or one that is looked at.
//!
//! Owns: the command line, the runs side by side, and what is printed. Must not: simulate.
//! Exit codes: 0 no promise was broken (with `--bug`: it was, as it has to be), 1 one was (or was not), 2 wrong usage.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use serde_json::json;

use super::trace::{self, Filter};
use super::{Options, Outcome, day, play};
use crate::fleet::bugs::Bug;
use crate::fleet::weather::Fault;
use crate::perf::machine::Machine;
use crate::perf::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  cargo sim --runs 2000               as many runs from a seed of its own
  cargo sim --runs 2000 --seed 1      the same runs each time
  cargo sim --seed 42 --trace         one run, step by step
  cargo sim --seed 42 --trace e_3:1   the same, for one event
  cargo sim bugs                      every planted bug has to be found
  cargo sim fleet --svg day.svg       a day of 1,000,000 deliveries, with a plot

Exit codes: 0 no promise was broken; 1 one was, or a planted bug was not found; 2 wrong usage.";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "sim",
    about = "Plays Lapse in virtual time, with faults from a seed, and watches every promise.",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    many: Many,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A day of a whole fleet in fair weather: lateness, load and cost. Takes some minutes.
    Fleet(day::Options),
    /// Plants each known bug in turn: the simulator has to find it within its number of runs.
    Bugs {
        /// Only this one.
        #[arg(long, value_parser = bug)]
        bug: Option<Bug>,
        /// Print one JSON object as the last line of standard output.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Many {
    /// How many runs, each with the next seed [default: 1000; 1 with --trace].
    #[arg(long)]
    runs: Option<u64>,
    /// The first seed; else one of its own, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// For so long, in virtual time, events are offered and things go wrong.
    #[arg(long, default_value = "1")]
    hours: f64,
    /// Events of a run, at most.
    #[arg(long, default_value = "20")]
    events: u32,
    /// Destinations of a run.
    #[arg(long, default_value = "3")]
    destinations: u32,
    /// No run begins after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Print every step of one run, or those of one event.
    #[arg(long, value_name = "EVENT", num_args = 0..=1, default_missing_value = "")]
    trace: Option<String>,
    /// Plant a bug, by its name (`cargo sim bugs` lists them).
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Go on after a promise was broken.
    #[arg(long)]
    keep_going: bool,
    /// Print one JSON object as the last line of standard output.
    #[arg(long)]
    json: bool,
}

fn bug(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL.iter().find(|bug| bug.name() == name);
    found
        .copied()
        .ok_or_else(|| format!("one of: {}", Bug::ALL.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ")))
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.command {
        None => many(&arguments.many),
        Some(Command::Bugs { bug, json }) => bugs(*bug, *json),
        Some(Command::Fleet(options)) => fleet(options),
    };
    outcome.unwrap_or_else(|error| {
        Progress::hidden().say(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

/// What many runs came to.
#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    events: u64,
    sends: u64,
    faults: BTreeMap<Fault, u64>,
    ends: BTreeMap<&'static str, u64>,
    virtual_hours: u64,
    violations: Vec<Outcome>,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.events += outcome.events;
        self.sends += outcome.sends;
        self.virtual_hours += outcome.lasted.as_secs() / 3600;
        for (fault, count) in &outcome.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (end, count) in &outcome.ends {
            *self.ends.entry(end).or_default() += count;
        }
        if outcome.violation.is_some() {
            self.violations.push(outcome);
        }
    }

    fn all_faults(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// Which runs are played.
struct Runs<'a> {
    first: u64,
    count: u64,
    options: &'a Options,
    seconds: Option<u64>,
    keep_going: bool,
}

/// Plays runs on all processors.
fn play_all(runs: &Runs<'_>, progress: &Progress) -> Sum {
    let (sum, next, stop) = (Mutex::new(Sum::default()), AtomicU64::new(0), AtomicBool::new(false));
    let until = runs.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let work = || {
        while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= runs.count {
                return;
            }
            let outcome = play(runs.first.wrapping_add(n), runs.options);
            let broken = outcome.violation.is_some();
            let Ok(mut sum) = sum.lock() else { return };
            sum.add(outcome);
            let message =
                format!("{} sends, {} faults, {} violations", sum.sends, sum.all_faults(), sum.violations.len());
            progress.at(usize::try_from(sum.runs).unwrap_or(usize::MAX), &message);
            if broken && !runs.keep_going {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_default()
}

fn many(many: &Many) -> Result<ExitCode> {
    ensure!(many.hours > 0.0 && many.hours <= 1000.0, "--hours must be more than 0 and at most 1000");
    ensure!((1..=1000).contains(&many.destinations), "--destinations must be from 1 to 1000");
    let trace = many.trace.as_deref().map(|event| match event {
        "" => Filter::All,
        event => Filter::Event(event.to_owned()),
    });
    let count = many.runs.unwrap_or(if trace.is_some() { 1 } else { 1000 });
    ensure!(trace.is_none() || (many.seed.is_some() && count == 1), "--trace shows one run: give it --seed");
    let options =
        Options { hours: many.hours, events: many.events, destinations: many.destinations, bug: many.bug, trace };
    let first = many.seed.unwrap_or_else(fresh_seed);
    let progress = Progress::new();
    if options.trace.is_none() {
        progress.begin("runs", usize::try_from(count).unwrap_or(usize::MAX));
    }
    let began = Instant::now();
    let runs = Runs { first, count, options: &options, seconds: many.seconds, keep_going: many.keep_going };
    let sum = play_all(&runs, &progress);
    progress.finish();
    report(first, &sum, began.elapsed())?;
    for outcome in sum.violations.iter().take(3) {
        explain(outcome, &options)?;
    }
    if many.json {
        print(&as_json(first, &sum).to_string())?;
    }
    Ok(if sum.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Any number: the runs of today are not those of yesterday.
#[expect(clippy::disallowed_methods, reason = "a seed of its own must not repeat; it is printed")]
fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() * 1_000_000
}

fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("cannot write to standard output")
}

fn report(first: u64, sum: &Sum, took: Duration) -> Result<()> {
    print(&format!(
        "{} runs from seed {first}: {} events, {} sends, {} faults, {} hours of virtual time, {} violations",
        sum.runs,
        sum.events,
        sum.sends,
        sum.all_faults(),
        sum.virtual_hours,
        sum.violations.len()
    ))?;
    let a_minute = f64::from(u32::try_from(sum.runs).unwrap_or(u32::MAX)) * 60.0 / took.as_secs_f64().max(0.001);
    print(&format!("  {a_minute:.0} runs a minute on {}", Machine::look()))?;
    let words = |counts: Vec<String>| counts.join(", ");
    print(&format!("  ends: {}", words(sum.ends.iter().map(|(end, n)| format!("{end} {n}")).collect())))?;
    let faults = sum.faults.iter().map(|(fault, n)| format!("{} {n}", name(*fault))).collect();
    print(&format!("  faults: {}", words(faults)))
}

fn name(fault: Fault) -> String {
    serde_json::to_value(fault).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What was broken, by what, and how to see it again.
fn explain(outcome: &Outcome, options: &Options) -> Result<()> {
    let Some(violation) = &outcome.violation else { return Ok(()) };
    let of = violation.key.as_ref().map(|key| format!(" by {key}")).unwrap_or_default();
    print("")?;
    print(&format!("seed {}: {} is broken{of}: {}", outcome.seed, violation.invariant.name(), violation.what))?;
    print(&format!("the last {} steps:", violation.steps.len()))?;
    for (at, step) in &violation.steps {
        print(&format!("  {}", trace::line(*at, step)))?;
    }
    let bug = options.bug.map(|bug| format!(" --bug {}", bug.name())).unwrap_or_default();
    print(&format!(
        "see it again: cargo sim --seed {} --hours {} --events {} --destinations {}{bug} --trace",
        outcome.seed, options.hours, options.events, options.destinations
    ))
}

fn as_json(first: u64, sum: &Sum) -> serde_json::Value {
    let faults: BTreeMap<_, _> = sum.faults.iter().map(|(fault, n)| (name(*fault), n)).collect();
    let broken = |outcome: &Outcome| {
        let violation = outcome.violation.as_ref();
        json!({
            "seed": outcome.seed,
            "invariant": violation.map(|v| v.invariant.name()),
            "event": violation.and_then(|v| v.key.as_ref()).map(ToString::to_string),
            "what": violation.map(|v| v.what.clone()),
        })
    };
    json!({
        "seed": first,
        "runs": sum.runs,
        "events": sum.events,
        "sends": sum.sends,
        "faults": sum.all_faults(),
        "faults_by_kind": faults,
        "ends": sum.ends,
        "virtual_hours": sum.virtual_hours,
        "violations": sum.violations.len(),
        "broken": sum.violations.iter().map(broken).collect::<Vec<_>>(),
    })
}

/// How a planted bug was found.
#[derive(Debug)]
pub struct Found {
    /// The bug.
    pub bug: Bug,
    /// The run that found it broken as expected, counted from 1.
    pub run: Option<u64>,
}

/// Plants a bug and plays until it is found, or as many runs as it may take.
#[must_use]
pub fn hunt(bug: Bug) -> Found {
    let options = Options { bug: Some(bug), ..Options::default() };
    for run in 1..=bug.within() {
        let violation = play(run, &options).violation;
        if violation.is_some_and(|violation| violation.invariant == bug.breaks()) {
            return Found { bug, run: Some(run) };
        }
    }
    Found { bug, run: None }
}

fn fleet(options: &day::Options) -> Result<ExitCode> {
    let day = day::play(options, &Progress::new())?;
    for line in &day.lines {
        print(line)?;
    }
    print(&format!("virtual time, on {}", Machine::look()))?;
    if options.json {
        print(&day.numbers.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn bugs(only: Option<Bug>, as_json: bool) -> Result<ExitCode> {
    let chosen: Vec<_> = Bug::ALL.iter().copied().filter(|bug| only.is_none_or(|only| only == *bug)).collect();
    let progress = Progress::new();
    progress.begin("bugs", chosen.len());
    let mut found = Vec::with_capacity(chosen.len());
    for bug in chosen {
        progress.at(found.len(), bug.name());
        found.push(hunt(bug));
    }
    progress.finish();
    for Found { bug, run } in &found {
        let outcome = run.map_or(format!("NOT FOUND in {} runs", bug.within()), |run| format!("found in run {run:>3}"));
        print(&format!("  {:<20} breaks {:<6} {outcome}", bug.name(), bug.breaks().name()))?;
    }
    let missed = found.iter().filter(|found| found.run.is_none()).count();
    if as_json {
        let bugs: Vec<_> =
            found.iter().map(|f| json!({"bug": f.bug.name(), "breaks": f.bug.breaks().name(), "run": f.run})).collect();
        print(&json!({"bugs": bugs, "missed": missed}).to_string())?;
    }
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
