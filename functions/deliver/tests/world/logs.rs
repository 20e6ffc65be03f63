//! What is logged while something runs.
//!
//! Owns: collecting log lines as text. Must not: read them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `work` comes to, and what it logged.
pub(crate) fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    let output = tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8_lossy(&lines.0.lock().expect("not poisoned")).into_owned();
    (output, text)
}
