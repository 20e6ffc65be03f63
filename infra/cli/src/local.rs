//! `lapse local up|down|status`.
//!
//! Owns: what is said about the stack. Must not: start anything itself; `lapse_local` does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lapse_local::{Options, Progress};
use serde_json::json;

use crate::commands::{print, say};

/// Where the stack that `up` leaves running keeps its record.
#[must_use]
pub fn state(root: &Path) -> PathBuf {
    root.join(".lapse/local")
}

/// Starts it, or reuses what runs.
pub async fn up(root: &Path, port: Option<u16>, as_json: bool) -> Result<ExitCode> {
    let options = Options { port, ..Options::new(root, state(root)) };
    let progress: Progress<'_> = &|line| say(line);
    let stack = lapse_local::up(&options, progress).await?;
    if as_json {
        print(&json!({"endpoint": stack.endpoint, "region": stack.region, "outputs": stack.outputs}).to_string())?;
    } else {
        print(&format!("running at {} in region {}", stack.endpoint, stack.region))?;
        for (name, value) in &stack.outputs {
            // The function URL is a public name; this is the same function on this machine.
            let value = if name == "ReceiverUrl" { stack.receiver_url()? } else { value.clone() };
            print(&format!("  {name:<26} {value}"))?;
        }
        print("")?;
        print("for the AWS CLI and any SDK:")?;
        print(&format!("  export AWS_ENDPOINT_URL={} AWS_REGION={}", stack.endpoint, stack.region))?;
        print("  export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test")?;
        print("stop it with: cargo lapse local down")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops it.
pub async fn down(root: &Path) -> Result<ExitCode> {
    let stopped = lapse_local::down(&state(root)).await?;
    print(if stopped { "stopped" } else { "nothing was running" })?;
    Ok(ExitCode::SUCCESS)
}

/// Says whether it runs.
pub async fn status(root: &Path, as_json: bool) -> Result<ExitCode> {
    let running = lapse_local::status(&state(root)).await?;
    if as_json {
        let (endpoint, outputs) = running.as_ref().map(|state| (&state.endpoint, &state.outputs)).unzip();
        print(&json!({"running": running.is_some(), "endpoint": endpoint, "outputs": outputs}).to_string())?;
    } else {
        let line = running.as_ref().map_or_else(
            || "not running; start it with: cargo lapse local up".to_owned(),
            |state| format!("running at {} (process {})", state.endpoint, state.pid),
        );
        print(&line)?;
    }
    Ok(if running.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
