//! LIM-7, DST-2: a person's pause of a destination, and its end.
//!
//! Owns: writing it with the policy's own values, so that planned times move along. Must not: know attributes; the
//! adapter does.

use std::process::ExitCode;

use anyhow::{Result, bail};
use lapse_aws::limits::DynamoLimits;
use lapse_aws::system::SystemClock;
use lapse_policy::clock::{Clocks, Write};
use lapse_policy::names::DestinationName;
use lapse_policy::pause::Pause;
use lapse_policy::ports::{Clock as _, ClockAnswer, Limits as _};
use lapse_policy::timestamp::Timestamp;
use serde_json::json;

use super::{NameFlags, PauseFlags};
use crate::commands::{show, usage};
use crate::deployed::Deployed;
use crate::span::When;

/// A pause is written on the condition that it is as it was read: so often, where others write too.
const TRIES: usize = 5;

fn limits(stack: &Deployed) -> Result<DynamoLimits> {
    Ok(DynamoLimits::new(stack.dynamodb(), stack.output("LimitsTableName")?.to_owned()))
}

/// A destination's clocks.
pub(super) async fn read(stack: &Deployed, name: &DestinationName) -> Result<Clocks> {
    Ok(limits(stack)?.read(name).await?)
}

/// The pause in words.
#[must_use]
pub(super) fn words(clocks: &Clocks) -> String {
    match clocks.paused(SystemClock.now()) {
        None => "none".to_owned(),
        Some(Timestamp::FAR_FUTURE) => "until it is resumed".to_owned(),
        Some(until) => format!("until {until}"),
    }
}

/// Pauses it.
pub(super) async fn pause(flags: &PauseFlags) -> Result<ExitCode> {
    let until = match &flags.until {
        None => Timestamp::FAR_FUTURE,
        Some(text) => When::parse(text).map_err(|e| usage(&format!("--until {e}")))?.seen_from(SystemClock.now()),
    };
    if until <= SystemClock.now() {
        return Err(usage("--until must be in the future"));
    }
    change(&flags.of, |pause, now| pause.raised(until, now)).await
}

/// Lifts its pause.
pub(super) async fn resume(flags: &NameFlags) -> Result<ExitCode> {
    change(flags, Pause::lifted).await
}

async fn change(of: &NameFlags, change: impl Fn(Pause, Timestamp) -> Pause) -> Result<ExitCode> {
    let name = of.parse()?;
    let stack = Deployed::find(&of.stack).await?;
    // A pause for a name that nobody has would wait for whoever gets it.
    if super::Rows::of(&stack)?.read(&name).await?.is_none() {
        bail!("there is no destination {name}");
    }
    let limits = limits(&stack)?;
    let mut clocks = limits.read(&name).await?;
    let before = words(&clocks);
    for _ in 0..TRIES {
        let to = change(clocks.pause, SystemClock.now());
        if to == clocks.pause {
            return told(of, &name, &before, &clocks, "is as it was");
        }
        match limits.write(&name, &Write::Pause { from: clocks.pause, to }).await? {
            ClockAnswer::Done(after) => return told(of, &name, &before, &after, "changed"),
            ClockAnswer::Refused(meanwhile) => clocks = meanwhile,
        }
    }
    bail!("{name} is being throttled and paused by its own answers at the same time; try again")
}

fn told(of: &NameFlags, name: &DestinationName, before: &str, clocks: &Clocks, what: &str) -> Result<ExitCode> {
    let now = words(clocks);
    let mut lines = vec![format!("{name}: its pause {what}: {before} -> {now}")];
    if what != "changed" && now != "none" {
        lines.push("A pause is only ever made longer; resume it to end it.".to_owned());
    }
    show(of.stack.json, &json!({"destination": name.as_str(), "from": before, "to": now}), &lines)?;
    Ok(ExitCode::SUCCESS)
}
