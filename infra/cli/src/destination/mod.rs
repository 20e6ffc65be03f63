//! `lapse destination`: who gets webhooks, and within which limits.
//!
//! Owns: the subcommands and what is said. Must not: know attributes (`rows`), nor rules of pauses (the policy's).

mod change;
mod pauses;
mod ping;
pub(crate) mod rows;
mod secrets;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use lapse_policy::names::DestinationName;
use serde_json::{Value, json};

use crate::commands::{print, say, show, usage};
use crate::deployed::{Deployed, StackFlags};
use rows::Rows;

const EXAMPLES: &str = "\
Examples:
  lapse destination put catalog --url https://catalog.example.com/hook --generate-secret
  lapse destination limit catalog --rate 50 --burst 10
  lapse destination pause catalog --until +1h
  lapse destination rotate-secret catalog
  lapse destination test catalog

A change takes hold within 30 s. Secrets are never shown; each has a
fingerprint, the start of its SHA-256.";

/// What is done with destinations.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum Destination {
    /// Create one, or change the fields that are given.
    Put(PutFlags),
    /// Show one: its row and its pause.
    Get(NameFlags),
    /// Show all, one a line.
    List(ListFlags),
    /// Send nothing to it for a while. Nothing is lost meanwhile; deadlines pass.
    Pause(PauseFlags),
    /// Lift its pause.
    Resume(NameFlags),
    /// Set or remove its limits.
    Limit(LimitFlags),
    /// Add a new secret beside the old one, or with --finish drop the old one.
    RotateSecret(RotateFlags),
    /// Send it one signed ping from this machine and show what would be done after its answer.
    Test(TestFlags),
}

/// Which one.
#[derive(Debug, Args)]
pub struct NameFlags {
    /// Its name: 1 to 64 of [A-Za-z0-9_-].
    name: String,
    #[command(flatten)]
    stack: StackFlags,
}

/// Nothing but the stack.
#[derive(Debug, Args)]
pub struct ListFlags {
    #[command(flatten)]
    stack: StackFlags,
}

/// The fields of `put`.
#[derive(Debug, Args)]
#[command(
    after_help = "Fields that are not given stay as they are; in a file, null removes one. README lists all fields."
)]
pub struct PutFlags {
    #[command(flatten)]
    of: NameFlags,
    /// Fields as a JSON object, from a file or from standard input (-). Flags win over it.
    #[arg(long, value_name = "FILE")]
    file: Option<std::path::PathBuf>,
    /// Where it is: an absolute https URL.
    #[arg(long)]
    url: Option<String>,
    /// A secret, whsec_ and the base64 of 24 to 64 bytes; newest first; may be repeated.
    #[arg(long, value_name = "WHSEC")]
    secret: Vec<String>,
    /// Make a secret. It is printed once.
    #[arg(long, conflicts_with = "secret")]
    generate_secret: bool,
    /// Requests per second, or per so many seconds: 50, 50/60.
    #[arg(long, value_name = "N[/SECONDS]")]
    rate: Option<String>,
    /// Requests at once after a quiet time.
    #[arg(long, requires = "rate")]
    burst: Option<u32>,
    /// Requests at once over all workers.
    #[arg(long)]
    max_in_flight: Option<u32>,
    /// One attempt's time, in milliseconds.
    #[arg(long)]
    timeout_ms: Option<u32>,
    /// The age in seconds at which an event without a deadline ends.
    #[arg(long)]
    max_age: Option<u32>,
    /// A header of its own, "Name: value"; may be repeated; replaces all.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Plain http will do, for local use.
    #[arg(long, value_name = "true|false")]
    allow_http: Option<bool>,
    /// Refuse its events: they become dead letters.
    #[arg(long, value_name = "true|false")]
    disabled: Option<bool>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The fields of `pause`.
#[derive(Debug, Args)]
pub struct PauseFlags {
    #[command(flatten)]
    of: NameFlags,
    /// Until then: an RFC 3339 date-time, or a time from now such as +1h. Without it, until it is resumed.
    #[arg(long)]
    until: Option<String>,
}

/// The fields of `limit`.
#[derive(Debug, Args)]
pub struct LimitFlags {
    #[command(flatten)]
    of: NameFlags,
    /// Requests per second, or per so many seconds: 50, 50/60.
    #[arg(long, value_name = "N[/SECONDS]", required_unless_present_any = ["max_in_flight", "none"])]
    rate: Option<String>,
    /// Requests at once after a quiet time.
    #[arg(long, requires = "rate")]
    burst: Option<u32>,
    /// Requests at once over all workers.
    #[arg(long)]
    max_in_flight: Option<u32>,
    /// Remove both limits.
    #[arg(long, conflicts_with_all = ["rate", "max_in_flight"])]
    none: bool,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The fields of `rotate-secret`.
#[derive(Debug, Args)]
pub struct RotateFlags {
    #[command(flatten)]
    of: NameFlags,
    /// The new secret; one is made and printed once if it is not given.
    #[arg(long, value_name = "WHSEC", conflicts_with = "finish")]
    secret: Option<String>,
    /// The receiver trusts the new one: drop all others.
    #[arg(long)]
    finish: bool,
}

/// The fields of `test`.
#[derive(Debug, Args)]
#[command(
    after_help = "The ping goes out from this machine, not from the functions' network, and is not counted against the limit.
Exit codes: 0 it was delivered; 1 it was not; 2 wrong usage."
)]
pub struct TestFlags {
    #[command(flatten)]
    of: NameFlags,
    /// A range that may be called although it is not public, such as 10.9.0.0/16; may be repeated.
    #[arg(long = "allow-cidr", value_name = "RANGE")]
    ranges: Vec<String>,
}

