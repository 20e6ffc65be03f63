//! An SQS standard queue, as documented: delays and visibility in whole seconds counted from the call, receive counts,
//! receipt handles of one receive, messages in flight and their limit, the native move after too many receives.
//!
//! Owns: when a message can be received, by whom it is held, and the counts. Must not: know what is in a body.
//! Left out: retention (no scenario lasts 14 days), duplicates, calls that fail.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Accepted, Clock as _, Outbox, Outgoing, Visibility};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;

use super::chance::{Dice, Span, Way};
use super::time::{Signal, Time};

/// How long a received message stays hidden (infra/contract.json).
const VISIBILITY: Duration = Duration::from_secs(180);
/// Receives after which SQS itself moves a message to `dead-letters` (DLQ-5).
const MOST_RECEIVES: u32 = 1000;
/// A standard queue hands out nothing while so many are in flight (SQS quota).
const MOST_IN_FLIGHT: usize = 120_000;
/// Entries of one batch call (SQS quota).
const MOST_ENTRIES: usize = 10;
/// A receive picks from so many times what it takes: a standard queue keeps no order.
const PICKS_FROM: usize = 3;
/// The longest `DelaySeconds` (SQS quota).
const MOST_DELAY: i32 = 900;
/// The longest visibility (SQS quota: 12 hours).
const MOST_VISIBILITY: i32 = 43_200;

/// A handle to one queue.
#[derive(Debug, Clone)]
pub struct Queue(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    time: Time,
    dice: Dice,
    way: Way,
    late: Cell<Span>,
    changed: Signal,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    messages: HashMap<u64, Message>,
    /// By when they became visible, then by chance.
    visible: BTreeSet<(Timestamp, u64, u64)>,
    /// By when they become visible.
    hidden: BTreeSet<(Timestamp, u64)>,
    counts: Counts,
    receives: HashMap<DestinationName, u64>,
}

#[derive(Debug)]
struct Message {
    outgoing: Outgoing,
    sent_at: Timestamp,
    receives: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Whoever asks may get it.
    Visible(Timestamp, u64),
    /// It was sent with a delay.
    Delayed(Timestamp),
    /// It was received and not deleted.
    InFlight(Timestamp),
}

/// What a queue has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent to it.
    pub sent: u64,
    /// Messages received from it, each time anew.
    pub received: u64,
    /// Messages in flight.
    pub in_flight: usize,
    /// The most at any one time.
    pub most_in_flight: usize,
    /// Messages that were moved to `dead-letters` for their receive counts.
    pub moved: u64,
    /// Calls that hid messages.
    pub hide_calls: u64,
    /// Calls that sent messages.
    pub send_calls: u64,
}

impl Queue {
    /// An empty queue. `way` is that of a call, there or back.
    #[must_use]
    pub fn new(time: Time, dice: Dice, way: Way) -> Self {
        let late = Cell::new(Span(0, 0));
        Self(Rc::new(Inner { time, dice, way, late, changed: Signal::default(), state: RefCell::default() }))
    }

    /// From now on, hidden messages become visible so much later than they should.
    pub fn wake_late(&self, late: Span) {
        self.0.late.set(late);
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
        let now = self.0.time.now();
        let mut state = self.0.state.borrow_mut();
        let room = MOST_IN_FLIGHT.saturating_sub(state.counts.in_flight);
        let mut window: Vec<_> = state.visible.iter().take(most * PICKS_FROM).copied().collect();
        let mut received = Vec::with_capacity(most.min(window.len()));
        while received.len() < most.min(room) && !window.is_empty() {
            let key = window.swap_remove(self.0.dice.below(window.len()));
            state.visible.remove(&key);
            received.extend(state.hand_out(key.2, now));
        }
        state.counts.most_in_flight = state.counts.most_in_flight.max(state.counts.in_flight);
        received
    }

