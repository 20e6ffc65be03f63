//! `lapse demo`: the main job on a local stack of its own, with faults, and the proof of what came of it.
//!
//! Owns: the order of the play. Must not: judge by its own bookkeeping alone: the receiver and the partners count for
//! themselves, and the proof compares.

pub mod cast;
pub mod evidence;
pub mod proof;
pub mod stage;
pub mod table;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lapse_local::{Build, Function, Options};

use crate::commands::{print, say};
use cast::Cast;
use evidence::Evidence;
use stage::{Screen, Stage};

/// How long the play may take once everything is on its way.
const PATIENCE: Duration = Duration::from_secs(150);

/// The stack's files. They are removed at the end, an interruption too, unless the proof did not hold.
struct Scratch {
    folder: PathBuf,
    keep: Cell<bool>,
}

impl Scratch {
    fn new(folder: PathBuf) -> Self {
        Self { folder, keep: Cell::new(false) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep.get() {
            // Only logs and temporary files are in it.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Plays the demo; exit code 1 if a proof line does not hold.
pub async fn run(root: &Path, json: bool) -> Result<ExitCode> {
    let scratch = Scratch::new(root.join(format!(".lapse/demo-{}", std::process::id())));
    let options = Options { build: Build::Loud, ..Options::new(root, &scratch.folder) };
    let stack = lapse_local::start(&options, &|line| say(line)).await.context("the local stack did not start")?;
    let began = Instant::now();
    let cast = Cast::new(&stack)?;
    let stage = Stage::new(&stack, &cast);

    say("40 holds are taken; 6 of them are paid, 3 of these cancel their event");
    stage.take_holds().await?;
    stage.pay_early().await?;
    say("expiry ticks: due events go out with a delay to the second");
    stack.invoke(Function::Expiry, "{}").await.context("expiry failed")?;
    say("4 more are paid while their events are on the way; 5 events are published twice");
    stage.pay_late().await?;
    stage.publish_twice().await?;
    say("partners get 60, 3, 2 and 1 events at once; one limits, one fails, one refuses, one never answers");
    stage.send_to_partners().await?;

    let screen = Screen::new(&cast);
    let finished = stage.watch(&screen, PATIENCE).await?;
    screen.finish();
    if !finished {
        say("not everything came to an end in time; the proof says what is missing");
    }
    let evidence = Evidence::gather(&stack, &cast, began.elapsed()).await?;
    let proof = proof::of(&evidence);
    table::print(&evidence)?;
    for line in &proof.lines {
        print(&line.to_string())?;
    }
    let failed = !proof.holds();
    if failed {
        scratch.keep.set(true);
        print(&format!("The proof does not hold. Logs of this run: {}", scratch.folder.display()))?;
    } else {
        print(
            "Where to look next: README.md (send your own events), ARCHITECTURE.md (the rules), cargo lapse local up",
        )?;
    }
    stack.stop().await?;
    if json {
        print(&proof.json(&evidence).to_string())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
