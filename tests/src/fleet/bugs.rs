//! Bugs that are planted on purpose: each breaks one promise, and the simulator has to find it.
//!
//! Owns: their list, and what each is expected to break. Must not: break anything itself; each part looks here.
//! All of them are in the world around the code: a store that forgets a condition behaves as code would that never
//! sent it.

use crate::sim::invariants::Invariant;

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $breaks:ident, $within:literal;)+) => {
        /// A planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $($(#[doc = $doc])+ $variant,)+ }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The promise that it breaks.
            #[must_use]
            pub const fn breaks(self) -> Invariant {
                match self { $(Self::$variant => Invariant::$breaks,)+ }
            }

            /// Within how many runs the simulator has to find it.
            #[must_use]
            pub const fn within(self) -> u64 {
                match self { $(Self::$variant => $within,)+ }
            }
        }
    };
}

bugs! {
    /// A row is said to be stored, and is not: the message is acknowledged.
    ParkedNowhere = "parked-nowhere", Kept, 200;
    /// A republished message is said to be accepted, and is not.
    RepublishedNowhere = "republished-nowhere", Kept, 200;
    /// A letter is said to be accepted, and is not.
    LetterNowhere = "letter-nowhere", Kept, 200;
    /// The emitter's messages are said to be accepted, and are not: its rows are deleted.
    EmittedNowhere = "emitted-nowhere", Kept, 200;
    /// All messages of a batch are deleted, whatever the answer says.
    AcknowledgedAll = "acknowledged-all", Kept, 200;
    /// The receiver's decision is answered before it is stored, and sometimes is never stored.
    DecidedTooSoon = "decided-too-soon", Durable, 200;
    /// A message that is sent on is written anew: the same JSON, other bytes.
    WrittenAnew = "written-anew", SameBytes, 200;
    /// The receiver releases a slot without looking at the reservation.
    ReleasedBlindly = "released-blindly", OneDecision, 200;
    /// The gate's store takes every booking, and moves nothing when it is full.
    GateOpen = "gate-open", InsideLimit, 200;
    /// The gate's store does not look at the pause.
    PauseUnseen = "pause-unseen", InsideLimit, 200;
    /// Every lane is free.
    LanesFree = "lanes-free", InFlight, 400;
    /// A lane's lease ends after a second.
    LaneLeaseShort = "lane-lease-short", InFlight, 400;
    /// A claim's lease ends after a second.
    LeaseShort = "lease-short", OneAtATime, 400;
    /// A record is written whatever its version.
    WrittenBlindly = "written-blindly", Moves, 400;
    /// The clock of a sandbox may be minutes behind.
    ClockFarBehind = "clock-far-behind", BeforeDeadline, 400;
    /// Jitter subtracts: what is written down, hidden or delayed comes a quarter of its wait too early.
    JitterSubtracts = "jitter-subtracts", NotEarlier, 200;
    /// The sender does not pass on what the receiver asked for.
    AskUnheard = "ask-unheard", NotEarlier, 200;
    /// Attempts are not counted.
    Uncounted = "uncounted", Attempts, 200;
    /// Letters count as redriven at once: an epoch begins without an operator.
    EpochByCopy = "epoch-by-copy", Attempts, 200;
    /// A message that should be hidden is not.
    NeverHidden = "never-hidden", FewReceives, 200;
    /// `triage` is told that its letters are sent on, and they are not.
    RedrivenNowhere = "redriven-nowhere", Kept, 400;
    /// Rows are never deleted: each is sent every minute.
    RowsStay = "rows-stay", Ends, 200;
}
