//! The machine that a measurement ran on: numbers of two machines are not compared unawares.
//!
//! Owns: naming it. Must not: fail; what cannot be told is "unknown".

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

use serde::Serialize;

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// What the process may use.
    pub cores: usize,
    /// The processor's model.
    pub cpu: String,
    /// The system and its kernel.
    pub os: String,
    /// The compiler on the path: with cargo's alias, the one that built this.
    pub rustc: String,
    /// How it was built.
    pub build: &'static str,
    /// Processes that wanted a core, on average over the last minute: much above what the measurement uses, others
    /// were busy beside it.
    pub load_1m: Option<f64>,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn look() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cores: thread::available_parallelism().map_or(1, Into::into),
            cpu: value("/proc/cpuinfo", "model name", ':').unwrap_or_else(unknown),
            os: format!("{}, {}", system(), kernel().unwrap_or_else(unknown)),
            rustc: rustc().unwrap_or_else(unknown),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            load_1m: load(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, cpu, os, rustc, build, load_1m } = self;
        write!(f, "{cores} cores of {cpu}; {os}; {rustc}; {build} build")?;
        load_1m.map_or(Ok(()), |load| write!(f, "; load {load}"))
    }
}

fn system() -> String {
    let pretty = value("/etc/os-release", "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned());
    pretty.unwrap_or_else(|| std::env::consts::OS.to_owned())
}

fn kernel() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| format!("kernel {}", text.trim()))
}

fn rustc() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|version| !version.is_empty())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The first value of a key in a file of lines.
fn value(path: &str, key: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}