    /// Deletes messages by the handles of their last receives. A handle of an earlier one deletes nothing.
    pub fn delete<'a>(&self, receipts: impl Iterator<Item = &'a str>) {
        self.settle();
        let mut state = self.0.state.borrow_mut();
        for receipt in receipts {
            if let Some(id) = state.held_by(receipt) {
                state.leave(id);
                state.messages.remove(&id);
            }
        }
    }

    /// How many can be received now.
    #[must_use]
    pub fn visible(&self) -> usize {
        self.settle();
        self.0.state.borrow().visible.len()
    }

    /// How many there are, in whatever state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.state.borrow().messages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next hidden message becomes visible.
    #[must_use]
    pub fn next_visible(&self) -> Option<Timestamp> {
        self.0.state.borrow().hidden.first().map(|(at, _)| *at)
    }

    /// Raised whenever that, or what is visible, may have changed.
    #[must_use]
    pub fn changed(&self) -> Signal {
        self.0.changed.clone()
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.settle();
        self.0.state.borrow().counts
    }

    /// How often messages for this destination were received.
    #[must_use]
    pub fn receives_of(&self, destination: &DestinationName) -> u64 {
        self.0.state.borrow().receives.get(destination).copied().unwrap_or_default()
    }

    fn accept(&self, outgoing: &Outgoing) -> Accepted {
        let delay = outgoing.delay_seconds;
        if !(0..=MOST_DELAY).contains(&delay) {
            return Accepted::Never(format!("DelaySeconds is {delay}"));
        }
        let now = self.0.time.now();
        let mut state = self.0.state.borrow_mut();
        let id = state.next_id;
        state.next_id += 1;
        state.counts.sent += 1;
        let place =
            if delay == 0 { Place::Visible(now, self.0.dice.roll()) } else { Place::Delayed(self.after(delay)) };
        state.messages.insert(id, Message { outgoing: outgoing.clone(), sent_at: now, receives: 0, place });
        state.enter(id, place);
        drop(state);
        self.0.changed.raise();
        Accepted::Yes
    }

    fn hide_one(&self, receipt: &str, seconds: i32) -> Accepted {
        if !(0..=MOST_VISIBILITY).contains(&seconds) {
            return Accepted::Never(format!("VisibilityTimeout is {seconds}"));
        }
        let mut state = self.0.state.borrow_mut();
        let held = state.held_by(receipt);
        let Some((id, Place::InFlight(_))) = held.and_then(|id| Some((id, state.messages.get(&id)?.place))) else {
            return Accepted::No("MessageNotInflight".to_owned());
        };
        let place = if seconds == 0 {
            Place::Visible(self.0.time.now(), self.0.dice.roll())
        } else {
            Place::InFlight(self.after(seconds))
        };
        state.leave(id);
        state.enter(id, place);
        drop(state);
        self.0.changed.raise();
        Accepted::Yes
    }

    fn after(&self, seconds: i32) -> Timestamp {
        let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.0.time.now().plus(seconds + self.0.dice.span(self.0.late.get()))
    }

    /// Makes visible what is due.
    fn settle(&self) {
        let now = self.0.time.now();
        let mut state = self.0.state.borrow_mut();
        while let Some((at, id)) = state.hidden.first().copied().filter(|(at, _)| *at <= now) {
            state.leave(id);
            state.enter(id, Place::Visible(at, self.0.dice.roll()));
        }
    }
}

impl State {
    fn hand_out(&mut self, id: u64, now: Timestamp) -> Option<Received> {
        let message = self.messages.get_mut(&id)?;
        if message.receives >= MOST_RECEIVES {
            self.messages.remove(&id);
            self.counts.moved += 1;
            return None;
        }
        message.receives += 1;
        let received = Received {
            message_id: format!("m{id}"),
            receipt_handle: format!("{id}.{}", message.receives),
            body: Arc::clone(&message.outgoing.body),
            receives: message.receives,
            sent_at: Some(message.sent_at),
            origin: message.outgoing.origin,
        };
        if let Some(group) = message.outgoing.group.clone() {
            *self.receives.entry(group).or_default() += 1;
        }
        self.counts.received += 1;
        self.enter(id, Place::InFlight(now.plus(VISIBILITY)));
        Some(received)
    }

    /// The message whose last receive had this handle.
    fn held_by(&self, receipt: &str) -> Option<u64> {
        let (id, receives) = receipt.split_once('.')?;
        let id = id.parse().ok()?;
        let message = self.messages.get(&id)?;
        (message.receives.to_string() == receives).then_some(id)
    }

    fn enter(&mut self, id: u64, place: Place) {
        match place {
            Place::Visible(since, chance) => {
                self.visible.insert((since, chance, id));
            }
            Place::Delayed(until) => {
                self.hidden.insert((until, id));
            }
            Place::InFlight(until) => {
                self.hidden.insert((until, id));
                self.counts.in_flight += 1;
            }
        }
        if let Some(message) = self.messages.get_mut(&id) {
            message.place = place;
        }
    }

    fn leave(&mut self, id: u64) {
        match self.messages.get(&id).map(|message| message.place) {
            Some(Place::Visible(since, chance)) => {
                self.visible.remove(&(since, chance, id));
            }
            Some(Place::Delayed(until)) => {
                self.hidden.remove(&(until, id));
            }
            Some(Place::InFlight(until)) => {
                self.hidden.remove(&(until, id));
                self.counts.in_flight -= 1;
            }
            None => {}
        }
    }
}

impl Outbox for Queue {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        let mut answers = Vec::with_capacity(messages.len());
        for call in messages.chunks(MOST_ENTRIES) {
            self.0.way.go().await;
            self.0.state.borrow_mut().counts.send_calls += 1;
            answers.extend(call.iter().map(|message| self.accept(message)));
            self.0.way.go().await;
        }
        answers
    }
}

impl Visibility for Queue {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        let mut answers = Vec::with_capacity(messages.len());
        for call in messages.chunks(MOST_ENTRIES) {
            self.0.way.go().await;
            self.0.state.borrow_mut().counts.hide_calls += 1;
            answers.extend(call.iter().map(|(receipt, seconds)| self.hide_one(receipt, *seconds)));
            self.0.way.go().await;
        }
        answers
    }
}
