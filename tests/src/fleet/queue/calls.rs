//! The calls of a queue: sending, hiding, and what may go wrong with them (ACK-3).
//!
//! Owns: batch calls, their entries, and the bugs that are planted in them. Must not: hand messages out.

use std::sync::Arc;
use std::time::Duration;

use lapse_policy::ports::{Accepted, Clock as _, Outbox, Outgoing, Visibility};
use lapse_policy::timestamp::Timestamp;

use super::super::bugs::Bug;
use super::super::chance::Span;
use super::super::steps::{Place as Where, Step};
use super::super::weather::{Fate, Fault};
use super::state::Place;
use super::{By, Counts, Queue};

/// Entries of one batch call (SQS quota).
const MOST_ENTRIES: usize = 10;
/// The longest `DelaySeconds` (SQS quota).
const MOST_DELAY: i32 = 900;
/// The longest visibility (SQS quota: 12 hours).
const MOST_VISIBILITY: i32 = 43_200;
/// How long a message that is late becomes visible after its time, where the weather is bad.
const LATE: Span = Span(1000, 90_000);

impl Queue {
    pub(super) fn accept(&self, outgoing: &Outgoing) -> Accepted {
        let delay = self.perhaps_early(outgoing.delay_seconds);
        if !(0..=MOST_DELAY).contains(&delay) {
            return Accepted::Never(format!("DelaySeconds is {delay}"));
        }
        let now = self.inner.time.now();
        self.inner.state.borrow_mut().counts.sent += 1;
        let place =
            if delay == 0 { Place::Visible(now, self.inner.dice.roll()) } else { Place::Delayed(self.after(delay)) };
        let outgoing = Outgoing { body: self.as_written(outgoing), ..outgoing.clone() };
        self.insert(outgoing, now, place, None);
        self.inner.changed.raise();
        Accepted::Yes
    }

    /// The body as the sender wrote it, or as a planted bug makes it.
    fn as_written(&self, outgoing: &Outgoing) -> Arc<str> {
        let anew = self.inner.way.has(Bug::WrittenAnew) && self.by != By::Other;
        let value = serde_json::from_str::<serde_json::Value>(&outgoing.body).ok().filter(|_| anew);
        value.map_or_else(|| Arc::clone(&outgoing.body), |value| value.to_string().into())
    }

    /// A wait as it was asked for, or as a planted bug makes it.
    fn perhaps_early(&self, seconds: i32) -> i32 {
        if self.inner.way.has(Bug::JitterSubtracts) { seconds * 3 / 4 } else { seconds }
    }

    /// Whether a planted bug makes this sender believe that its messages are accepted.
    fn swallows(&self) -> bool {
        let place = self.inner.settings.place;
        let bug = match (self.by, place) {
            (By::Deliver, Where::Deliveries) => Bug::RepublishedNowhere,
            (By::Deliver, _) => Bug::LetterNowhere,
            (By::Expiry, _) => Bug::EmittedNowhere,
            (By::Triage, _) => Bug::RedrivenNowhere,
            (By::Other, _) => return false,
        };
        self.inner.way.has(bug)
    }

    /// One entry of a batch call with what may go wrong with it alone.
    fn entry(&self, carry_out: impl FnOnce() -> Accepted) -> Accepted {
        let failed = || Accepted::No("InternalError".to_owned());
        match self.inner.way.fate_of_entry() {
            Fate::Fine | Fate::ReplyLost => carry_out(),
            Fate::Lost | Fate::Fails => failed(),
            Fate::FailsDone => {
                carry_out();
                failed()
            }
        }
    }

    fn hide_one(&self, receipt: &str, seconds: i32) -> Accepted {
        if !(0..=MOST_VISIBILITY).contains(&seconds) {
            return Accepted::Never(format!("VisibilityTimeout is {seconds}"));
        }
        let seconds = if self.inner.way.has(Bug::NeverHidden) { 0 } else { self.perhaps_early(seconds) };
        let mut state = self.inner.state.borrow_mut();
        let held = state.held_by(receipt);
        let Some((id, Place::InFlight(_))) = held.and_then(|id| Some((id, state.messages.get(&id)?.place))) else {
            return Accepted::No("MessageNotInflight".to_owned());
        };
        let place = if seconds == 0 {
            Place::Visible(self.inner.time.now(), self.inner.dice.roll())
        } else {
            Place::InFlight(self.after(seconds))
        };
        state.leave(id);
        state.enter(id, place);
        let body = state.messages.get(&id).map(|message| Arc::clone(&message.outgoing.body)).unwrap_or_default();
        drop(state);
        self.inner.eyes.see(self.inner.time.now(), || Step::Hidden(self.inner.settings.place, body, seconds));
        self.inner.changed.raise();
        Accepted::Yes
    }

    fn after(&self, seconds: i32) -> Timestamp {
        let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let mut late = self.inner.dice.span(self.inner.late.get());
        if self.inner.way.weather().strikes(self.odds(), Fault::LateVisible) {
            late += self.inner.dice.span(LATE);
        }
        self.inner.time.now().plus(seconds + late)
    }
}

impl Queue {
    /// Batch calls of ten, each entry answered on its own.
    async fn calls<T>(
        &self,
        items: &[T],
        count: impl Fn(&mut Counts),
        carry_out: impl Fn(&T) -> Accepted,
    ) -> Vec<Accepted> {
        let mut answers = Vec::with_capacity(items.len());
        for call in items.chunks(MOST_ENTRIES) {
            let effect = || {
                count(&mut self.inner.state.borrow_mut().counts);
                call.iter().map(|item| self.entry(|| carry_out(item))).collect::<Vec<_>>()
            };
            match self.inner.way.call(effect).await {
                Ok(answered) => answers.extend(answered),
                Err(error) => answers.extend(call.iter().map(|_| Accepted::No(error.to_string()))),
            }
        }
        answers
    }
}

impl Outbox for Queue {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        let swallows = self.swallows();
        let accept = |message: &Outgoing| if swallows { Accepted::Yes } else { self.accept(message) };
        self.calls(messages, |counts| counts.send_calls += 1, accept).await
    }
}

impl Visibility for Queue {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        let hide = |(receipt, seconds): &(String, i32)| self.hide_one(receipt, *seconds);
        self.calls(messages, |counts| counts.hide_calls += 1, hide).await
    }
}
