//! What was asked of the world, in order.
//!
//! Owns: one line per call. Must not: judge them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::ports::Clock as _;

use super::time::Time;

#[derive(Debug, Clone)]
pub(crate) struct Journal {
    time: Time,
    lines: Rc<RefCell<Vec<String>>>,
}

impl Journal {
    pub(crate) fn new(time: Time) -> Self {
        Self { time, lines: Rc::default() }
    }

    pub(crate) fn note(&self, line: String) {
        self.lines.borrow_mut().push(line);
    }

    pub(crate) async fn takes(&self, span: Duration) {
        self.time.sleep_until(self.time.now().plus(span)).await;
    }

    /// All lines since the last look.
    pub(crate) fn take(&self) -> Vec<String> {
        self.lines.take()
    }
}
