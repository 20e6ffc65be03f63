//! DynamoDB Local, AWS's own engine, for tests: one Java process per value.
//!
//! Owns: its installation below `.lapse`, its start on a port of 127.0.0.1, and its end together with its owner,
//! however the owner ends.
//! Must not: be part of what is shipped. Its licence is Amazon's own: free to use for development with AWS, not to be
//! passed on nor built into anything. It comes by npm, in a package of the Amplify tools; nothing else of that package
//! is installed, and our start of it names its classes only when it runs.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::guard::Guard;
use crate::install::{Place, hash, short_hash};

/// The package and its version; it holds DynamoDB Local 1.25.1.
const PACKAGE: &str = "amplify-dynamodb-simulator@2.9.30";
/// The file that npm makes of it, and its SHA-256.
const ARCHIVE: (&str, &str) =
    ("amplify-dynamodb-simulator-2.9.30.tgz", "3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9");
/// Where the engine lies in the package.
const ENGINE: &str = "package/emulator";
/// Our start of it.
const LOOPBACK: &str = include_str!("dynamodb_local/Loopback.java");

/// A start takes two seconds; an hour's worth of compiling beside it may make that many.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Where an engine keeps its tables.
#[derive(Debug, Clone)]
pub enum Storage {
    /// They are gone with the engine.
    Memory,
    /// Another engine finds them in this folder.
    Folder(PathBuf),
}

/// The installed engine.
#[derive(Debug, Clone)]
pub struct Installed {
    folder: PathBuf,
}

/// An engine that runs, and ends when this value does.
#[derive(Debug)]
pub struct DynamoDbLocal {
    process: Child,
    guard: Guard,
    port: u16,
}

impl Installed {
    /// Installs the engine below `<root>/.lapse` where it is not there yet. The error is a sentence that says what the
    /// machine lacks.
    pub fn below(root: &Path) -> Result<Self> {
        let version = short_hash(format!("{PACKAGE} {LOOPBACK}").as_bytes());
        let place = Place::of(root, "dynamodb-local", &version);
        place.complete(install)?;
        let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        ensure!(java.is_ok_and(|status| status.success()), "there is no java on the PATH");
        Ok(Self { folder: place.folder })
    }

    /// Starts an engine, on a free port where `None`, and returns when it can be used.
    pub fn start(&self, storage: &Storage, port: Option<u16>) -> Result<DynamoDbLocal> {
        let engine = self.folder.join(ENGINE);
        let mut guard = Guard::start(&self.folder)?;
        let (output, writer) = std::io::pipe().context("cannot make a pipe")?;
        let errors = writer.try_clone().context("cannot make a pipe")?;
        let mut command = Command::new("java");
        command
            // It lives for seconds: a quick start is worth more than quick code.
            .args([
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                "-XX:-UsePerfData",
                "-Djava.net.preferIPv4Stack=true",
            ])
            .arg(format!("-Djava.library.path={}", engine.join("DynamoDBLocal_lib").display()))
            .arg("-classpath")
            .arg(class_path(&self.folder))
            .args(["Loopback", &port.unwrap_or(0).to_string()])
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("DDB_LOCAL_TELEMETRY", "0")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(errors);
        if let Storage::Folder(folder) = storage {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            command.arg(folder);
        }
        let mut process = guard.spawn(&mut command).context("cannot run java")?;
        // The ends of the pipe that the command holds: without them, it ends with the engine.
        drop(command);
        match listening(output) {
            Ok(port) => Ok(DynamoDbLocal { process, guard, port }),
            Err(error) => {
                guard.end(&mut process);
                Err(error)
            }
        }
    }
}

impl DynamoDbLocal {
    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }
}

impl Drop for DynamoDbLocal {
    fn drop(&mut self) {
        self.guard.end(&mut self.process);
    }
}

/// Waits for the engine's port. What it writes later is read too, and dropped: a full pipe would stop it.
fn listening(output: PipeReader) -> Result<u16> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let mut lines = Vec::new();
    loop {
        match told.recv_timeout(READY_WITHIN) {
            Ok(line) => match line.strip_prefix("listening on ").and_then(|port| port.parse().ok()) {
                Some(port) => return Ok(port),
                None => lines.push(line),
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                bail!("DynamoDB Local ended while it started:\n{}", lines.join("\n"))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("DynamoDB Local was not ready within {} s:\n{}", READY_WITHIN.as_secs(), lines.join("\n"))
            }
        }
    }
}

fn class_path(folder: &Path) -> String {
    let engine = folder.join(ENGINE);
    let parts = [folder.to_owned(), engine.join("DynamoDBLocal.jar"), engine.join("DynamoDBLocal_lib/*")];
    parts.map(|part| part.display().to_string()).join(":")
}

fn install(place: &Place) -> Result<()> {
    let folder = &place.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (archive, expected) = ARCHIVE;
    place.run(
        Command::new("npm").args(["pack", "--ignore-scripts", "--loglevel=error", PACKAGE]).current_dir(folder),
        "npm cannot fetch DynamoDB Local",
        "there is no npm on the PATH, by which DynamoDB Local comes",
    )?;
    let archive = folder.join(archive);
    let bytes = fs::read(&archive).with_context(|| format!("npm left no {}", archive.display()))?;
    ensure!(hash(&bytes) == expected, "{PACKAGE} is not the one that was checked: its hash differs");
    place.run(
        Command::new("tar").arg("-xzf").arg(&archive).args(["-C"]).arg(folder).arg(ENGINE),
        "tar cannot unpack DynamoDB Local",
        "there is no tar on the PATH, which unpacks DynamoDB Local",
    )?;
    fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))?;
    let source = folder.join("Loopback.java");
    fs::write(&source, LOOPBACK).with_context(|| format!("cannot write {}", source.display()))?;
    place.run(
        Command::new("javac").arg("-d").arg(folder).arg(&source),
        "javac cannot compile the start of DynamoDB Local; it needs Java 17 or newer",
        "there is no javac on the PATH, which DynamoDB Local needs (on Debian: default-jdk-headless)",
    )
}
