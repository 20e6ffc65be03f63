//! An SQS standard queue, as documented: delays and visibility in whole seconds counted from the call, receive counts,
//! receipt handles of one receive, messages in flight and their limit, the native move after too many receives.
//!
//! Owns: when a message can be received, by whom it is held, and the counts. Must not: know what is in a body.
//! Where the weather is bad: messages handed out twice, deletes that are lost, entries and calls that fail, visibility
//! that ends late. Left out: a deletion that is overtaken by a receive on another of its servers is a lost one here.

mod calls;
mod state;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Clock as _, Outgoing};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;

use super::chance::{Dice, Span, Way};
use super::steps::{Eyes, Place as Where, Step, Why};
use super::time::{Signal, Time};
use super::weather::Fault;
pub use state::Counts;
use state::{Message, Place, State};

/// How long a message is kept from its first send on (infra/contract.json).
const RETENTION: Duration = Duration::from_hours(14 * 24);
/// A standard queue hands out nothing while so many are in flight (SQS quota).
const MOST_IN_FLIGHT: usize = 120_000;
/// A receive picks from so many times what it takes: a standard queue keeps no order.
const PICKS_FROM: usize = 3;

/// Who calls a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// `deliver`.
    Deliver,
    /// `expiry`.
    Expiry,
    /// `triage`.
    Triage,
    /// A producer, an operator, or SQS itself.
    Other,
}

/// What a queue is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which queue it is.
    pub place: Where,
    /// Receives after which SQS itself moves a message to `dead-letters` (infra/contract.json).
    pub most_receives: u32,
    /// Where it moves it.
    pub dead_letters: Option<Queue>,
    /// How many messages may be in flight.
    pub most_in_flight: usize,
}

impl Settings {
    /// The queue `deliveries` without a dead-letter queue: what is moved is gone.
    #[must_use]
    pub fn deliveries() -> Self {
        let place = Where::Deliveries;
        Self { place, most_receives: 1000, dead_letters: None, most_in_flight: MOST_IN_FLIGHT }
    }
}

/// A handle to one queue.
#[derive(Debug, Clone)]
pub struct Queue {
    inner: Rc<Inner>,
    by: By,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    time: Time,
    dice: Dice,
    way: Way,
    eyes: Eyes,
    late: Cell<Span>,
    changed: Signal,
    state: RefCell<State>,
}

impl Queue {
    /// An empty queue. `way` is that of a call, there or back.
    #[must_use]
    pub fn new(settings: Settings, time: Time, dice: Dice, way: Way, eyes: Eyes) -> Self {
        let (late, changed) = (Cell::new(Span(0, 0)), Signal::default());
        let inner = Inner { settings, time, dice, way, eyes, late, changed, state: RefCell::default() };
        Self { inner: Rc::new(inner), by: By::Other }
    }

    /// The same queue, in the hands of someone else.
    #[must_use]
    pub fn by(&self, by: By) -> Self {
        Self { inner: Rc::clone(&self.inner), by }
    }

    /// From now on, hidden messages become visible so much later than they should.
    pub fn wake_late(&self, late: Span) {
        self.inner.late.set(late);
    }

    /// A message that is simply there.
    pub fn put(&self, body: Arc<str>, destination: &DestinationName) {
        let group = Some(destination.clone());
        self.accept(&Outgoing { body, group, delay_seconds: 0, origin: Origin::New });
    }

    /// Receives up to `most` messages, the longest visible first and no more exactly than that.
    #[must_use]
    pub fn receive(&self, most: usize) -> Vec<Received> {
        self.settle();
        let room = {
            let state = self.inner.state.borrow();
            self.inner.settings.most_in_flight.saturating_sub(state.counts.in_flight)
        };
        let window = |state: &State| state.visible.iter().take(most * PICKS_FROM).copied().collect::<Vec<_>>();
        let mut window = window(&self.inner.state.borrow());
        let mut received = Vec::with_capacity(most.min(window.len()));
        while received.len() < most.min(room) && !window.is_empty() {
            let key = window.swap_remove(self.inner.dice.below(window.len()));
            received.extend(self.hand_out(key.2));
        }
        let mut state = self.inner.state.borrow_mut();
        state.counts.most_in_flight = state.counts.most_in_flight.max(state.counts.in_flight);
        received
    }

    /// An operator's move: all that is in it goes, as new messages, to where it came from (`StartMessageMoveTask`).
    /// Returns how many went.
    pub fn redrive(&self, source: impl Fn(Option<Where>) -> Self) -> usize {
        let mut ids: Vec<_> = self.inner.state.borrow().messages.keys().copied().collect();
        ids.sort_unstable();
        for id in &ids {
            let found = self.inner.state.borrow().messages.get(id).map(|m| (m.outgoing.clone(), m.moved_from));
            let Some((outgoing, moved_from)) = found else { continue };
            source(moved_from).accept(&Outgoing { delay_seconds: 0, ..outgoing.clone() });
            let mut state = self.inner.state.borrow_mut();
            state.leave(*id);
            state.messages.remove(id);
            drop(state);
            self.gone(&outgoing.body, Why::Redriven);
        }
        ids.len()
    }

