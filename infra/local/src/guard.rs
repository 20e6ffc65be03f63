//! The end of what this process has started, however this process ends.
//!
//! Owns: a small shell that leads a process group and waits on a pipe from the owner. When the pipe closes without a
//! word, because the owner was interrupted, panicked or was killed, the guard ends the group. So there is no signal
//! handler, and none is needed.
//! Must not: know what runs in the group.

use std::env;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::processes::end_group;

/// What the guard does. It ignores the signal that it sends to its own group.
const GUARD: &str = r#"trap '' TERM INT HUP
read -r word
[ "$word" = keep ] && exit 0
kill -TERM -$$
sleep 3
kill -KILL -$$"#;

/// A guard, and the group that it leads.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts one with `directory` as its working directory.
    pub(crate) fn start(directory: &Path) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", GUARD])
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run sh, which the local stack needs")?;
        Ok(Self { shell })
    }

    /// The group's id.
    pub(crate) fn group(&self) -> u32 {
        self.shell.id()
    }

    /// Starts `command` in the group.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> std::io::Result<Child> {
        let started = command.process_group(self.group().cast_signed()).spawn();
        if started.is_err() {
            // There is no one to end but the guard itself.
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
        started
    }

    /// Lets the group run on after this process.
    pub(crate) fn let_go(&mut self) -> Result<()> {
        const GONE: &str = "the guard of the local stack has ended";
        let mut pipe = self.shell.stdin.take().context(GONE)?;
        pipe.write_all(b"keep\n").context(GONE)?;
        self.shell.wait().context("cannot wait for the guard of the local stack")?;
        Ok(())
    }

    /// Ends the group, of which `first` is the process that gets time to end by itself.
    pub(crate) fn end(&mut self, first: &mut Child) {
        end_group(self.group(), first);
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_ends_when_its_owner_goes_without_a_word() {
        let mut guard = Guard::start(Path::new(".")).unwrap();
        let mut sleeper = guard.spawn(Command::new("sleep").arg("60")).unwrap();
        // What the system does with the pipe of a process that was killed.
        drop(guard.shell.stdin.take());
        assert!(!sleeper.wait().unwrap().success(), "it was ended");
        guard.end(&mut sleeper);
    }

    #[test]
    fn a_group_that_was_let_go_runs_on() {
        let mut guard = Guard::start(Path::new(".")).unwrap();
        let mut sleeper = guard.spawn(Command::new("sleep").arg("60")).unwrap();
        guard.let_go().unwrap();
        assert!(matches!(sleeper.try_wait(), Ok(None)));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
