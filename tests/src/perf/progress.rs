//! What a person sees while a measurement runs, on standard error.
//!
//! Owns: a bar on a terminal, plain lines now and then elsewhere. Must not: write to standard output.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Without a terminal, a line this often.
const LINE: Duration = Duration::from_secs(5);

/// The display. One thing runs at a time.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    last_line: Mutex<Option<Instant>>,
    shown: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Bar,
    Lines,
    Nothing,
}

impl Progress {
    /// A display without anything on it yet.
    #[must_use]
    pub fn new() -> Self {
        let display = Self::on(ProgressDrawTarget::stderr(), Shown::Bar);
        let shown = if display.bar.is_hidden() { Shown::Lines } else { Shown::Bar };
        Self { shown, ..display }
    }

    /// One that shows nothing, for tests.
    #[must_use]
    pub fn hidden() -> Self {
        Self::on(ProgressDrawTarget::hidden(), Shown::Nothing)
    }

    fn on(target: ProgressDrawTarget, shown: Shown) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("  {prefix:<30} {bar:28} {pos:>5}/{len:<5} {msg}");
        Self {
            bar: bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            last_line: Mutex::default(),
            shown,
        }
    }

    /// Something with so many steps begins.
    pub fn begin(&self, what: &str, steps: usize) {
        self.bar.reset();
        self.bar.set_length(wide(steps));
        self.bar.set_prefix(what.to_owned());
        self.bar.set_message("");
        self.line(0, "", true);
    }

    /// It has come so far.
    pub fn at(&self, step: usize, message: &str) {
        self.bar.set_position(wide(step));
        self.bar.set_message(message.to_owned());
        self.line(step, message, false);
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| write_line(line));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, step: usize, message: &str, at_once: bool) {
        if self.shown != Shown::Lines {
            return;
        }
        let Ok(mut last) = self.last_line.lock() else { return };
        if at_once || last.is_none_or(|last| last.elapsed() >= LINE) {
            *last = Some(Instant::now());
            let text = format!("  {} {step}/{} {message}", self.bar.prefix(), self.bar.length().unwrap_or(0));
            write_line(text.trim_end());
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn write_line(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