/// Runs the command.
pub async fn run(command: Destination) -> Result<ExitCode> {
    match command {
        Destination::Put(flags) => {
            let fields = change::of_put(&flags)?;
            store(&flags.of, fields.change, flags.dry_run, fields.made).await
        }
        Destination::Limit(flags) => store(&flags.of, change::of_limit(&flags)?, flags.dry_run, None).await,
        Destination::Get(flags) => get(&flags).await,
        Destination::List(flags) => list(&flags).await,
        Destination::Pause(flags) => pauses::pause(&flags).await,
        Destination::Resume(flags) => pauses::resume(&flags).await,
        Destination::RotateSecret(flags) => secrets::rotate(&flags).await,
        Destination::Test(flags) => ping::run(&flags).await,
    }
}

impl NameFlags {
    fn parse(&self) -> Result<DestinationName> {
        DestinationName::parse(&self.name).map_err(|error| usage(&format!("NAME: {error}")))
    }
}

/// Changes a row: what was given, checked as a whole, and only if nobody else changed the same fields meanwhile.
async fn store(
    of: &NameFlags,
    change: serde_json::Map<String, Value>,
    dry_run: bool,
    made: Option<String>,
) -> Result<ExitCode> {
    let name = of.parse()?;
    let stack = Deployed::find(&of.stack).await?;
    let rows = Rows::of(&stack)?;
    let before = rows.read(&name).await?;
    let after = change::applied(before.as_ref(), &change);
    change::check(&name, &after)?;
    let differences = change::differences(before.as_ref(), &after);
    let unchanged = differences.is_empty();
    if !dry_run && !unchanged {
        rows.write(&name, before.as_ref(), &after).await?;
    }
    let outcome = match (before.is_some(), unchanged, dry_run) {
        (_, true, _) => "nothing changes",
        (true, false, false) => "changed; it takes hold within 30 s",
        (false, false, false) => "created",
        (true, false, true) => "would change",
        (false, false, true) => "would be created",
    };
    let object = json!({
        "destination": name.as_str(), "outcome": outcome, "secret": made,
        "changes": differences.iter().map(|d| json!({"field": d.field, "from": d.from, "to": d.to})).collect::<Vec<_>>(),
    });
    let mut lines = vec![format!("{name}: {outcome}")];
    lines.extend(differences.iter().map(|d| format!("  {}: {} -> {}", d.field, d.from, d.to)));
    lines.extend(made.map(|secret| format!("its secret, shown this once: {secret}")));
    if after.get("rate").is_none_or(Value::is_null) {
        lines.push("It has no rate: it is sent to as fast as events come.".to_owned());
    }
    show(of.stack.json, &object, &lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn get(flags: &NameFlags) -> Result<ExitCode> {
    let name = flags.parse()?;
    let stack = Deployed::find(&flags.stack).await?;
    let Some(row) = Rows::of(&stack)?.read(&name).await? else { bail!("there is no destination {name}") };
    let shown = change::shown(&row);
    let pause = pauses::words(&pauses::read(&stack, &name).await?);
    let problem = change::check(&name, &row).err().map(|error| error.to_string());
    let object = json!({"destination": name.as_str(), "row": shown, "pause": pause, "invalid": problem});
    let mut lines: Vec<_> = shown.iter().map(|(field, value)| format!("{field}: {value}")).collect();
    lines.push(format!("pause: {pause}"));
    lines.extend(problem.map(|problem| format!("INVALID: {problem}: its events die as invalid_destination")));
    show(flags.stack.json, &object, &lines)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(flags: &ListFlags) -> Result<ExitCode> {
    let stack = Deployed::find(&flags.stack).await?;
    let rows = Rows::of(&stack)?.all().await?;
    let mut table = vec![["destination", "rate", "in flight", "state", "url"].map(str::to_owned)];
    for (name, row) in &rows {
        if flags.stack.json {
            print(&json!({"destination": name, "row": change::shown(row)}).to_string())?;
        }
        table.push(change::line(name, row));
    }
    if !flags.stack.json {
        crate::columns::aligned(&table, 5).iter().try_for_each(|line| print(line))?;
        say(&format!("{} destinations", rows.len()));
    }
    Ok(ExitCode::SUCCESS)
}
