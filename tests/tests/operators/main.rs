//! What an operator does with the `lapse` command on a running stack, and what the functions make of it.
//!
//! Owns: one stack for all tests of this binary, and running the real command against it. Must not: test the functions.

mod check;
mod dead;
mod destinations;
mod events;

use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use lapse_tests::ground::{Ground, Shared};
use serde_json::Value;

static STACK: LazyLock<Shared> = LazyLock::new(|| Shared::start("operators"));

/// Runs a test on the stack.
fn play(test: impl AsyncFnOnce(&Ground) -> Result<()>) -> Result<()> {
    STACK.play(test)
}

/// What a run of the command printed, and its exit code.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// The JSON object that it printed; it ended well.
    fn object(&self) -> Result<Value> {
        ensure!(self.code == 0, "it ended with {}: {}", self.code, self.err);
        serde_json::from_str(&self.out).with_context(|| format!("no JSON: {}", self.out))
    }
}

/// Runs `lapse` as the stack's own `cargo build` made it.
fn lapse(ground: &Ground, arguments: &[&str]) -> Result<Ran> {
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_sim")).with_file_name("lapse");
    let output = Command::new(&beside)
        .args(arguments)
        .args(["--endpoint-url", &ground.stack.endpoint, "--region", &ground.stack.region])
        .envs([("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")])
        .output()
        .with_context(|| format!("cannot run {}", beside.display()))?;
    let text = |bytes| String::from_utf8(bytes).context("UTF-8");
    let code = output.status.code().context("it ended by a signal")?;
    Ok(Ran { code, out: text(output.stdout)?, err: text(output.stderr)? })
}
