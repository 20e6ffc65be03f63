//! The partner's memory: its destinations, where each is in its script, and every request so far.
//!
//! Owns: what a request is to be done with, and its record from arrival to ending; the bound of both.
//! Must not: do I/O; wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use lapse_aws::system::SystemClock;
use lapse_policy::ports::Clock as _;
use sha2::{Digest, Sha256};

use super::script::{Bucket, Lose, Reply, Script, whole_seconds};
use super::seen::{Ending, Seen};

/// The most requests that one partner remembers. More are refused with 507 rather than forgotten: a check over
/// a part of them would prove nothing.
pub const MOST_REQUESTS: usize = 200_000;
/// The longest body of which a copy is kept.
pub const MOST_BODY: usize = 16 * 1024;
/// The bytes of all copies together.
const MOST_BODIES: usize = 64 * 1024 * 1024;

/// What is to be done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Answer(Reply),
    Hang,
    Reset,
    Forward(String),
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unserved {
    Unknown,
    Full,
}

#[derive(Debug)]
pub(super) struct Stage {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    destinations: HashMap<String, Destination>,
    requests: usize,
    refused: usize,
    body_bytes: usize,
}

#[derive(Debug, Default)]
struct Destination {
    play: Play,
    seen: Vec<Seen>,
    in_flight: usize,
    not_before_ms: Option<u64>,
    event_not_before_ms: HashMap<String, u64>,
}

/// A script and how far it has come.
#[derive(Debug)]
struct Play {
    script: Script,
    bucket: Option<Bucket>,
    requests: usize,
    replies: HashMap<String, usize>,
    answers: HashMap<String, Fate>,
}

/// What is in store for an event's first 2xx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    ToBeLost,
    Passed,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets or replaces a script, which begins anew; what was seen stays.
    pub(super) fn set(&self, name: &str, script: Script) {
        let mut state = self.state();
        let destination = state.destinations.entry(name.to_owned()).or_default();
        destination.play = Play::of(script);
    }

    pub(super) fn seen(&self, name: &str) -> Vec<Seen> {
        self.state().destinations.get(name).map(|destination| destination.seen.clone()).unwrap_or_default()
    }

    pub(super) fn refused(&self) -> usize {
        self.state().refused
    }

    /// Notes a request that was read whole.
    pub(super) fn arrive(
        self: &Arc<Self>,
        name: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(Act, Flight), Unserved> {
        let body_sha256 = Sha256::digest(body).into();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let mut state = self.state();
        let State { destinations, requests, refused, body_bytes } = &mut *state;
        let destination = destinations.get_mut(name).ok_or(Unserved::Unknown)?;
        if *requests >= MOST_REQUESTS {
            *refused += 1;
            return Err(Unserved::Full);
        }
        *requests += 1;
        let kept = body.len() <= MOST_BODY && *body_bytes + body.len() <= MOST_BODIES;
        if kept {
            *body_bytes += body.len();
        }
        let event = text("webhook-id").unwrap_or_default().to_owned();
        let arrived = self.began.elapsed();
        let act = destination.play.next(&event, arrived);
        destination.in_flight += 1;
        destination.seen.push(Seen {
            name: name.to_owned(),
            idempotency_key: text("idempotency-key").map(str::to_owned),
            attempt: text("webhook-attempt").and_then(|attempt| attempt.parse().ok()),
            arrived_ms: epoch_ms(),
            arrived,
            in_flight: destination.in_flight,
            body_sha256,
            body: kept.then(|| body.into()),
            event_not_before_ms: destination.event_not_before_ms.get(&event).copied(),
            destination_not_before_ms: destination.not_before_ms,
            ending: Ending::Open,
            retry_after: None,
            not_before_ms: None,
            event,
        });
        let flight = Flight { stage: Arc::clone(self), name: name.to_owned(), index: destination.seen.len() - 1 };
        Ok((act, flight))
    }

    fn with<T>(&self, flight: &Flight, act: impl FnOnce(&mut Destination) -> T) -> Option<T> {
        self.state().destinations.get_mut(&flight.name).map(act)
    }
}

/// A request on its way. Dropped without an ending, its client has left.
#[derive(Debug)]
pub(super) struct Flight {
    stage: Arc<Stage>,
    name: String,
    index: usize,
}

