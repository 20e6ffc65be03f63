//! I3, RCV-4: a slot is released once, never if it was paid for, and no decision is told before it is stored.
//!
//! Owns: what became of each slot. Must not: know how the receiver decides.

use std::collections::HashMap;

use lapse_policy::names::EventId;

use super::{Broken, Found, Invariant};

/// Releases by reservation and version.
#[derive(Debug, Default)]
pub(super) struct Slots(HashMap<(String, u64), u32>);

impl Slots {
    /// A slot was released.
    pub(super) fn released(&mut self, reservation: &str, version: u64, paid: bool) -> Found {
        let releases = self.0.entry((reservation.to_owned(), version)).or_default();
        *releases += 1;
        let broken = |what: String| Err(Broken(Invariant::OneDecision, None, what));
        if paid {
            return broken(format!("{reservation}:{version} was paid for, and its slot is released"));
        }
        if *releases > 1 {
            return broken(format!("the slot of {reservation}:{version} is released for the second time"));
        }
        Ok(())
    }
}

/// The reference receiver answered.
pub(super) fn told(id: &EventId, status: u16, stored: bool) -> Found {
    if !(200..300).contains(&status) || stored {
        return Ok(());
    }
    let what = format!("{id} is answered {status}, and no decision is stored");
    Err(Broken(Invariant::Durable, None, what))
}
