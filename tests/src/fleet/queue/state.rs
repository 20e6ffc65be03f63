//! What a queue holds: which messages can be received, which are hidden until when, and by whose handle each is held.
//!
//! Owns: the indexes over the messages, and the counts. Must not: know time or chance.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::Outgoing;
use lapse_policy::timestamp::Timestamp;

use super::Where;

/// How long a received message stays hidden (infra/contract.json).
const VISIBILITY: Duration = Duration::from_secs(180);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) next_id: u64,
    pub(super) messages: HashMap<u64, Message>,
    /// By when they became visible, then by chance.
    pub(super) visible: BTreeSet<(Timestamp, u64, u64)>,
    /// By when they become visible.
    pub(super) hidden: BTreeSet<(Timestamp, u64)>,
    pub(super) counts: Counts,
    pub(super) receives: HashMap<DestinationName, u64>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) outgoing: Outgoing,
    pub(super) sent_at: Timestamp,
    pub(super) receives: u32,
    /// Receives whose handles no longer count.
    pub(super) earlier: u32,
    pub(super) place: Place,
    pub(super) moved_from: Option<Where>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
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

impl State {
    /// Hands a message out; `twice` leaves it for another one to receive as well.
    pub(super) fn hand_out(&mut self, id: u64, now: Timestamp, twice: bool) -> Option<Received> {
        let message = self.messages.get_mut(&id)?;
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
        if !twice {
            if let Some(message) = self.messages.get_mut(&id) {
                message.earlier = message.receives - 1;
            }
            self.leave(id);
            self.enter(id, Place::InFlight(now.plus(VISIBILITY)));
        }
        Some(received)
    }

    /// The message whose last receive had this handle, or one that was handed out twice.
    pub(super) fn held_by(&self, receipt: &str) -> Option<u64> {
        let (id, receive) = receipt.split_once('.')?;
        let (id, receive): (u64, u32) = (id.parse().ok()?, receive.parse().ok()?);
        let message = self.messages.get(&id)?;
        (message.earlier < receive && receive <= message.receives).then_some(id)
    }

    pub(super) fn enter(&mut self, id: u64, place: Place) {
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

    pub(super) fn leave(&mut self, id: u64) {
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