impl Flight {
    /// Whether this 2xx is the one of its event that is lost; asked once it is there.
    pub(super) fn loses(&self) -> bool {
        self.stage.with(self, |destination| destination.loses(self.index)).unwrap_or(false)
    }

    /// Ends it with an answer.
    pub(super) fn answered(self, status: u16, retry_after: Option<u64>) {
        self.stage.with(&self, |destination| destination.answered(self.index, status, retry_after));
    }

    /// Ends it without one.
    pub(super) fn ended(self, ending: Ending) {
        self.stage.with(&self, |destination| destination.end(self.index, ending));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.stage.with(self, |destination| destination.end(self.index, Ending::Left));
    }
}

impl Destination {
    /// The first ending counts.
    fn end(&mut self, index: usize, ending: Ending) {
        if let Some(seen) = self.seen.get_mut(index).filter(|seen| seen.ending == Ending::Open) {
            seen.ending = ending;
            self.in_flight -= 1;
        }
    }

    fn answered(&mut self, index: usize, status: u16, retry_after: Option<u64>) {
        self.end(index, Ending::Answered(status));
        let (Some(seen), Some(seconds)) = (self.seen.get_mut(index), retry_after) else { return };
        let not_before = epoch_ms().saturating_add(seconds.saturating_mul(1000));
        seen.retry_after = Some(seconds);
        seen.not_before_ms = Some(not_before);
        self.not_before_ms = self.not_before_ms.max(Some(not_before));
        let asked = self.event_not_before_ms.entry(seen.event.clone()).or_default();
        *asked = not_before.max(*asked);
    }

    fn loses(&mut self, index: usize) -> bool {
        let Some(seen) = self.seen.get(index) else { return false };
        let fate = self.play.answers.get_mut(&seen.event);
        fate.is_some_and(|fate| std::mem::replace(fate, Fate::Passed) == Fate::ToBeLost)
    }
}

impl Default for Play {
    fn default() -> Self {
        Self::of(Script::Accept)
    }
}

impl Play {
    fn of(script: Script) -> Self {
        let bucket = match &script {
            Script::Bucket { limit_per_second, burst } | Script::BucketBut { limit_per_second, burst, .. } => {
                Some(Bucket::new(*limit_per_second, *burst))
            }
            Script::Accept | Script::Sequence(_) | Script::Hang | Script::Reset | Script::Forward { .. } => None,
        };
        Self { script, bucket, requests: 0, replies: HashMap::new(), answers: HashMap::new() }
    }

    fn next(&mut self, event: &str, now: Duration) -> Act {
        const OK: Reply = Reply::status(200);
        self.requests += 1;
        match &self.script {
            Script::Accept => Act::Answer(OK),
            Script::BucketBut { nth, retry_after, .. } if self.requests == *nth => {
                Act::Answer(Reply::status(429).retry_after(*retry_after))
            }
            Script::Bucket { .. } | Script::BucketBut { .. } => {
                Act::Answer(match self.bucket.as_mut().map(|bucket| bucket.take(now)) {
                    Some(Err(wait)) => Reply::status(429).retry_after(whole_seconds(wait)),
                    Some(Ok(())) | None => OK,
                })
            }
            Script::Sequence(replies) => {
                let next = self.replies.entry(event.to_owned()).or_default();
                let reply = replies.get(*next).or(replies.last()).copied().unwrap_or(OK);
                *next += 1;
                Act::Answer(reply)
            }
            Script::Hang => Act::Hang,
            Script::Reset => Act::Reset,
            Script::Forward { url, lose_answers } => {
                let chosen = match lose_answers {
                    Lose::First(most) => self.answers.len() < *most,
                    Lose::Of(events) => events.contains(event),
                };
                if chosen && !self.answers.contains_key(event) {
                    self.answers.insert(event.to_owned(), Fate::ToBeLost);
                }
                Act::Forward(url.clone())
            }
        }
    }
}

/// Rounded down, as the caller's clock is: see [`super::Checks::early`].
fn epoch_ms() -> u64 {
    u64::try_from(SystemClock.now().millis()).unwrap_or_default()
}
