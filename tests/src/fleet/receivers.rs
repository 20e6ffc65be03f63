//! Receivers with a mind of their own: limits that they enforce, latency, hangs, outages, moods.
//!
//! Owns: what each receiver answers, and what it saw. Must not: judge what it saw; `traffic` does.
//! A request that was started goes its way whatever becomes of its sender: it may be acted on after a timeout.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Failure, Outcome};
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Attempt, Clock as _, Sender, Sent};
use lapse_policy::timestamp::{Micros, Timestamp, millis};

use super::bugs::Bug;
use super::chance::{Dice, Span};
use super::moods::Mood;
use super::steps::{Eyes, Step};
use super::time::{Signal, Time, first};
use super::traffic::{Request, Traffic, percentiles_of};
use super::weather::{Fault, Weather};

/// What a receiver does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// It answers 200.
    Accepts,
    /// It answers 200 within its own limit, and 429 beyond, with a `Retry-After` of so many seconds if it has one.
    Enforces {
        /// Requests per second.
        per_second: u32,
        /// Requests at once after a quiet time.
        burst: u32,
        /// What it asks for.
        retry_after: Option<u64>,
    },
    /// It answers with this status, and perhaps a `Retry-After` of so many seconds.
    Answers(u16, Option<u64>),
    /// It answers 429 and asks all to come back at one instant.
    AsksUntil(Timestamp),
    /// It never answers, and does nothing.
    Hangs,
    /// It acts as if it accepted, and its answer never comes.
    ActsThenSilent,
    /// The request fails in this way before it gets there.
    Fails(Failure),
    /// Each request anew as its mood is.
    Minded(Mood),
}

/// What stands behind a receiver: it decides, and its answer may never come.
pub trait Backend {
    /// Works on a request; `None` is no answer.
    fn receive(&self, attempt: &Attempt) -> Pin<Box<dyn Future<Output = Option<Answer>>>>;
}

/// A handle to all receivers.
#[derive(Debug, Clone)]
pub struct Receivers {
    time: Time,
    dice: Dice,
    weather: Weather,
    eyes: Eyes,
    numbers: Rc<Cell<u64>>,
    all: Rc<RefCell<HashMap<DestinationName, Receiver>>>,
}

struct Receiver {
    usual: Behaviour,
    next: VecDeque<Behaviour>,
    takes: Span,
    /// Of its own limit: the time at which the next regular request is due.
    clock: Micros,
    traffic: Traffic,
    backend: Option<Rc<dyn Backend>>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver({:?})", self.usual)
    }
}

/// The network's part, one way.
const NETWORK: Span = Span(2, 20);

impl Receivers {
    /// None.
    #[must_use]
    pub fn new(time: Time, dice: Dice, weather: Weather, eyes: Eyes) -> Self {
        Self { time, dice, weather, eyes, numbers: Rc::default(), all: Rc::default() }
    }

    /// A receiver that behaves so; `takes` is its own time for an answer.
    pub fn add(&self, destination: &DestinationName, usual: Behaviour, takes: Span) {
        let (next, clock, traffic) = (VecDeque::new(), Micros(0), Traffic::default());
        let receiver = Receiver { usual, next, takes, clock, traffic, backend: None };
        self.all.borrow_mut().insert(destination.clone(), receiver);
    }

    /// What it accepts is decided there from now on.
    pub fn back(&self, destination: &DestinationName, backend: Rc<dyn Backend>) {
        self.with(destination, |receiver| receiver.backend = Some(backend));
    }

    /// From now on it behaves so.
    pub fn behave(&self, destination: &DestinationName, usual: Behaviour) {
        self.with(destination, |receiver| receiver.usual = usual);
    }

    /// So it behaves to its next so many requests.
    pub fn behave_once(&self, destination: &DestinationName, count: usize, behaviour: Behaviour) {
        self.with(destination, |receiver| receiver.next.extend(std::iter::repeat_n(behaviour, count)));
    }

    /// What it saw so far.
    #[must_use]
    pub fn traffic(&self, destination: &DestinationName) -> Traffic {
        self.with(destination, |receiver| receiver.traffic.clone()).unwrap_or_default()
    }

    /// How late the delivered events of these were sent, all in all.
    #[must_use]
    pub fn lateness<const N: usize>(&self, of: &[&DestinationName], percentiles: [usize; N]) -> [Duration; N] {
        let all = self.all.borrow();
        let requests = of.iter().filter_map(|name| all.get(*name)).flat_map(|receiver| receiver.traffic.late());
        percentiles_of(requests.collect(), percentiles)
    }

    fn with<T>(&self, destination: &DestinationName, look: impl FnOnce(&mut Receiver) -> T) -> Option<T> {
        self.all.borrow_mut().get_mut(destination).map(look)
    }

    /// What it does with this request.
    fn choose(&self, destination: &DestinationName) -> Behaviour {
        let chosen = self.with(destination, |receiver| receiver.next.pop_front().unwrap_or(receiver.usual));
        let chosen = chosen.unwrap_or(Behaviour::Hangs);
        if let Behaviour::Minded(mood) = chosen { mood.choose(&self.dice) } else { chosen }
    }

