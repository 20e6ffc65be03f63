//! Chance from a seed: the same seed, the same draws.
//!
//! Owns: the generator (`SplitMix64`, by Steele, Lea and Flood) and what is drawn from it. Must not: be seeded by
//! anything but the scenario.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::ports::{Chance, Clock as _, Unavailable};
use lapse_policy::timestamp::Timestamp;

use super::bugs::Bug;
use super::time::Time;
use super::weather::{Fate, Odds, Part, Weather};

/// A handle to one source of chance.
#[derive(Debug, Clone)]
pub struct Dice(Rc<Cell<u64>>);

impl Dice {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(Cell::new(seed)))
    }

    /// Any number.
    #[must_use]
    pub fn roll(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`, or 0.
    #[must_use]
    pub fn below(&self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.roll() % n).unwrap_or(0)
    }

    /// A span of whole milliseconds between two, both included.
    #[must_use]
    pub fn span(&self, range: Span) -> Duration {
        Duration::from_millis(range.0 + self.roll() % (range.1.saturating_sub(range.0) + 1))
    }

    /// Another source, which draws on its own.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.roll())
    }
}

impl Chance for Dice {
    fn draw(&self) -> f64 {
        let bits = u32::try_from(self.roll() >> 32).unwrap_or(u32::MAX);
        f64::from(bits) / f64::from(u32::MAX)
    }

    fn token(&self) -> String {
        format!("{:016x}{:016x}", self.roll(), self.roll())
    }
}

/// The shortest and the longest of something, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub u64, pub u64);

/// How often the SDK tries a call (its standard mode).
const TRIES: u32 = 3;
/// One try of a call whose reply never comes (`lapse_aws::clients`).
const TRY: Span = Span(300, 700);
/// A call that is refused outright, and the SDK's wait before it tries again.
const AGAIN: Span = Span(10, 150);

/// The way to a part of the world and back.
#[derive(Debug, Clone)]
pub struct Way {
    time: Time,
    dice: Dice,
    takes: Span,
    part: Part,
    weather: Weather,
}

impl Way {
    /// A way that takes so long, each time anew, in either direction.
    #[must_use]
    pub fn new(time: Time, dice: Dice, takes: Span, part: Part, weather: Weather) -> Self {
        Self { time, dice, takes, part, weather }
    }

    /// What goes wrong on it.
    #[must_use]
    pub fn weather(&self) -> &Weather {
        &self.weather
    }

    /// How often its part fails now.
    #[must_use]
    pub fn odds(&self) -> Odds {
        self.weather.odds(self.part)
    }

    /// What happens to one entry of a batch call.
    #[must_use]
    pub fn fate_of_entry(&self) -> Fate {
        self.weather.fate_of_entry(self.part)
    }

    /// Whether a planted bug is there.
    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.weather.has(bug)
    }

    /// True time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Goes it once, in one direction.
    pub async fn go(&self) {
        self.time.pass(self.dice.span(self.takes)).await;
    }

    /// Calls, as the SDK does: what gets lost is tried again, so that an effect may come to pass twice; the answer is
    /// the last one. An error means that it may or may not have come to pass.
    pub async fn call<T>(&self, mut effect: impl FnMut() -> T) -> Result<T, Unavailable> {
        for _ in 0..TRIES {
            self.go().await;
            match self.weather.fate(self.part) {
                Fate::Fine => {
                    let answer = effect();
                    self.go().await;
                    return Ok(answer);
                }
                Fate::Lost => self.time.pass(self.dice.span(AGAIN)).await,
                Fate::ReplyLost => {
                    effect();
                    self.time.pass(self.dice.span(TRY)).await;
                }
                Fate::Fails => break,
                Fate::FailsDone => {
                    effect();
                    break;
                }
            }
        }
        self.time.pass(self.dice.span(TRY)).await;
        Err(Unavailable { operation: "a call", cause: format!("{:?} did not answer", self.part) })
    }
}
