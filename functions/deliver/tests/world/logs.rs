//! What is logged while something runs.
//!
//! Owns: collecting log lines as text. Must not: read them.
//! One subscriber serves the process from before the first line on: whether a line is wanted is decided once for each
//! place in the code, and a subscriber that came and went would race with that.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    /// The lines of this thread, while somebody wants them.
    static LINES: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts listening; every world does so before anything can be logged.
pub(crate) fn listen() {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let subscriber = tracing_subscriber::fmt().json().with_writer(|| Lines).finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    });
}

/// What `work` comes to, and what it logged.
pub(crate) fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    LINES.set(Some(Vec::new()));
    let output = work();
    let lines = LINES.take().unwrap_or_default();
    (output, String::from_utf8_lossy(&lines).into_owned())
}
