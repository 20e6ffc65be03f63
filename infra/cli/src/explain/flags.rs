//! The flags of `lapse explain`.
//!
//! Owns: names, forms and which go together; each error names its flag and what it accepts.
//! Must not: know what they mean.

use std::path::PathBuf;

use clap::{ArgGroup, Args, value_parser};
use lapse_policy::classifier::Outcome;
use lapse_policy::timestamp::Timestamp;

use super::context::{ErrorName, answered};
use crate::span::When;

const EXAMPLES: &str = "\
Examples:
  lapse explain --status 429 --header 'Retry-After: 12' --attempts 3 --deadline +20m
  lapse explain --error timeout --destination catalog.json --json
  lapse explain --schedule --deadline +10m
  aws dynamodb get-item --table-name NAME --key '{\"destination\": {\"S\": \"catalog\"}}' |
    lapse explain --schedule --destination -
  lapse explain --jsonl < tests/data/explain.jsonl

Exit codes: 0 decided, whatever the decision; 1 with --jsonl: some line could not be answered; 2 wrong usage.";

/// The command's arguments. One of `--status`, `--error`, `--schedule` and `--jsonl` says what is asked.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("question").required(true).args(["status", "error", "schedule", "jsonl"]),
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct Flags {
    /// The status of the answer. Whether its body could be read makes no difference.
    #[arg(long, value_name = "CODE", value_parser = value_parser!(u16).range(100..=999))]
    status: Option<u16>,
    /// Why there was no answer.
    #[arg(long, value_name = "ERROR", value_enum)]
    error: Option<ErrorName>,
    /// Tell the whole schedule of retries: an event that nobody takes, from the first attempt to the dead letter.
    #[arg(long)]
    pub schedule: bool,
    /// Answer vectors: one JSON object a line from standard input, one line for each.
    #[arg(long, exclusive = true)]
    pub jsonl: bool,
    /// A header of the answer, such as 'Retry-After: 12'; may be repeated. Retry-After and Date are looked at.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header, conflicts_with_all = ["error", "schedule"])]
    headers: Vec<(String, String)>,
    /// Counted attempts before this one.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, conflicts_with = "schedule")]
    pub attempts: u32,
    /// The destination's pauses in a row before this answer.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, conflicts_with = "schedule")]
    pub streak: u32,
    /// An earlier attempt may have reached the receiver.
    #[arg(long, conflicts_with = "schedule")]
    pub unknown_before: bool,
    /// Where in the jitter's span this wait falls, from 0 to 1.
    #[arg(long, value_name = "PART", default_value_t = 0.0, allow_negative_numbers = true, value_parser = part, conflicts_with = "schedule")]
    pub jitter: f64,
    /// No attempt starts after it: RFC 3339, or from now such as +20m. Default: the destination's `max_age` from now.
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub deadline: Option<When>,
    /// When the outcome was known, or the first attempt starts: RFC 3339. Default: now.
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    pub now: Option<Timestamp>,
    /// A row of the table `destinations` as JSON, plain or as `aws dynamodb get-item` prints it; - is standard input.
    /// Its `policy`, `statuses`, `require_decision`, `timeout_ms` and `max_age` are used. Default: the defaults.
    #[arg(long, value_name = "FILE")]
    pub destination: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl Flags {
    /// The outcome that is asked about, if it is one.
    #[must_use]
    pub fn outcome(&self, now: Timestamp) -> Option<Outcome> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.status.map(|status| answered(status, headers, now)).or_else(|| self.error.map(Outcome::from))
    }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        Some(_) | None => Err("must be a name, a colon and a value, such as 'Retry-After: 12'"),
    }
}

fn part(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or("must be a number from 0 to 1")
}

fn instant(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text).map_err(|_| "must be an RFC 3339 date-time such as 2026-11-30T12:00:00Z")
}
