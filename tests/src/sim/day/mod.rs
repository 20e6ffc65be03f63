//! `cargo sim fleet`: a day of a whole fleet in fair weather: who is how late, what it takes, and what it costs.
//!
//! Owns: the day's size, its destinations and its course. Must not: break promises on purpose; runs from seeds do.

mod cost;
mod ledger;
mod load;
mod plot;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use lapse_policy::names::DestinationName;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::fleet::time::START;
use crate::fleet::traffic::seconds;
use crate::fleet::{Fleet, Settings};
use crate::perf::progress::Progress;
use ledger::{Book, LogBytes};
use load::{Kind, Load};

/// How the day is set up.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Deliveries of the day.
    #[arg(long, default_value = "1000000")]
    pub deliveries: u32,
    /// Destinations; the n-th gets a share of 1/n.
    #[arg(long, default_value = "10000")]
    pub destinations: u32,
    /// `MaximumConcurrency`.
    #[arg(long, default_value = "100")]
    pub workers: usize,
    /// Decides all that chance decides.
    #[arg(long, default_value = "1")]
    pub seed: u64,
    /// Write a plot of rate, backlog and lateness over time.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object as the last line of standard output.
    #[arg(long)]
    pub json: bool,
}

/// The day, and what is still on its way at its end.
const DAY: Duration = Duration::from_hours(24);
/// What is retried or limited may take so much longer.
const AFTER: Duration = Duration::from_hours(30);
/// Between two looks.
const LOOK: Duration = Duration::from_mins(5);

/// What the day came to, in lines and in numbers.
#[derive(Debug)]
pub struct Day {
    /// For a person.
    pub lines: Vec<String>,
    /// For a program.
    pub numbers: Value,
}

/// Plays the day.
pub fn play(options: &Options, progress: &Progress) -> Result<Day> {
    ensure!(options.destinations > 0 && options.deliveries > 0, "--deliveries and --destinations must be at least 1");
    ensure!(options.workers > 0, "--workers must be at least 1");
    let logs = LogBytes::default();
    logs.clone().counting(|| course(options, &logs, progress))
}

fn course(options: &Options, logs: &LogBytes, progress: &Progress) -> Result<Day> {
    let fleet = Fleet::new(Settings { seed: options.seed, workers: options.workers, skew_ms: 200 });
    let load = Load::new(&fleet, options);
    let book = Book::open(&fleet, &load);
    load.start(&fleet);
    let looks = usize::try_from(DAY.as_secs() / LOOK.as_secs()).unwrap_or(1);
    progress.begin("the day, by five minutes", looks);
    let mut series = Vec::with_capacity(looks);
    for look in 1..=looks {
        let at = START.plus(LOOK * u32::try_from(look).unwrap_or(1));
        fleet.run_until(at);
        series.push(book.look(&fleet, at));
        progress.at(look, &format!("{} requests", book.requests()));
    }
    let drained = fleet.drain(START.plus(DAY + AFTER));
    progress.finish();
    if let Some(path) = &options.svg {
        fs::write(path, plot::svg(&series)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(figures(options, &fleet, &book, &load, logs, drained))
}

fn figures(options: &Options, fleet: &Fleet, book: &Book, load: &Load, logs: &LogBytes, drained: bool) -> Day {
    let (queue, invocations) = (fleet.world.deliveries.counts(), fleet.mapping.counts());
    let late = |kind: Option<Kind>| {
        let names: Vec<&DestinationName> = load.names(kind).collect();
        fleet.world.receivers.lateness(&names, [50, 95, 99]).map(seconds)
    };
    let (healthy, limited, failing) = (late(None), late(Some(Kind::Limited)), late(Some(Kind::Failing)));
    let per_delivery = |count: u64| count_ratio(count, u64::from(options.deliveries));
    let bill = cost::of_day(fleet, book, logs, options);
    let hottest = book.hottest();
    let lines = vec![
        format!(
            "{} deliveries to {} destinations in a day, {}",
            options.deliveries,
            options.destinations,
            ended(drained)
        ),
        format!(
            "  requests                    {} ({:.3} per delivery)",
            book.requests(),
            per_delivery(book.requests())
        ),
        format!("  receives per delivery       {:.3}", per_delivery(queue.received)),
        format!("  in flight, at most          {} messages of `deliveries`", queue.most_in_flight),
        format!(
            "  Lambda concurrency          {} at most, {:.1} on average",
            invocations.most_at_once,
            average(invocations.busy_ms)
        ),
        format!(
            "  DynamoDB writes             {} a second at most, {} a second on the hottest item ({})",
            book.most_writes(),
            hottest.1,
            hottest.0
        ),
        format!(
            "  late, healthy               {:.2} s median, {:.2} s at 95 %, {:.2} s at 99 %",
            healthy[0], healthy[1], healthy[2]
        ),
        format!(
            "  late, limited below demand  {:.2} s median, {:.2} s at 95 %, {:.2} s at 99 %",
            limited[0], limited[1], limited[2]
        ),
        format!(
            "  late, failing for a while   {:.2} s median, {:.2} s at 95 %, {:.2} s at 99 %",
            failing[0], failing[1], failing[2]
        ),
    ];
    let lines = lines.into_iter().chain(bill.lines()).collect();
    let numbers = json!({
        "deliveries": options.deliveries,
        "destinations": options.destinations,
        "seed": options.seed,
        "drained": drained,
        "requests": book.requests(),
        "receives_per_delivery": per_delivery(queue.received),
        "most_in_flight": queue.most_in_flight,
        "most_invocations": invocations.most_at_once,
        "most_writes_per_second": book.most_writes(),
        "most_writes_per_second_on_one_item": hottest.1,
        "late_s": {"healthy": healthy, "limited": limited, "failing": failing},
        "usd_per_month": bill.month(),
        "usd_by_service": bill.by_service(),
    });
    Day { lines, numbers }
}

fn ended(drained: bool) -> &'static str {
    if drained { "all ended" } else { "some are still on their way a day later" }
}

fn average(busy_ms: u64) -> f64 {
    count_ratio(busy_ms, u64::try_from(DAY.as_millis()).unwrap_or(1))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a day, as a quotient for a person")]
fn count_ratio(count: u64, of: u64) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Hours since the start, for an axis.
fn hours(at: Timestamp) -> f64 {
    at.since(START).as_secs_f64() / 3600.0
}