    /// A request's way from its start to the answer, if one comes: whatever becomes of its sender.
    async fn travel(self, attempt: Attempt, behaviour: Behaviour, started: Timestamp) -> Option<Answer> {
        self.time.pass(self.dice.span(NETWORK)).await;
        let name = &attempt.destination.name;
        let arrived = self.time.now();
        let backend = self.with(name, |receiver| {
            let answer = receiver.answer(behaviour, arrived);
            let due = attempt.payload.parse().map_or(started, Timestamp::from_millis);
            let (id, status) = (attempt.id.clone(), answer.as_ref().map(|answer| answer.status));
            let signatures = attempt.destination.secrets.len();
            receiver.traffic.requests.push(Request { id, due, started, arrived, status, signatures });
            (answer, receiver.backend.clone(), receiver.takes)
        });
        let (answer, backend, takes) = backend?;
        let accepts = matches!(behaviour, Behaviour::Accepts | Behaviour::ActsThenSilent);
        let answer = if let Some(backend) = backend.filter(|_| accepts) {
            backend.receive(&attempt).await
        } else {
            if accepts {
                self.eyes.see(arrived, || Step::Acted(name.clone(), attempt.id.clone()));
            }
            answer
        };
        if behaviour == Behaviour::ActsThenSilent {
            self.weather.count(Fault::AnswerLost);
            return None;
        }
        self.weather_of(answer.as_ref());
        self.time.pass(self.dice.span(takes) + self.dice.span(NETWORK)).await;
        answer
    }

    fn weather_of(&self, answer: Option<&Answer>) {
        if answer.is_none_or(|answer| !(200..300).contains(&answer.status)) {
            self.weather.count(Fault::Refusal);
        }
    }

    async fn answered(&self, attempt: &Attempt, behaviour: Behaviour, started: Timestamp) -> Outcome {
        if let Behaviour::Fails(failure) = behaviour {
            self.time.pass(self.dice.span(NETWORK)).await;
            self.weather.count(Fault::Refusal);
            return Outcome::Failed(failure);
        }
        let (answer, came) = (Rc::new(RefCell::new(None)), Signal::default());
        let (slot, comes) = (Rc::clone(&answer), came.clone());
        let travel = self.clone().travel(attempt.clone(), behaviour, started);
        self.time.spawn(async move {
            let travelled = travel.await;
            if let Some(travelled) = travelled {
                *slot.borrow_mut() = Some(travelled);
                comes.raise();
            }
        });
        came.raised().await;
        let answer = answer.borrow_mut().take();
        answer.map_or(Outcome::Failed(Failure::NoAnswer), Outcome::Answered)
    }
}

/// Tells how a request ended for its sender, also if that died.
struct Waits<'a> {
    receivers: &'a Receivers,
    number: u64,
    name: &'a DestinationName,
    heard: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Self { receivers, number, name, heard } = self;
        receivers.with(name, |receiver| receiver.traffic.under_way.leave());
        if !*heard {
            receivers.eyes.see(receivers.time.now(), || Step::Orphaned(*number));
        }
    }
}

impl Receiver {
    fn answer(&mut self, behaviour: Behaviour, now: Timestamp) -> Option<Answer> {
        let answer = |status, asked: Option<u64>| {
            Some(Answer { status, asked: asked.map(Duration::from_secs), location_host: None })
        };
        match behaviour {
            Behaviour::Accepts => answer(200, None),
            Behaviour::Answers(status, asked) => answer(status, asked),
            Behaviour::AsksUntil(until) => {
                let left = millis(until.since(now)).div_euclid(1000) + 1;
                answer(429, u64::try_from(left).ok())
            }
            Behaviour::Hangs | Behaviour::ActsThenSilent | Behaviour::Fails(_) | Behaviour::Minded(_) => None,
            Behaviour::Enforces { per_second, burst, retry_after } => {
                let step = Micros(1_000_000 / i64::from(per_second.max(1)));
                let room = step.times(usize::try_from(burst.saturating_sub(1)).unwrap_or(0));
                let clock = self.clock.max(now.micros());
                if clock.minus(now.micros()) > room {
                    return answer(429, retry_after);
                }
                self.clock = clock.plus(step);
                answer(200, None)
            }
        }
    }
}

impl Sender for Receivers {
    async fn send(&self, attempt: &Attempt) -> Sent {
        let (started, number, name) = (self.time.now(), self.numbers.get(), &attempt.destination.name);
        self.numbers.set(number + 1);
        self.with(name, |receiver| receiver.traffic.under_way.enter());
        self.eyes.see(started, || Step::Started(number, Box::new(attempt.clone())));
        let mut waits = Waits { receivers: self, number, name, heard: false };
        let end = self.time.sleep_until(started.plus(attempt.destination.timeout));
        let outcome = first(self.answered(attempt, self.choose(name), started), end).await;
        let mut outcome = outcome.unwrap_or(Outcome::Failed(Failure::NoAnswer));
        waits.heard = true;
        self.eyes.see(self.time.now(), || match &outcome {
            Outcome::Answered(answer) => Step::Heard(number, Some(answer.status), answer.asked.map(millis)),
            Outcome::Failed(_) => Step::Heard(number, None, None),
        });
        if let Outcome::Answered(answer) = &mut outcome
            && self.weather.has(Bug::AskUnheard)
        {
            answer.asked = None;
        }
        Sent { outcome, excerpt: None }
    }
}
