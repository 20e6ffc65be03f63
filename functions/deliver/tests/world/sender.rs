//! Receivers that answer as they are told.
//!
//! Owns: what was sent to whom, when, and how it ended. Must not: sign or connect.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Failure, Outcome};
use lapse_policy::ports::{Attempt, Clock as _, Sender, Sent};
use lapse_policy::timestamp::Timestamp;

use super::journal::Journal;
use super::time::Time;

/// How long a receiver takes unless it is told otherwise.
pub(crate) const TAKES: Duration = Duration::from_millis(50);

/// How a receiver answers one request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// With this status.
    Status(u16),
    /// With this status and a `Retry-After` of so many seconds.
    Later(u16, u64),
    /// Not at all.
    Fails(Failure),
    /// With this status, after so long.
    Slow(u16, Duration),
    /// The sender itself breaks.
    Panics,
    /// Never, not even at its timeout.
    Hangs,
}

/// A request that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) destination: String,
    pub(crate) id: String,
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
    pub(crate) payload: String,
}

/// How many requests a receiver has at once, and had at most.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    now: Cell<usize>,
    pub(crate) most: Cell<usize>,
}

/// One request, until it is answered or dropped.
struct Present(Rc<Crowd>);

impl Present {
    fn of(crowd: &Rc<Crowd>) -> Self {
        crowd.now.set(crowd.now.get() + 1);
        crowd.most.set(crowd.most.get().max(crowd.now.get()));
        Self(Rc::clone(crowd))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.now.set(self.0.now.get() - 1);
    }
}

#[derive(Debug)]
pub(crate) struct Receivers {
    pub(crate) requests: RefCell<Vec<Request>>,
    replies: RefCell<HashMap<String, VecDeque<Reply>>>,
    crowds: RefCell<HashMap<String, Rc<Crowd>>>,
    time: Time,
    journal: Journal,
}

impl Receivers {
    pub(crate) fn new(time: Time, journal: Journal) -> Self {
        let (requests, replies, crowds) = Default::default();
        Self { requests, replies, crowds, time, journal }
    }

    /// The replies to this event's next requests; then it is 200.
    pub(crate) fn reply(&self, id: &str, replies: &[Reply]) {
        self.replies.borrow_mut().entry(id.to_owned()).or_default().extend(replies);
    }

    /// The requests that a destination has at once.
    pub(crate) fn crowd(&self, destination: &str) -> Rc<Crowd> {
        Rc::clone(self.crowds.borrow_mut().entry(destination.to_owned()).or_default())
    }
}

impl Sender for Receivers {
    async fn send(&self, attempt: &Attempt) -> Sent {
        let id = attempt.id.to_string();
        self.journal.note(format!("send {id}"));
        assert_eq!(attempt.at, self.time.now(), "a fresh webhook-timestamp per attempt");
        self.requests.borrow_mut().push(Request {
            destination: attempt.destination.name.to_string(),
            id: id.clone(),
            number: attempt.number,
            at: attempt.at,
            payload: attempt.payload.to_string(),
        });
        let _present = Present::of(&self.crowd(attempt.destination.name.as_str()));
        let reply = self.replies.borrow_mut().get_mut(&id).and_then(VecDeque::pop_front);
        let answered = |status, asked| Outcome::Answered(Answer { status, asked, location_host: None });
        let (outcome, takes) = match reply.unwrap_or(Reply::Status(200)) {
            Reply::Status(status) => (answered(status, None), TAKES),
            Reply::Later(status, seconds) => (answered(status, Some(Duration::from_secs(seconds))), TAKES),
            Reply::Slow(status, takes) => (answered(status, None), takes),
            Reply::Fails(failure) => (Outcome::Failed(failure), TAKES),
            Reply::Panics => panic!("the sender of {id} was told to"),
            Reply::Hangs => std::future::pending().await,
        };
        self.journal.takes(takes).await;
        Sent { outcome, excerpt: None }
    }
}
