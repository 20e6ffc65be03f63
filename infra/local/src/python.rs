//! The Python environment that the emulator runs in.
//!
//! Owns: making it once per set of pinned packages, whoever asks first, and a clear sentence where
//! there is no Python that can.
//! Must not: touch the machine's own Python packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::Progress;
use crate::install::{Place, short_hash};

/// The emulator and all that it needs, at exact versions.
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// Makes the environment below `<root>/.lapse` where it is not there yet.
/// Returns its Python interpreter.
pub(crate) async fn interpreter(root: &Path, progress: Progress<'_>) -> Result<PathBuf> {
    let place = Place::of(root, "venv", &short_hash(REQUIREMENTS.as_bytes()));
    let python = place.folder.join("bin/python");
    if !place.is_complete() {
        progress("installing the emulator (once; needs the Python package index)");
        tokio::task::spawn_blocking(move || place.complete(make)).await??;
    }
    Ok(python)
}

fn make(place: &Place) -> Result<()> {
    const ABSENT: &str = "the local stack needs python3, and there is none on the PATH; install Python 3.10 or newer with its venv module";
    let requirements = place.folder.with_extension("txt");
    fs::write(&requirements, REQUIREMENTS).with_context(|| format!("cannot write {}", requirements.display()))?;
    place.run(
        Command::new("python3").args(["-m", "venv"]).arg(&place.folder),
        "python3 cannot make a virtual environment for the emulator; install Python 3.10 or newer with its venv module (on Debian: python3-venv)",
        ABSENT,
    )?;
    place.run(
        Command::new(place.folder.join("bin/python"))
            .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement"])
            .arg(&requirements),
        "pip cannot install the emulator; check the connection to the Python package index and try again",
        ABSENT,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version_and_comes_from_the_configured_index() {
        let lines: Vec<_> = REQUIREMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        for line in &lines {
            assert!(
                line.split_once("==").is_some_and(|(name, version)| !name.is_empty() && !version.is_empty()),
                "{line}: write name==version"
            );
            assert!(!line.contains("://") && !line.starts_with('-'), "{line}: name no index");
        }
        for package in ["ministack==1.5.33", "aws-sam-translator==1.115.0"] {
            assert!(lines.contains(&package), "{package}");
        }
    }
}
