//! `lapse sign`: the headers of a request, signed by the code that signs in `deliver`.
//!
//! Owns: where secrets, id, time and body come from. Must not: show a secret or a part of one (SEC-4), whatever is
//! wrong with it or with the flag that was to name it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgGroup, Args, value_parser};
use lapse_aws::signer::signature;
use lapse_aws::system::SystemClock;
use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::destination::MAX_SECRETS;
use lapse_policy::names::EventId;
use lapse_policy::ports::Clock as _;
use lapse_policy::secret::{InvalidSecret, Secret};
use lapse_policy::timestamp::Timestamp;
use serde_json::{Map, Value, json};

use crate::commands::{answer_lines, print, read_input, say, show, usage};
use crate::jsonl::{self, BadLine};

const EXAMPLES: &str = "\
A secret is never an argument: the list of processes would show it. Several live secrets sign side by side, as they do
while one replaces another.

Examples:
  lapse sign --secret-env WEBHOOK_SECRET --id res_8472:3 --body payload.json
  lapse sign --secret-file new --secret-file old --id res_8472:3 --body payload.json |
    curl -H @- -H 'content-type: application/json' --data-binary @payload.json https://hooks.example.com/x
  lapse sign --jsonl < tests/data/sign.jsonl

Exit codes: 0 signed; 1 a secret is none, or with --jsonl: some line could not be answered; 2 wrong usage.";

/// The last second that an instant can have.
const LAST_SECOND: i64 = Timestamp::FAR_FUTURE.seconds();
/// What a line says of a text that is no secret, and nothing else.
const INVALID_SECRET: &str = "invalid_secret";

/// The command's arguments.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("keys").required(true).multiple(true).args(["variables", "files", "jsonl"]),
)]
pub struct Flags {
    /// The name of an environment variable that holds a secret; may be repeated.
    #[arg(long = "secret-env", value_name = "NAME")]
    variables: Vec<String>,
    /// A file that holds a secret; may be repeated.
    #[arg(long = "secret-file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The event id.
    #[arg(long, value_parser = EventId::parse, required_unless_present = "jsonl")]
    id: Option<EventId>,
    /// Seconds since 1970. Default: now.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = value_parser!(i64).range(0..=LAST_SECOND))]
    timestamp: Option<i64>,
    /// The file with the body; - is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    body: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Taken here to be refused here: clap would repeat it, and it may be a secret.
    #[arg(hide = true)]
    stray: Option<String>,
    /// Answer vectors: one JSON object a line from standard input, one line for each.
    #[arg(long, exclusive = true)]
    jsonl: bool,
}

/// Answers one line.
pub fn answer_line(line: &str) -> Result<String, BadLine> {
    jsonl::answer(line, |row| signed(&row))
}

/// A text that is no secret is an answer, not a bad line: the vectors ask about such.
fn signed(row: &Fields<'_>) -> Result<Map<String, Value>, InvalidDestination> {
    let secrets = row.list("secrets", "strings", Value::as_str)?.unwrap_or_default();
    if !(1..=MAX_SECRETS).contains(&secrets.len()) {
        return Err(row.invalid("secrets", &format!("must have 1 to {MAX_SECRETS} entries")));
    }
    let id = row.required("id", "a string", Value::as_str)?;
    let id = EventId::parse(id).map_err(|bad| row.invalid("id", &bad.to_string()))?;
    let seconds = |value: &Value| value.as_i64().filter(|seconds| (0..=LAST_SECOND).contains(seconds));
    let timestamp = row.required("timestamp", "whole seconds since 1970", seconds)?;
    let body = row.required("body", "a string", Value::as_str)?;
    let (name, value) = match secrets.into_iter().map(Secret::parse).collect::<Result<Vec<_>, _>>() {
        Ok(secrets) => ("signature", signature(&secrets, id.as_str(), timestamp, body.as_bytes())),
        Err(InvalidSecret) => ("error", INVALID_SECRET.to_owned()),
    };
    Ok(Map::from_iter([(name.to_owned(), json!(value))]))
}

/// Runs the command.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    let Some(id) = &flags.id else { return answer_lines(answer_line) };
    if flags.stray.is_some() {
        return Err(usage("sign takes flags alone; a secret comes by --secret-env or --secret-file"));
    }
    let Ok(secrets) = secrets(flags)?.iter().map(|text| Secret::parse(text.trim())).collect::<Result<Vec<_>, _>>()
    else {
        if flags.json {
            print(&json!({ "error": INVALID_SECRET }).to_string())?;
        }
        say(&format!("error: {INVALID_SECRET}: {InvalidSecret}"));
        return Ok(ExitCode::FAILURE);
    };
    let path = &flags.body;
    let body =
        read_input(path).map_err(|error| usage(&format!("--body {}: cannot be read: {error}", path.display())))?;
    let timestamp = flags.timestamp.unwrap_or_else(|| SystemClock.now().seconds());
    let headers = [
        ("webhook-id", id.to_string()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", signature(&secrets, id.as_str(), timestamp, &body)),
    ];
    let object = headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    show(flags.json, &Value::Object(object), &headers.map(|(name, value)| format!("{name}: {value}")))?;
    Ok(ExitCode::SUCCESS)
}

/// What the variables hold, then the files. Errors do not repeat the name: by mistake it may be the secret itself.
fn secrets(flags: &Flags) -> Result<Vec<String>> {
    let variables = flags.variables.iter().map(|name| {
        std::env::var(name).map_err(|_| usage("--secret-env must name a variable that is set; it takes no secret"))
    });
    let files = flags.files.iter().map(|path| {
        std::fs::read_to_string(path)
            .map_err(|error| usage(&format!("--secret-file must name a file with a secret: {}", error.kind())))
    });
    let secrets: Vec<_> = variables.chain(files).collect::<Result<_>>()?;
    if secrets.len() > MAX_SECRETS {
        return Err(usage(&format!("--secret-env and --secret-file may give {MAX_SECRETS} secrets together")));
    }
    Ok(secrets)
}
