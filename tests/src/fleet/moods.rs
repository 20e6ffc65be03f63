//! What receivers do on a bad day.
//!
//! Owns: the moods and what each makes likely. Must not: answer; `receivers` does.

use lapse_policy::classifier::Failure;

use super::chance::Dice;
use super::receivers::Behaviour;

/// How a receiver is minded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It fails now and then, in every way that is worth another attempt.
    Flaky,
    /// It asks for less, in every form.
    Throttling,
    /// It answers with statuses and asks that hardly anybody sends.
    Odd,
    /// It acts, and its answer is mostly lost.
    Mute,
}

use Behaviour::{Accepts, ActsThenSilent, Answers, Fails, Hangs};

const FLAKY: &[Behaviour] = &[
    Accepts,
    Accepts,
    Accepts,
    Answers(500, None),
    Answers(502, Some(2)),
    Answers(500, Some(30)),
    Answers(504, Some(400)),
    Answers(503, None),
    Answers(503, Some(3)),
    Answers(408, None),
    Hangs,
    ActsThenSilent,
    Fails(Failure::Dns),
    Fails(Failure::Refused),
    Fails(Failure::Reset),
    Fails(Failure::Tls),
    Fails(Failure::ConnectTimeout),
    Fails(Failure::NoAnswer),
];

const THROTTLING: &[Behaviour] = &[
    Accepts,
    Accepts,
    Accepts,
    Answers(429, None),
    Answers(429, Some(0)),
    Answers(429, Some(1)),
    Answers(429, Some(7)),
    Answers(429, Some(40)),
    Answers(503, Some(120)),
    Answers(429, Some(1000)),
];

const ODD: &[Behaviour] = &[
    Accepts,
    Accepts,
    Accepts,
    Accepts,
    Answers(204, None),
    Answers(202, None),
    Answers(302, None),
    Answers(400, None),
    Answers(404, Some(5)),
    Answers(409, None),
    Answers(410, None),
    Answers(425, Some(5)),
    Answers(501, None),
    Answers(505, None),
    Answers(599, None),
    Answers(700, None),
    Answers(500, Some(5000)),
    Answers(429, Some(604_800)),
    Answers(429, Some(604_801)),
    Answers(503, Some(u64::MAX)),
    Fails(Failure::Blocked),
    Fails(Failure::InvalidUrl),
];

const MUTE: &[Behaviour] = &[Accepts, ActsThenSilent, ActsThenSilent, ActsThenSilent, Hangs];

impl Mood {
    /// What it makes of one request.
    #[must_use]
    pub fn choose(self, dice: &Dice) -> Behaviour {
        let choices = match self {
            Self::Flaky => FLAKY,
            Self::Throttling => THROTTLING,
            Self::Odd => ODD,
            Self::Mute => MUTE,
        };
        choices[dice.below(choices.len())]
    }
}
