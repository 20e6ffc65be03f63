//! The Python environment that the emulator runs in.
//!
//! Owns: making it once per set of pinned packages, whoever asks first, and a clear sentence where
//! there is no Python that can.
//! Must not: touch the machine's own Python packages.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::{Progress, tail};

/// The emulator and all that it needs, at exact versions.
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// Written last: an environment without it was interrupted while it was made.
const COMPLETE: &str = ".complete";

/// Makes the environment below `<root>/.lapse` where it is not there yet.
/// Returns its Python interpreter.
pub(crate) async fn interpreter(root: &Path, progress: Progress<'_>) -> Result<PathBuf> {
    let home = root.join(".lapse");
    let venv = home.join(format!("venv-{}", short_hash(REQUIREMENTS.as_bytes())));
    let python = venv.join("bin/python");
    if venv.join(COMPLETE).exists() {
        return Ok(python);
    }
    progress("installing the emulator (once; needs the Python package index)");
    tokio::task::spawn_blocking(move || make(&home, &venv)).await??;
    Ok(python)
}

/// The first twelve hex digits of a SHA-256: enough to tell versions of one thing apart.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().take(6).fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn make(home: &Path, venv: &Path) -> Result<()> {
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    // Two commands may find it missing at once. The lock ends with this process, however it ends.
    let lock = File::create(home.join("venv.lock")).context("cannot make the lock of the emulator's installation")?;
    lock.lock().context("cannot lock the emulator's installation")?;
    if venv.join(COMPLETE).exists() {
        return Ok(());
    }
    // It cannot be made elsewhere and renamed: scripts in it name its place.
    if venv.exists() {
        fs::remove_dir_all(venv).with_context(|| format!("cannot remove the unfinished {}", venv.display()))?;
    }
    let log = home.join("venv.log");
    let requirements = home.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).with_context(|| format!("cannot write {}", requirements.display()))?;
    run(
        Command::new("python3").args(["-m", "venv"]).arg(venv),
        &log,
        "python3 cannot make a virtual environment for the emulator; install Python 3.10 or newer with its venv module (on Debian: python3-venv)",
    )?;
    run(
        Command::new(venv.join("bin/python"))
            .args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--requirement"])
            .arg(&requirements),
        &log,
        "pip cannot install the emulator; check the connection to the Python package index and try again",
    )?;
    fs::write(venv.join(COMPLETE), "").context("cannot finish the emulator's installation")
}

/// Runs a command with its output in `log`; `failed` is the sentence for when it cannot.
fn run(command: &mut Command, log: &Path, failed: &str) -> Result<()> {
    let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let err = out.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
    match command.stdin(Stdio::null()).stdout(out).stderr(err).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{failed} ({status}; all of it is in {}):\n{}", log.display(), tail(log)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "the local stack needs python3, and there is none on the PATH; install Python 3.10 or newer with its venv module"
            )
        }
        Err(error) => Err(error).context(failed.to_owned()),
    }
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

    #[test]
    fn a_hash_is_short_and_depends_on_every_byte() {
        assert_eq!(short_hash(b""), "e3b0c44298fc");
        assert_ne!(short_hash(b"a==1"), short_hash(b"a==2"));
    }
}