    /// Hands one message out, or takes it away: retention, or one receive too many.
    fn hand_out(&self, id: u64) -> Option<Received> {
        let now = self.inner.time.now();
        let settings = &self.inner.settings;
        let mut state = self.inner.state.borrow_mut();
        let message = state.messages.get(&id)?;
        let why = if message.sent_at.plus(RETENTION) <= now {
            Some(Why::Retention)
        } else if message.receives >= settings.most_receives {
            Some(Why::Moved)
        } else {
            None
        };
        if let Some(why) = why {
            state.leave(id);
            let message = state.messages.remove(&id)?;
            state.counts.moved += u64::from(why == Why::Moved);
            drop(state);
            if let Some(dead_letters) = settings.dead_letters.as_ref().filter(|_| why == Why::Moved) {
                dead_letters.adopt(&message, settings.place);
            }
            self.gone(&message.outgoing.body, why);
            return None;
        }
        let twice = self.inner.way.weather().strikes(self.odds(), Fault::Duplicate);
        let received = state.hand_out(id, now, twice)?;
        drop(state);
        self.inner.eyes.see(now, || Step::Received(settings.place, Arc::clone(&received.body), received.receives));
        Some(received)
    }

    /// Takes over a message that SQS moves here: its id and its age stay.
    fn adopt(&self, message: &Message, from: Where) {
        let (outgoing, sent_at) = (message.outgoing.clone(), message.sent_at);
        self.insert(outgoing, sent_at, Place::Visible(self.inner.time.now(), self.inner.dice.roll()), Some(from));
    }

    fn insert(&self, outgoing: Outgoing, sent_at: Timestamp, place: Place, moved_from: Option<Where>) {
        let body = Arc::clone(&outgoing.body);
        let mut state = self.inner.state.borrow_mut();
        let id = state.next_id;
        state.next_id += 1;
        let message = Message { outgoing, sent_at, receives: 0, earlier: 0, place, moved_from };
        state.messages.insert(id, message);
        state.enter(id, place);
        drop(state);
        self.inner.eyes.see(self.inner.time.now(), || Step::Put(self.inner.settings.place, body));
    }

    fn gone(&self, body: &Arc<str>, why: Why) {
        self.inner.eyes.see(self.inner.time.now(), || Step::Gone(self.inner.settings.place, Arc::clone(body), why));
    }

    /// How often SQS itself is at fault, as often as its calls are.
    fn odds(&self) -> u32 {
        self.inner.way.odds().entry
    }

    /// Deletes messages by the handles of their last receives. A handle of an earlier one deletes nothing.
    pub fn delete<'a>(&self, receipts: impl Iterator<Item = &'a str>) {
        self.settle();
        for receipt in receipts {
            if self.inner.way.weather().strikes(self.odds(), Fault::DeleteLost) {
                continue;
            }
            let mut state = self.inner.state.borrow_mut();
            if let Some(id) = state.held_by(receipt) {
                state.leave(id);
                let message = state.messages.remove(&id);
                drop(state);
                if let Some(message) = message {
                    self.gone(&message.outgoing.body, Why::Done);
                }
            }
        }
    }

    /// How many can be received now.
    #[must_use]
    pub fn visible(&self) -> usize {
        self.settle();
        self.inner.state.borrow().visible.len()
    }

    /// How many there are, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.state.borrow().messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next hidden message becomes visible.
    #[must_use]
    pub fn next_visible(&self) -> Option<Timestamp> {
        self.inner.state.borrow().hidden.first().map(|(at, _)| *at)
    }

    /// Raised whenever that, or what is visible, may have changed.
    #[must_use]
    pub fn changed(&self) -> Signal {
        self.inner.changed.clone()
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.settle();
        self.inner.state.borrow().counts
    }

    /// How often messages for this destination were received.
    #[must_use]
    pub fn receives_of(&self, destination: &DestinationName) -> u64 {
        self.inner.state.borrow().receives.get(destination).copied().unwrap_or_default()
    }

    /// Makes visible what is due.
    fn settle(&self) {
        let now = self.inner.time.now();
        let mut state = self.inner.state.borrow_mut();
        while let Some((at, id)) = state.hidden.first().copied().filter(|(at, _)| *at <= now) {
            state.leave(id);
            state.enter(id, Place::Visible(at, self.inner.dice.roll()));
        }
    }
}
