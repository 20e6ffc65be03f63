//! What may become of a process: it dies at some await, stands still for a while, runs into its timeout, or its clock
//! is wrong.
//!
//! Owns: running one invocation under that lot. Must not: know what it does.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use lapse_policy::ports::Clock as _;

use super::bugs::Bug;
use super::chance::{Dice, Span};
use super::steps::Ended;
use super::time::{Time, first};
use super::weather::{Fault, Weather};

/// An invocation is polled some tens of times; one that shall die does so within as many.
const DIES_WITHIN: usize = 80;
/// How long a process stands still that does: mostly short.
const FREEZES: [Span; 3] = [Span(20, 300), Span(300, 3000), Span(3000, 25_000)];

/// How likely each fate is, out of 10,000 invocations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fortune {
    /// It dies.
    pub crash: u32,
    /// It stands still once.
    pub freeze: u32,
    /// Its answer cannot be read.
    pub unreadable: u32,
    /// There is no invocation to be had.
    pub throttled: u32,
    /// Its clock is set before it.
    pub clock_step: u32,
    /// A new sandbox takes the place of an idle one.
    pub recycled: u32,
}

/// A handle to the lot of all processes.
#[derive(Debug, Clone)]
pub struct Lot {
    time: Time,
    dice: Dice,
    weather: Weather,
    fortune: Rc<Cell<Fortune>>,
    skew_ms: u64,
}

impl Lot {
    /// Nothing happens to a process; its clock is wrong by so much at most, either way.
    #[must_use]
    pub fn new(time: Time, dice: Dice, weather: Weather, skew_ms: u64) -> Self {
        Self { time, dice, weather, fortune: Rc::default(), skew_ms }
    }

    /// From now on it is this.
    pub fn change(&self, fortune: Fortune) {
        self.fortune.set(fortune);
    }

    /// What it is.
    #[must_use]
    pub fn fortune(&self) -> Fortune {
        self.fortune.get()
    }

    /// Whether something comes to pass.
    #[must_use]
    pub fn strikes(&self, odds: u32, fault: Fault) -> bool {
        self.weather.strikes(odds, fault)
    }

    /// Whether an idle sandbox is given up for a new one.
    #[must_use]
    pub fn recycles(&self) -> bool {
        let odds = self.fortune.get().recycled;
        odds > 0 && self.dice.roll() % 10_000 < u64::from(odds)
    }

    /// By how much a clock is ahead; negative is behind.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        if self.weather.has(Bug::ClockFarBehind) && self.dice.below(4) == 0 {
            return -600_000;
        }
        if self.skew_ms == 0 {
            return 0;
        }
        let ahead = i64::try_from(self.dice.roll() % (2 * self.skew_ms + 1)).unwrap_or(0);
        ahead - i64::try_from(self.skew_ms).unwrap_or(0)
    }

    /// Runs an invocation until it ends, one way or another.
    pub async fn run<T>(&self, work: Pin<Box<dyn Future<Output = T> + '_>>, timeout: Duration) -> (Ended, Option<T>) {
        let Fortune { crash, freeze, unreadable, .. } = self.fortune.get();
        let dies = self.weather.strikes(crash, Fault::Crash).then(|| self.dice.below(DIES_WITHIN));
        let freezes = self.weather.strikes(freeze, Fault::Freeze).then(|| {
            let span = FREEZES[self.dice.below(FREEZES.len())];
            (self.dice.below(DIES_WITHIN), self.dice.span(span))
        });
        let fated = Fated { work, time: self.time.clone(), dies, freezes, frozen: None };
        match first(fated, self.time.pass(timeout)).await {
            None => {
                self.weather.count(Fault::Timeout);
                (Ended::TimedOut, None)
            }
            Some(None) => (Ended::Crashed, None),
            Some(Some(_)) if self.weather.strikes(unreadable, Fault::BadResponse) => (Ended::Unreadable, None),
            Some(Some(answer)) => (Ended::Answered, Some(answer)),
        }
    }
}

/// Work that dies, or stands still, when it is polled for the n-th time.
struct Fated<'a, T> {
    work: Pin<Box<dyn Future<Output = T> + 'a>>,
    time: Time,
    dies: Option<usize>,
    freezes: Option<(usize, Duration)>,
    frozen: Option<Pin<Box<dyn Future<Output = ()> + 'a>>>,
}

impl<T> Future for Fated<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some((polls, span)) = self.freezes {
            self.freezes = polls.checked_sub(1).map(|polls| (polls, span));
            if polls == 0 {
                let (time, end) = (self.time.clone(), self.time.now().plus(span));
                self.frozen = Some(Box::pin(async move { time.sleep_until(end).await }));
            }
        }
        if let Some(frozen) = &mut self.frozen {
            if frozen.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.frozen = None;
        }
        match self.dies {
            Some(0) => return Poll::Ready(None),
            Some(polls) => self.dies = Some(polls - 1),
            None => {}
        }
        self.work.as_mut().poll(context).map(Some)
    }
}
