//! The emulator's process.
//!
//! Owns: its start on a free port of 127.0.0.1 with an environment of its own, the wait until it
//! is ready, and its end together with all functions, however the owner ends.
//! Must not: know what is deployed to it.

use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::guard::Guard;
use crate::http::Http;
use crate::processes::MARK;
use crate::{Options, REGION, tail};

/// A start takes a second; an hour's worth of compiling beside it may make that a few.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How often a port that was free a moment ago may be taken by another before we give up.
const PORTS_TRIED: usize = 3;

/// An emulator that runs, and ends when this value does.
#[derive(Debug)]
pub(crate) struct Emulator {
    process: Child,
    guard: Guard,
    scratch: PathBuf,
    kept: bool,
    /// The port it listens on.
    pub(crate) port: u16,
    /// What all of its processes carry in their environment.
    pub(crate) mark: String,
}

impl Emulator {
    /// Starts one and waits until it is ready.
    pub(crate) async fn start(options: &Options, python: &Path) -> Result<Self> {
        for _ in 0..PORTS_TRIED {
            let port = free_port(options.port)?;
            let mut emulator = Self::spawn(options, python, port)?;
            if emulator.becomes_ready(&options.state).await? {
                return Ok(emulator);
            }
        }
        bail!("other programs took every port that the local stack tried; try again, or ask for a port")
    }

    /// Its address.
    pub(crate) fn endpoint(&self) -> String {
        endpoint(self.port)
    }

    /// The emulator's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The process group of the emulator and its functions.
    pub(crate) fn group(&self) -> u32 {
        self.guard.group()
    }

    /// Lets it run on after this process, until `lapse local down`.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.guard.let_go()?;
        self.kept = true;
        Ok(())
    }

    fn spawn(options: &Options, python: &Path, port: u16) -> Result<Self> {
        // The emulator unpacks code here; what an earlier one left is of no use.
        let scratch = options.state.join("tmp");
        remove(&scratch)?;
        fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        let log = log_file(&options.state);
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
        let mut guard = Guard::start(&options.state)?;
        let mark = fresh_mark();
        let mut command = Command::new(python);
        command
            .args(["-m", "ministack"])
            .env_clear()
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", &scratch)
            .env("TMPDIR", &scratch)
            .env("STATE_DIR", scratch.join("state"))
            .env("S3_DATA_DIR", scratch.join("s3"))
            .env("BIND_HOST", Ipv4Addr::LOCALHOST.to_string())
            .env("MINISTACK_HOST", Ipv4Addr::LOCALHOST.to_string())
            .env("GATEWAY_PORT", port.to_string())
            .env("AWS_ENDPOINT_URL", endpoint(port))
            .env("MINISTACK_REGION", REGION)
            // Off, so that one port is all it opens. There is no container engine to look for.
            .env("IOT_MTLS_ENABLED", "0")
            .env("SFTP_ENABLED", "0")
            .env("LAMBDA_EXECUTOR", "local")
            .env("DOCKER_HOST", "unix:///nonexistent")
            .env(MARK, &mark)
            .current_dir(&scratch)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let process = guard
            .spawn(&mut command)
            .with_context(|| format!("cannot run {}; remove it and try again", python.display()))?;
        Ok(Self { process, guard, scratch, kept: false, port, mark })
    }

    /// `false` where another program took the port in the moment between choosing and using it.
    async fn becomes_ready(&mut self, state: &Path) -> Result<bool> {
        let http = Http::new(&self.endpoint())?;
        let until = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = self.process.try_wait().context("cannot watch the emulator")? {
                if is_taken(self.port) {
                    return Ok(false);
                }
                let log = log_file(state);
                bail!(
                    "the emulator ended while it started ({status}; all of it is in {}):\n{}",
                    log.display(),
                    tail(&log)
                );
            }
            // Who answers may be another emulator on the same port: only ours has our mark.
            if is_ours(&http, &self.mark).await && http.ready().await {
                return Ok(true);
            }
            ensure!(
                Instant::now() < until,
                "the emulator was not ready within {} s; see {}",
                READY_WITHIN.as_secs(),
                log_file(state).display()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.guard.end(&mut self.process);
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Whether the emulator behind `http` carries `mark`.
pub(crate) async fn is_ours(http: &Http, mark: &str) -> bool {
    http.health().await.is_ok_and(|health| health["edition"] == mark)
}

/// A mark that no other stack of this machine carries.
#[expect(clippy::disallowed_methods, reason = "no rule depends on it: it only has to differ")]
fn fresh_mark() -> String {
    format!("lapse-{:016x}", fastrand::u64(..))
}

/// Where the emulator writes what it does.
pub(crate) fn log_file(state: &Path) -> PathBuf {
    state.join("ministack.log")
}

fn endpoint(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}

/// The asked port if it is free, else one that the system picks.
fn free_port(asked: Option<u16>) -> Result<u16> {
    match (TcpListener::bind((Ipv4Addr::LOCALHOST, asked.unwrap_or(0))), asked) {
        (Ok(listener), _) => Ok(listener.local_addr().context("cannot find a free port")?.port()),
        (Err(error), Some(port)) if error.kind() == ErrorKind::AddrInUse => {
            bail!("port {port} is taken by another program; ask for another one, or for none to get a free one")
        }
        (Err(error), _) => Err(error).context("cannot listen on 127.0.0.1"),
    }
}

fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_was_asked_for_and_is_taken_is_named() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        let error = free_port(Some(port)).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} is taken")), "{error}");
        assert!(is_taken(port));
        assert_ne!(free_port(None).unwrap(), port);
    }
}
