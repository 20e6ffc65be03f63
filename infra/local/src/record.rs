//! The record of a stack that runs on after the command that started it: `stack.json`.
//!
//! Owns: its form and its file, and the lock that keeps two commands out of one state directory.
//! Must not: judge whether the stack still runs.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// A stack that [`crate::up`] left running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The emulator's process.
    pub pid: u32,
    /// The process group of the emulator and its functions.
    pub pgid: u32,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// `http://127.0.0.1:PORT`
    pub endpoint: String,
    /// The template's outputs.
    pub outputs: BTreeMap<String, String>,
    /// Carried by all of its processes, and by no others.
    pub mark: String,
}

impl State {
    fn file(state: &Path) -> PathBuf {
        state.join("stack.json")
    }

    /// The record in a state directory; `None` where there is none.
    pub(crate) fn read(state: &Path) -> Result<Option<Self>> {
        let file = Self::file(state);
        match fs::read(&file) {
            Ok(text) => Self::parse(&text).map(Some).with_context(|| {
                format!("{} is no record of a local stack; remove it, and end a `ministack` process that still runs by hand", file.display())
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn parse(text: &[u8]) -> Result<Self> {
        Ok(serde_json::from_slice(text)?)
    }

    /// Writes the record: whole or not at all.
    pub(crate) fn write(&self, state: &Path) -> Result<()> {
        let file = Self::file(state);
        let draft = state.join("stack.json.new");
        fs::write(&draft, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&draft, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Removes the record, if there is one.
    pub(crate) fn remove(state: &Path) -> Result<()> {
        let file = Self::file(state);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", file.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Makes the state directory and takes its lock, which ends with the file that is returned, or
/// with this process.
pub(crate) fn lock(state: &Path) -> Result<File> {
    fs::create_dir_all(state).with_context(|| format!("cannot make the state directory {}", state.display()))?;
    let path = state.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "another command is using the local stack in {}; wait for its end, or use another state directory",
                state.display()
            )
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            pid: 4711,
            pgid: 4710,
            port: 40_123,
            endpoint: "http://127.0.0.1:40123".into(),
            outputs: [("DeliveriesQueueUrl".to_owned(), "http://127.0.0.1:40123/0/lapse-deliveries".to_owned())].into(),
            mark: "lapse-1".into(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_gone_once_removed() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), None);
        state().write(directory.path()).unwrap();
        assert_eq!(State::read(directory.path()).unwrap(), Some(state()));
        for _ in 0..2 {
            State::remove(directory.path()).unwrap();
            assert_eq!(State::read(directory.path()).unwrap(), None);
        }
    }

    #[test]
    fn a_file_that_is_no_record_is_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("stack.json"), "{\"pid\": -1}").unwrap();
        let error = State::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("stack.json is no record"), "{error}");
    }

    #[test]
    fn a_state_directory_has_one_user_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path()).unwrap();
        let error = lock(directory.path()).unwrap_err().to_string();
        assert!(error.contains("another command"), "{error}");
        drop(held);
        lock(directory.path()).unwrap();
    }
}
