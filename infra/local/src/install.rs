//! Installing third-party programs below `.lapse`, each once.
//!
//! Owns: the lock between those who find one missing, the mark of a complete one, and commands whose output is kept.
//! Must not: know the programs, or touch what the machine has installed itself.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::tail;

/// Written last: a folder without it was interrupted while it was made.
const COMPLETE: &str = ".complete";

/// Where one program goes.
#[derive(Debug)]
pub(crate) struct Place {
    home: PathBuf,
    name: String,
    /// The program's folder, made by who installs it.
    pub(crate) folder: PathBuf,
    /// Where the commands write what they do.
    pub(crate) log: PathBuf,
}

impl Place {
    /// Below `<root>/.lapse`, a folder for exactly this version.
    pub(crate) fn of(root: &Path, name: &str, version: &str) -> Self {
        let home = root.join(".lapse");
        let folder = home.join(format!("{name}-{version}"));
        Self { log: home.join(format!("{name}.log")), name: name.to_owned(), home, folder }
    }

    /// Whether it is installed.
    pub(crate) fn is_complete(&self) -> bool {
        self.folder.join(COMPLETE).exists()
    }

    /// Lets `install` make the folder if it is not there yet.
    pub(crate) fn complete(&self, install: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let (home, folder, name) = (&self.home, &self.folder, &self.name);
        if self.is_complete() {
            return Ok(());
        }
        fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
        // Two commands may find it missing at once. The lock ends with this process, however it ends.
        let lock = File::create(home.join(format!("{name}.lock")))
            .with_context(|| format!("cannot make the lock of the installation of {name}"))?;
        lock.lock().with_context(|| format!("cannot lock the installation of {name}"))?;
        if self.is_complete() {
            return Ok(());
        }
        // It cannot be made elsewhere and renamed: a virtual environment names its place.
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot remove the unfinished {}", folder.display()))?;
        }
        install(self)?;
        fs::write(folder.join(COMPLETE), "").with_context(|| format!("cannot finish the installation of {name}"))
    }

    /// Runs a command with its output in the log. `failed` is the sentence for when it does not succeed, `absent` the
    /// one for when there is no such program.
    pub(crate) fn run(&self, command: &mut Command, failed: &str, absent: &str) -> Result<()> {
        let log = &self.log;
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone().with_context(|| format!("cannot write {}", log.display()))?;
        match command.stdin(Stdio::null()).stdout(out).stderr(err).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => bail!("{failed} ({status}; all of it is in {}):\n{}", log.display(), tail(log)),
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("{absent}"),
            Err(error) => Err(error).context(failed.to_owned()),
        }
    }
}

/// A SHA-256 in hex digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The first twelve hex digits of a SHA-256: enough to tell versions of one thing apart.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    let mut hex = hash(bytes);
    hex.truncate(12);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_short_and_depends_on_every_byte() {
        assert_eq!(short_hash(b""), "e3b0c44298fc");
        assert_ne!(short_hash(b"a==1"), short_hash(b"a==2"));
    }

    #[test]
    fn what_is_complete_is_not_installed_again_and_what_is_not_is() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::of(root.path(), "thing", "1");
        let mut made = 0;
        assert!(
            place
                .complete(|place| fs::create_dir(&place.folder).map_err(Into::into).and(Err(anyhow::anyhow!("no"))))
                .is_err()
        );
        for _ in 0..2 {
            let made = &mut made;
            place
                .complete(|place| {
                    *made += 1;
                    Ok(fs::create_dir(&place.folder)?)
                })
                .unwrap();
        }
        assert_eq!(made, 1);
        let absent = place.run(&mut Command::new("no-such-program"), "it fails", "it is not there").unwrap_err();
        assert_eq!(absent.to_string(), "it is not there");
        let failed = place.run(Command::new("sh").args(["-c", "echo why; exit 3"]), "it fails", "").unwrap_err();
        assert!(failed.to_string().starts_with("it fails") && failed.to_string().ends_with("why"), "{failed}");
    }
}
