//! The catalog: the real reference receiver over a table of reservations, and the service that holds, extends and
//! takes payments.
//!
//! Owns: that table in virtual time. Must not: judge; the receiver's own code does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use lambda_http::http::{Request, header};
use lambda_http::{Body, Response};
use lapse_aws::signer;
use lapse_policy::classifier::Answer;
use lapse_policy::names::EventId;
use lapse_policy::ports::{Attempt, Clock as _, Unavailable};
use lapse_policy::timestamp::Timestamp;
use lapse_receiver::decide::{Decision, HELD, PAID, RELEASED, Refusal, Reservation};
use lapse_receiver::event::Event;
use lapse_receiver::handler::handle;
use lapse_receiver::receive::{Receiver, Reservations, Stored};

use crate::fleet::bugs::Bug;
use crate::fleet::chance::{Dice, Way};
use crate::fleet::lot::Lot;
use crate::fleet::receivers::Backend;
use crate::fleet::steps::{Eyes, Step};
use crate::fleet::time::{SandboxClock, Time};

/// The timeout of `receiver` (infra/contract.json).
const TIMEOUT: Duration = Duration::from_secs(30);

/// The table, and who writes to it.
#[derive(Debug, Clone)]
pub struct Catalog {
    time: Time,
    dice: Dice,
    way: Way,
    eyes: Eyes,
    lot: Lot,
    tables: Rc<RefCell<Tables>>,
}

#[derive(Debug, Default)]
struct Tables {
    reservations: BTreeMap<String, Reservation>,
    decisions: BTreeMap<EventId, Decision>,
}

impl Catalog {
    /// An empty one.
    #[must_use]
    pub fn new(time: Time, dice: Dice, way: Way, eyes: Eyes, lot: Lot) -> Self {
        Self { time, dice, way, eyes, lot, tables: Rc::default() }
    }

    /// A slot is held: a new reservation, or a new version of one that is still held. The version, if it is.
    #[must_use]
    pub fn hold(&self, reservation: &str) -> Option<u64> {
        let mut tables = self.tables.borrow_mut();
        let new = Reservation { status: HELD.to_owned(), version: 0 };
        let row = tables.reservations.entry(reservation.to_owned()).or_insert(new);
        if row.status != HELD {
            return None;
        }
        row.version += 1;
        Some(row.version)
    }

    /// It is paid, if it is still held.
    pub fn pay(&self, reservation: &str) {
        let mut tables = self.tables.borrow_mut();
        let Some(row) = tables.reservations.get_mut(reservation).filter(|row| row.status == HELD) else { return };
        PAID.clone_into(&mut row.status);
        drop(tables);
        self.eyes.see(self.way.now(), || Step::Paid(reservation.to_owned()));
    }

    fn decided(&self, id: &EventId) -> bool {
        self.tables.borrow().decisions.contains_key(id)
    }

    /// One transaction: the decision if there is none, and the slot if it is held at this version.
    fn release_at_once(&self, event: &Event) -> Stored {
        let mut tables = self.tables.borrow_mut();
        if tables.decisions.contains_key(&event.id) {
            return Stored::Decided;
        }
        let blind = self.way.has(Bug::ReleasedBlindly);
        let row = tables.reservations.get_mut(&event.reservation);
        let held = |row: &&mut Reservation| row.status == HELD && row.version == event.version;
        let Some(row) = row.filter(|row| blind || held(row)) else { return Stored::NotHeld };
        let paid = row.status == PAID;
        RELEASED.clone_into(&mut row.status);
        tables.decisions.insert(event.id.clone(), Decision::Released);
        drop(tables);
        self.eyes.see(self.way.now(), || Step::Released(event.reservation.clone(), event.version, paid));
        Stored::Yes
    }

    fn refuse_at_once(&self, event: &Event, refusal: Refusal) -> Stored {
        let mut tables = self.tables.borrow_mut();
        if tables.decisions.contains_key(&event.id) {
            return Stored::Decided;
        }
        tables.decisions.insert(event.id.clone(), Decision::Refused(refusal));
        Stored::Yes
    }

    async fn respond(self, attempt: Attempt) -> Option<Answer> {
        let clock = SandboxClock::new(self.time.clone(), self.lot.ahead_ms());
        let secrets = attempt.destination.secrets.clone();
        let (body, seconds) = (attempt.payload.as_bytes().to_vec(), attempt.at.seconds());
        let signature = signer::signature(&secrets, attempt.id.as_str(), seconds, &body);
        let request = Request::post("https://receiver.example/")
            .header("webhook-id", attempt.id.as_str())
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(Body::Binary(body))
            .ok()?;
        let (answer, chance) = if self.way.has(Bug::DecidedTooSoon) {
            (Some(Answer { status: 200, ..Answer::default() }), None)
        } else {
            (None, Some(self.dice.clone()))
        };
        let answer = match chance {
            None => answer,
            Some(chance) => {
                let receiver = Receiver { store: self.clone(), clock, chance, secrets };
                let work = Box::pin(async move { handle(&receiver, request).await });
                let (_, response) = self.lot.run(work, TIMEOUT).await;
                response.and_then(Result::ok).map(|response| read(&response))
            }
        }?;
        let stored = self.decided(&attempt.id);
        self.eyes.see(self.time.now(), || Step::Told(attempt.id.clone(), answer.status, stored));
        Some(answer)
    }
}

fn read(response: &Response<Body>) -> Answer {
    let seconds = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Answer { status: response.status().as_u16(), asked: seconds.map(Duration::from_secs), location_host: None }
}

impl Backend for Catalog {
    fn receive(&self, attempt: &Attempt) -> Pin<Box<dyn Future<Output = Option<Answer>>>> {
        Box::pin(self.clone().respond(attempt.clone()))
    }
}

impl Reservations for Catalog {
    async fn release(&self, event: &Event, _: Timestamp) -> Result<Stored, Unavailable> {
        // The SDK's token makes a repeat of one call the success that it was.
        let mut first = None;
        self.way.call(|| *first.get_or_insert_with(|| self.release_at_once(event))).await
    }

    async fn refuse(&self, event: &Event, refusal: Refusal, _: Timestamp) -> Result<Stored, Unavailable> {
        self.way.call(|| self.refuse_at_once(event, refusal)).await
    }

    async fn decision(&self, id: &EventId) -> Result<Option<Decision>, Unavailable> {
        self.way.call(|| self.tables.borrow().decisions.get(id).copied()).await
    }

    async fn reservation(&self, id: &str) -> Result<Option<Reservation>, Unavailable> {
        let copy = |row: &Reservation| Reservation { status: row.status.clone(), version: row.version };
        self.way.call(|| self.tables.borrow().reservations.get(id).map(copy)).await
    }
}
