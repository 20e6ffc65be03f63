//! The operating system's processes that belong to a stack.
//!
//! Owns: telling them from all others by the mark in their environment, which the emulator's
//! functions inherit, and ending them.
//! Must not: end anything that does not carry the mark. A process id alone proves nothing: ids are
//! used again.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group};

/// The variable that carries a stack's mark. The emulator shows its value in its health report.
pub(crate) const MARK: &str = "MINISTACK_EDITION";

/// How long the emulator gets to end by itself.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The live processes whose environment has all of `variables`, by id. Empty on systems without
/// `/proc`.
pub(crate) fn with_environment(variables: &[(&str, &str)]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let wanted: Vec<Vec<u8>> = variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            // A process that has ended, and one of another user, has nothing to read.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let set: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
            wanted.iter().all(|variable| set.contains(&variable.as_slice()))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Ends an emulator of ours and its functions: asks the group, waits, then insists.
pub(crate) fn end_group(group: u32, emulator: &mut Child) {
    signal_group(group, Signal::TERM);
    let until = Instant::now() + GRACE;
    while Instant::now() < until && matches!(emulator.try_wait(), Ok(None)) {
        thread::sleep(Duration::from_millis(20));
    }
    // The emulator leaves its functions behind; they end here.
    signal_group(group, Signal::KILL);
    let _ = emulator.wait();
}

/// Ends every process that carries `mark`: those of a stack whose owner is another command, or
/// gone. Returns whether there was one.
pub(crate) fn end_marked(mark: &str) -> bool {
    let marked = || with_environment(&[(MARK, mark)]);
    let found = marked();
    for pid in &found {
        signal(*pid, Signal::TERM);
    }
    let until = Instant::now() + GRACE;
    while Instant::now() < until && !marked().is_empty() {
        thread::sleep(Duration::from_millis(20));
    }
    // Twice, in case one was just being started by another.
    for pid in marked().into_iter().chain(marked()) {
        signal(pid, Signal::KILL);
    }
    !found.is_empty()
}

// Whom a signal does not reach has ended already, which is what was wanted.

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends a signal to every process of a group.
pub(crate) fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = to_pid(group) {
        let _ = kill_process_group(group, signal);
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    // 0 and 1 would mean one's own group, and the whole system.
    i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_found_and_ended_by_its_mark_and_no_other_is() {
        let mark = format!("test-{}", std::process::id());
        let mut ours = Command::new("sleep").arg("60").env(MARK, &mark).spawn().unwrap();
        let mut other = Command::new("sleep").arg("60").env(MARK, format!("{mark}0")).spawn().unwrap();
        assert_eq!(with_environment(&[(MARK, &mark)]), [ours.id()]);
        assert!(with_environment(&[(MARK, &mark), ("OTHER", "1")]).is_empty());
        // Its parent is this test, so it stays listed without an environment until it is waited for.
        assert!(end_marked(&mark));
        assert!(!ours.wait().unwrap().success());
        assert!(matches!(other.try_wait(), Ok(None)));
        assert!(!end_marked(&mark));
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn ids_that_mean_more_than_one_process_are_never_signalled() {
        for pid in [0, 1, u32::MAX] {
            assert!(to_pid(pid).is_none(), "{pid}");
        }
    }
}
