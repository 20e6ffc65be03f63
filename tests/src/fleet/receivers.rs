//! Receivers with a mind of their own: limits that they enforce, latency, hangs, outages.
//!
//! Owns: what each receiver answers, and what it saw. Must not: judge what it saw; `traffic` does.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Failure, Outcome};
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Attempt, Clock as _, Sender, Sent};
use lapse_policy::timestamp::{Micros, Timestamp, millis};

use super::chance::{Dice, Span};
use super::time::{Time, first};
use super::traffic::{Request, Traffic};

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
    /// It never answers.
    Hangs,
}

/// A handle to all receivers.
#[derive(Debug, Clone)]
pub struct Receivers {
    time: Time,
    dice: Dice,
    all: Rc<RefCell<HashMap<DestinationName, Receiver>>>,
}

#[derive(Debug)]
struct Receiver {
    usual: Behaviour,
    next: VecDeque<Behaviour>,
    takes: Span,
    /// Of its own limit: the time at which the next regular request is due.
    clock: Micros,
    traffic: Traffic,
}

/// The network's part, one way.
const NETWORK: Span = Span(2, 20);

impl Receivers {
    /// None.
    #[must_use]
    pub fn new(time: Time, dice: Dice) -> Self {
        Self { time, dice, all: Rc::default() }
    }

    /// A receiver that behaves so; `takes` is its own time for an answer.
    pub fn add(&self, destination: &DestinationName, usual: Behaviour, takes: Span) {
        let receiver = Receiver { usual, next: VecDeque::new(), takes, clock: Micros(0), traffic: Traffic::default() };
        self.all.borrow_mut().insert(destination.clone(), receiver);
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

    fn with<T>(&self, destination: &DestinationName, look: impl FnOnce(&mut Receiver) -> T) -> Option<T> {
        self.all.borrow_mut().get_mut(destination).map(look)
    }

    /// The answer and the time for it, or `None` for none.
    fn judge(&self, attempt: &Attempt, started: Timestamp) -> Option<(Answer, Duration)> {
        let now = self.time.now();
        let judged = self.with(&attempt.destination.name, |receiver| {
            let behaviour = receiver.next.pop_front().unwrap_or(receiver.usual);
            let answer = receiver.answer(behaviour, now);
            let due = attempt.payload.parse().map_or(started, Timestamp::from_millis);
            let status = answer.as_ref().map(|answer| answer.status);
            receiver.traffic.requests.push(Request {
                id: attempt.id.clone(),
                due,
                started,
                arrived: now,
                status,
                signatures: attempt.destination.secrets.len(),
            });
            answer.map(|answer| (answer, self.dice.span(receiver.takes)))
        });
        judged.flatten()
    }

    async fn answered(&self, attempt: &Attempt, started: Timestamp) -> Outcome {
        self.time.pass(self.dice.span(NETWORK)).await;
        let Some((answer, takes)) = self.judge(attempt, started) else { return std::future::pending().await };
        self.time.pass(takes + self.dice.span(NETWORK)).await;
        Outcome::Answered(answer)
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
            Behaviour::Hangs => None,
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
        let started = self.time.now();
        self.with(&attempt.destination.name, |receiver| receiver.traffic.under_way.enter());
        let end = self.time.sleep_until(started.plus(attempt.destination.timeout));
        let outcome = first(self.answered(attempt, started), end).await;
        self.with(&attempt.destination.name, |receiver| receiver.traffic.under_way.leave());
        Sent { outcome: outcome.unwrap_or(Outcome::Failed(Failure::NoAnswer)), excerpt: None }
    }
}
