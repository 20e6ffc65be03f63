//! The four functions by name.
//!
//! Owns: which binary, zip and output of the template belong to which function.
//! Must not: know what a function does.

use std::fmt;

/// One of the template's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function {
    /// Sends what is due (SQS, `deliveries`).
    Deliver,
    /// Emits scheduled events (once a minute).
    Expiry,
    /// Judges letters (SQS, `failures`).
    Triage,
    /// The reference receiver (function URL).
    Receiver,
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deliver, Self::Expiry, Self::Triage, Self::Receiver];

    /// The name of its binary, which is also its name in `infra/contract.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deliver => "deliver",
            Self::Expiry => "expiry",
            Self::Triage => "triage",
            Self::Receiver => "receiver",
        }
    }

    /// The template's output that holds its name in the stack.
    #[must_use]
    pub const fn output(self) -> &'static str {
        match self {
            Self::Deliver => "DeliverFunctionName",
            Self::Expiry => "ExpiryFunctionName",
            Self::Triage => "TriageFunctionName",
            Self::Receiver => "ReceiverFunctionName",
        }
    }

    /// The function whose binary is called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
