//! A DynamoDB engine in a process of its own, so that its CPU time is not the measurement's.
//!
//! Owns: the process from its start to its end, both sides. Must not: listen on anything but 127.0.0.1, or outlive
//! its owner: it ends when the pipe from the owner closes, however the owner ends.

use std::io::Read as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The hidden command of `perf` that runs the engine.
pub const COMMAND: &str = "serve-dynoxide";

/// The engine's process.
#[derive(Debug)]
pub struct DynoxideProcess {
    /// Ends with this value: its pipe closes, and it is killed.
    _process: Child,
    /// Where it listens.
    pub endpoint: String,
}

impl DynoxideProcess {
    /// Starts an empty one. `perf` is the command's binary.
    pub async fn start(perf: &Path) -> Result<Self> {
        let mut process = Command::new(perf)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", perf.display()))?;
        let out = process.stdout.take().context("the engine's process has no output")?;
        let endpoint = BufReader::new(out).lines().next_line().await?.context("the engine ended at once")?;
        Ok(Self { _process: process, endpoint })
    }
}

/// Serves an empty engine: tells its address, then runs until standard input ends.
pub async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    super::report::print(&format!("http://{}", listener.local_addr()?))?;
    let database = dynoxide::Database::memory().context("the engine does not start")?;
    // A read that nothing answers would keep the runtime from ending: it has a thread of its own.
    let (owner_gone, gone) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = owner_gone.send(());
    });
    tokio::select! {
        () = dynoxide::server::serve_on(listener, database) => {}
        _ = gone => {}
    }
    Ok(())
}
