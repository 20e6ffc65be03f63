//! `lapse check`: whether a deployed stack keeps what Lapse promises.
//!
//! Owns: the command, its output and its exit code. Must not: read or judge; the modules below do.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::commands::{say, show};
use crate::deployed::{Deployed, StackFlags};

pub mod contract;
pub mod deployment;
#[cfg(test)]
mod faults;
pub mod finding;
pub mod load;
pub mod reading;
pub mod settings;

use contract::Contract;
use finding::{Severity, count, report};

const EXAMPLES: &str = "\
Examples:
  lapse check --local            the stack of `lapse local up`
  lapse check --stack staging    a stack on AWS
  lapse check --json             one JSON object

It only reads. Exit codes: 0 no errors (there may be warnings); 1 an error was found, or it failed; 2 wrong usage;
130 interrupted.";

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    #[command(flatten)]
    stack: StackFlags,
}

/// Reads the stack, judges it and tells.
pub async fn run(flags: &Flags) -> Result<ExitCode> {
    let contract = Contract::built_in()?;
    let deployed = Deployed::find(&flags.stack).await?;
    say(&format!("reading the stack {}", deployed.name));
    let deployment = reading::read(&deployed, &contract, flags.stack.local).await;
    let mut findings = settings::judge(&deployment, &contract);
    findings.extend(load::judge(&deployment, &contract));
    // The sort is stable: within a severity, in the order of the judges.
    findings.sort_by_key(|finding| finding.severity);
    let errors = count(&findings, Severity::Error);
    let object = json!({
        "stack": deployed.name,
        "findings": findings,
        "errors": errors,
        "warnings": count(&findings, Severity::Warning),
        "not_checked": count(&findings, Severity::NotChecked),
    });
    show(flags.stack.json, &object, &report(&findings))?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
