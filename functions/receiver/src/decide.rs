//! RCV-1 to RCV-3: what an expired hold means for its slot.
//!
//! Owns: [`Decision`], its written form, and the judgement of a reservation. Must not: store either.

use crate::event::Event;

/// What was decided about the slot, once and for all, under one event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The hold ended unpaid: the slot is free.
    Released,
    /// The slot is not this event's to release.
    Refused(Refusal),
}

/// Why a slot is not released. It is an answer like the other: delivered, and never asked again (RCV-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was paid in time, whatever its version.
    Paid,
    /// The hold was extended, or the slot was held anew.
    NewerVersion,
    /// The reservation never reached this version: the producer writes the hold and its event in one transaction.
    OlderVersion,
    /// This version was released by other means than an event.
    AlreadyReleased,
    /// It has another status that is no hold.
    NotHeld,
    /// There is no such reservation.
    NotFound,
}

impl Decision {
    /// `released` or `refused`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Refused(_) => "refused",
        }
    }

    /// Why, in one word.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Released => "hold_expired",
            Self::Refused(Refusal::Paid) => "paid",
            Self::Refused(Refusal::NewerVersion) => "newer_version",
            Self::Refused(Refusal::OlderVersion) => "older_version",
            Self::Refused(Refusal::AlreadyReleased) => "already_released",
            Self::Refused(Refusal::NotHeld) => "not_held",
            Self::Refused(Refusal::NotFound) => "not_found",
        }
    }

    /// Reads what [`Self::name`] and [`Self::reason`] wrote.
    #[must_use]
    pub fn read(name: &str, reason: &str) -> Option<Self> {
        ALL.into_iter().find(|decision| decision.name() == name && decision.reason() == reason)
    }
}

const ALL: [Decision; 7] = [
    Decision::Released,
    Decision::Refused(Refusal::Paid),
    Decision::Refused(Refusal::NewerVersion),
    Decision::Refused(Refusal::OlderVersion),
    Decision::Refused(Refusal::AlreadyReleased),
    Decision::Refused(Refusal::NotHeld),
    Decision::Refused(Refusal::NotFound),
];

/// The status of a slot that waits for its payment.
pub const HELD: &str = "held";
/// The status of a slot that is free again.
pub const RELEASED: &str = "released";
/// The status of a slot that is sold.
pub const PAID: &str = "paid";

/// A reservation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// [`HELD`], [`PAID`], [`RELEASED`], or another that is no hold.
    pub status: String,
    /// Counts the reservation's changes; it only grows.
    pub version: u64,
}

/// Why the event may not release this reservation; `None` if it may: the store must be asked again.
#[must_use]
pub fn judge(event: &Event, reservation: Option<&Reservation>) -> Option<Refusal> {
    let Some(Reservation { status, version }) = reservation else { return Some(Refusal::NotFound) };
    if status == PAID {
        Some(Refusal::Paid)
    } else if *version > event.version {
        Some(Refusal::NewerVersion)
    } else if *version < event.version {
        Some(Refusal::OlderVersion)
    } else if status == RELEASED {
        Some(Refusal::AlreadyReleased)
    } else if status == HELD {
        None
    } else {
        Some(Refusal::NotHeld)
    }
}

#[cfg(test)]
mod tests {
    use lapse_policy::names::EventId;
    use lapse_policy::timestamp::Timestamp;

    use super::*;

    #[track_caller]
    fn check(label: &str, status: &str, version: u64, expected: Option<Refusal>) {
        let event = Event {
            id: EventId::parse("res_1:3").expect("valid"),
            reservation: "res_1".to_owned(),
            version: 3,
            resource: "studio-7".to_owned(),
            hold_expires_at: Timestamp::EPOCH,
        };
        let reservation = Reservation { status: status.to_owned(), version };
        assert_eq!(judge(&event, Some(&reservation)), expected, "{label}");
        assert_eq!(judge(&event, None), Some(Refusal::NotFound));
    }

    #[test]
    fn rcv_3_only_a_hold_at_this_version_may_be_released() {
        check("held at this version", "held", 3, None);
        check("paid at this version", "paid", 3, Some(Refusal::Paid));
        check("paid at a newer version", "paid", 4, Some(Refusal::Paid));
        check("extended", "held", 4, Some(Refusal::NewerVersion));
        check("a newer hold that was released", "released", 5, Some(Refusal::NewerVersion));
        check("not there yet", "held", 2, Some(Refusal::OlderVersion));
        check("released by hand", "released", 3, Some(Refusal::AlreadyReleased));
        check("another status", "cancelled", 3, Some(Refusal::NotHeld));
        check("statuses are exact", "Held", 3, Some(Refusal::NotHeld));
    }

    #[test]
    fn rcv_2_a_decision_is_written_and_read_back() {
        for decision in ALL {
            assert_eq!(Decision::read(decision.name(), decision.reason()), Some(decision));
        }
        assert_eq!(Decision::read("released", "paid"), None);
        assert_eq!(Decision::read("", ""), None);
    }
}
