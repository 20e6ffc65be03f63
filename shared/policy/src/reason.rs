//! Why a delivery is dead: a closed set, each with a section in the runbook and an advice.
//!
//! Owns: [`Reason`] and its words. Must not: decide; rules name a reason, this file explains it.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $advice:literal;)+) => {
        /// Why a delivery needs a person.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $($(#[doc = $doc])+ $variant,)+ }

        impl Reason {
            /// Every reason, in the order of the runbook.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in records, logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One sentence on what would help.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)+ }
            }

            /// The reason of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// The body is no message of a version that is understood here (DLQ-4).
    MalformedMessage = "malformed_message",
        "Mend the producer; redrive once a version that understands this body is deployed.";
    /// There is no such destination (DST-1).
    UnknownDestination = "unknown_destination",
        "Create the destination under exactly this name, then redrive.";
    /// The destination's row does not parse (DST-1).
    InvalidDestination = "invalid_destination",
        "Correct the field that the error names in the destination's row, then redrive.";
    /// The destination is switched off (DST-1).
    DisabledDestination = "disabled_destination",
        "Enable the destination if its events are still wanted, then redrive.";
    /// The receiver refused for good (CLS-7, CLS-10).
    PermanentStatus = "permanent_status",
        "Read the recorded answer, mend the receiver or the event's source, then redrive.";
    /// The receiver redirects; redirects are never followed (CLS-7).
    Redirect = "redirect",
        "Set the destination's URL to where the receiver now lives, then redrive.";
    /// The receiver says that it is gone; the destination is paused (CLS-8).
    Gone = "gone",
        "Ask the receiver's owner; then set a new URL, resume the destination and redrive.";
    /// The address may not be called (CLS-9, SEC-2).
    BlockedAddress = "blocked_address",
        "Point the destination at a public address, or allow its range in the configuration.";
    /// The URL has become none that may be called (CLS-9, SEC-1); a row that is read anew says so by its field.
    InvalidUrl = "invalid_url",
        "Give the destination a full https URL without credentials, then redrive.";
    /// Every attempt that the policy allows has failed (RET-5).
    AttemptsExhausted = "attempts_exhausted",
        "Find out from the receiver why it kept failing; redrive when it answers again.";
    /// The business deadline passed before an attempt could start (RET-7).
    DeadlinePassed = "deadline_passed",
        "Decide whether the event still means something; a redrive gives it a new deadline.";
    /// The receiver asked to come back after the deadline (RET-6).
    RetryAfterExceedsDeadline = "retry_after_exceeds_deadline",
        "Decide whether a late delivery is still right; redrive after the time that was asked for.";
    /// The receiver asked for more than 604,800 s (RET-8).
    RetryAfterExceedsLimit = "retry_after_exceeds_limit",
        "Ask the receiver's owner why it wants such a wait, then redrive.";
    /// Our own schedule has no attempt left before the deadline (RET-6).
    NoRetryBeforeDeadline = "no_retry_before_deadline",
        "Check the receiver's health and decide whether a late delivery is still right.";
    /// The destination's limit had no place before the deadline (LIM-6).
    NoPlaceBeforeDeadline = "no_place_before_deadline",
        "More was offered than the destination's rate allows: raise the rate or send less, then redrive.";
    /// Workers died three times in a row while sending this one (LED-4).
    Poison = "poison",
        "Look for crashes of deliver in its log before you redrive: this event may bring them back.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_reason() {
        for reason in Reason::ALL {
            assert_eq!(Reason::named(reason.name()), Some(*reason));
            assert_eq!(reason.to_string(), reason.name());
            assert!(reason.advice().ends_with('.'), "{reason}: the advice is a sentence");
        }
        assert_eq!(Reason::named("bad_luck"), None);
    }
}
