//! The local stack: the real functions and the real SAM template, on an emulator of AWS that runs
//! as one process on this machine.
//!
//! Owns: what `lapse local up|down|status`, the demo and the end-to-end tests have in common.
//! Must not: know any rule of delivery, print, or listen on anything but 127.0.0.1.
//!
//! Two ways to have one. [`start`] gives a [`Stack`] that ends with its owner, however the owner
//! ends. [`up`] leaves it running for other commands, until [`down`].

mod binaries;
mod deploy;
pub mod driver;
pub mod dynamodb_local;
mod emulator;
mod function;
mod guard;
mod http;
mod install;
mod mappings;
pub mod partner;
mod processes;
mod python;
mod record;
mod stack;
mod template;

use std::path::{Path, PathBuf};

pub use function::Function;
pub use record::State;
pub use stack::{Stack, down, start, status, up};

/// The region of every local stack.
pub const REGION: &str = "eu-west-1";

/// The secret that the local reference receiver trusts unless a parameter says otherwise. It is
/// public, and good for nothing but trying things out.
pub const LOCAL_SECRET: &str = "whsec_bGFwc2UtbG9jYWwtc3RhY2stbm90LWEtc2VjcmV0";

/// Told what happens, one short line at a time, for a person who waits.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);

/// What to start, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// The workspace's root: where cargo builds and the template lies.
    pub root: PathBuf,
    /// The stack's own directory: its record, logs and temporary files. Two stacks need two.
    pub state: PathBuf,
    /// Parameters of the template. They win over the local defaults: the reference receiver is on
    /// and trusts [`LOCAL_SECRET`], 127.0.0.0/8 may be sent to, and the architecture is this machine's.
    pub parameters: Vec<(String, String)>,
    /// Environment of the emulator, which all functions inherit. Nothing else of the caller's
    /// environment reaches them but `PATH`.
    pub environment: Vec<(String, String)>,
    /// Where cargo's progress goes.
    pub build: Build,
    /// The port to listen on; a free one where `None`.
    pub port: Option<u16>,
}

impl Options {
    /// A stack of the workspace at `root` that keeps its files in `state`: a free port, a loud
    /// build, the local defaults.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            state: state.into(),
            parameters: Vec::new(),
            environment: Vec::new(),
            build: Build::Loud,
            port: None,
        }
    }

    /// Sets one parameter of the template.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// The SAM template that is deployed.
    fn template(&self) -> PathBuf {
        self.root.join("infra/sam/template.yaml")
    }
}

/// Where the output of the build goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// To the caller's terminal.
    Loud,
    /// To `build.log` in the state directory; its end is shown when the build fails.
    Quiet,
}

/// The last lines of a log, for an error that has to tell why something else failed.
fn tail(path: &Path) -> String {
    const LINES: usize = 15;
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
