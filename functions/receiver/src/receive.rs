//! The use case: the order of the calls that turn one request into one durable decision.
//!
//! Owns: RCV-1 to RCV-5 as a sequence, and how often a busy store is asked again.
//! Must not: know HTTP, Lambda or DynamoDB; answer a decision that is not stored (RCV-4).

use std::future::Future;
use std::time::Duration;

use lapse_aws::signer::{self, Refused};
use lapse_policy::message::Malformed;
use lapse_policy::names::EventId;
use lapse_policy::ports::{Chance, Clock, Unavailable};
use lapse_policy::secret::Secret;
use lapse_policy::timestamp::Timestamp;

use crate::decide::{Decision, Refusal, Reservation, judge};
use crate::event::Event;

/// How often the store is asked while others hold the same rows. A transaction lasts some 10 ms, so that even
/// a crowd has passed by then; if not, the sender's next attempt finds the decision.
const TRIES: u32 = 5;
/// The longest wait after the first try; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// What the store did with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The decision is durable.
    Yes,
    /// There is a decision under this event id.
    Decided,
    /// The reservation is not held at this version; nothing was written.
    NotHeld,
    /// Another transaction holds one of the rows; nothing was written.
    Busy,
}

/// The table of reservations and of the decisions about them.
pub trait Reservations {
    /// In one transaction: the decision `released` under the event id if there is none, and the reservation
    /// released if it is held at this version (RCV-1).
    fn release(&self, event: &Event, now: Timestamp) -> impl Future<Output = Result<Stored, Unavailable>>;
    /// The decision `refused` under the event id if there is none (RCV-3).
    fn refuse(
        &self,
        event: &Event,
        refusal: Refusal,
        now: Timestamp,
    ) -> impl Future<Output = Result<Stored, Unavailable>>;
    /// The decision under an event id, strongly consistent.
    fn decision(&self, id: &EventId) -> impl Future<Output = Result<Option<Decision>, Unavailable>>;
    /// A reservation, strongly consistent.
    fn reservation(&self, id: &str) -> impl Future<Output = Result<Option<Reservation>, Unavailable>>;
}

/// One request, its headers read.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// `webhook-id`.
    pub id: EventId,
    /// `webhook-timestamp`, in seconds.
    pub timestamp_s: i64,
    /// `webhook-signature`.
    pub signature: String,
    /// The body's own bytes.
    pub body: Vec<u8>,
}

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A decision is durable.
    Decided {
        /// Which.
        decision: Decision,
        /// Whether it was there before this request (RCV-2).
        repeated: bool,
    },
    /// The hold still lasts so long (RCV-5).
    Early(Duration),
    /// The signature does not hold.
    Forged(Refused),
    /// It is no event.
    Malformed(Malformed),
    /// Others are at work on the same rows: the next attempt will find a decision.
    Busy,
    /// The store could not be used: a decision may or may not be there.
    Unavailable(Unavailable),
}

/// The receiver with what it needs of the world.
#[derive(Debug)]
pub struct Receiver<S, C, R> {
    /// The table.
    pub store: S,
    /// Time.
    pub clock: C,
    /// Chance, for the waits of a crowd.
    pub chance: R,
    /// The live secrets.
    pub secrets: Vec<Secret>,
}

impl<S: Reservations, C: Clock, R: Chance> Receiver<S, C, R> {
    /// Authenticates, reads, decides.
    pub async fn receive(&self, delivery: Delivery) -> Answer {
        let now = self.clock.now();
        let Delivery { id, timestamp_s, signature, body } = delivery;
        // The signature comes first: nothing of a forged body is looked at.
        if let Err(refused) = signer::verify(&self.secrets, id.as_str(), timestamp_s, &body, &signature, now.seconds())
        {
            return Answer::Forged(refused);
        }
        let event = match Event::parse(id, &body) {
            Ok(event) => event,
            Err(malformed) => return Answer::Malformed(malformed),
        };
        if let Some(left) = event.early_by(now) {
            return Answer::Early(left);
        }
        self.decide(&event, now).await.unwrap_or_else(Answer::Unavailable)
    }

    async fn decide(&self, event: &Event, now: Timestamp) -> Result<Answer, Unavailable> {
        for tried in 0..TRIES {
            if tried > 0 {
                self.wait(tried).await;
            }
            let (stored, decision) = match self.store.release(event, now).await? {
                Stored::NotHeld => {
                    let reservation = self.store.reservation(&event.reservation).await?;
                    // Held after all: it changed in between.
                    let Some(refusal) = judge(event, reservation.as_ref()) else { continue };
                    (self.store.refuse(event, refusal, now).await?, Decision::Refused(refusal))
                }
                stored @ (Stored::Yes | Stored::Decided | Stored::Busy) => (stored, Decision::Released),
            };
            match stored {
                Stored::Yes => return Ok(Answer::Decided { decision, repeated: false }),
                Stored::Decided => {
                    if let Some(decision) = self.store.decision(&event.id).await? {
                        return Ok(Answer::Decided { decision, repeated: true });
                    }
                }
                Stored::NotHeld | Stored::Busy => {}
            }
        }
        Ok(Answer::Busy)
    }

    async fn wait(&self, tried: u32) {
        let most = FIRST_WAIT.saturating_mul(1 << (tried - 1));
        self.clock.sleep_until(self.clock.now().plus(most.mul_f64(0.5 + self.chance.draw() / 2.0))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const SECRET: &str = "whsec_bGFwc2UtbG9jYWwtc3RhY2stbm90LWEtc2VjcmV0";
    const BODY: &[u8] = br#"{"reservation_id":"res_1","event_version":3,"resource":"studio-7",
        "hold_expires_at":"2026-11-30T12:00:00Z"}"#;

    /// One answer of the store.
    #[derive(Debug, Clone)]
    enum Says {
        Release(Stored),
        Refuse(Stored),
        Decision(Option<Decision>),
        Row(Option<Reservation>),
        Down,
    }

    /// A store, a clock and a die that follow a script; the clock notes what was waited for.
    #[derive(Debug, Default)]
    struct Scripted {
        says: Mutex<VecDeque<Says>>,
        waits: Mutex<Vec<u64>>,
    }

    impl Scripted {
        fn next(&self) -> Result<Says, Unavailable> {
            let says = self.says.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let says = says.expect("one call more than the script has");
            if matches!(says, Says::Down) { Err(outage()) } else { Ok(says) }
        }
    }

    impl Reservations for &Scripted {
        async fn release(&self, _: &Event, _: Timestamp) -> Result<Stored, Unavailable> {
            let Says::Release(stored) = self.next()? else { panic!("release was not expected") };
            Ok(stored)
        }

        async fn refuse(&self, _: &Event, _: Refusal, _: Timestamp) -> Result<Stored, Unavailable> {
            let Says::Refuse(stored) = self.next()? else { panic!("refuse was not expected") };
            Ok(stored)
        }

        async fn decision(&self, _: &EventId) -> Result<Option<Decision>, Unavailable> {
            let Says::Decision(decision) = self.next()? else { panic!("decision was not expected") };
            Ok(decision)
        }

        async fn reservation(&self, _: &str) -> Result<Option<Reservation>, Unavailable> {
            let Says::Row(row) = self.next()? else { panic!("reservation was not expected") };
            Ok(row)
        }
    }

    impl Clock for &Scripted {
        fn now(&self) -> Timestamp {
            NOW
        }

        async fn sleep_until(&self, at: Timestamp) {
            let wait = u64::try_from(at.since(NOW).as_millis()).unwrap_or(u64::MAX);
            self.waits.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
        }
    }

    impl Chance for &Scripted {
        fn draw(&self) -> f64 {
            1.0
        }

        fn token(&self) -> String {
            String::new()
        }
    }

    async fn answer_to(says: Vec<Says>) -> (Answer, Vec<u64>) {
        let scripted = Scripted { says: Mutex::new(says.into()), ..Scripted::default() };
        let secrets = vec![Secret::parse(SECRET).expect("valid")];
        let signature = signer::signature(&secrets, "res_1:3", NOW.seconds(), BODY);
        let receiver = Receiver { store: &scripted, clock: &scripted, chance: &scripted, secrets };
        let id = EventId::parse("res_1:3").expect("valid");
        let delivery = Delivery { id, timestamp_s: NOW.seconds(), signature, body: BODY.to_vec() };
        let answer = receiver.receive(delivery).await;
        assert!(scripted.says.lock().expect("whole").is_empty(), "the script was not played to its end");
        (answer, scripted.waits.into_inner().expect("whole"))
    }

    #[track_caller]
    fn check(label: &str, says: &[Says], expected: &Answer, waits: &[u64]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (answer, waited) = runtime.block_on(answer_to(says.to_vec()));
        assert_eq!(answer, *expected, "{label}");
        assert_eq!(waited, waits, "{label}: waits in ms");
    }

    const RELEASED: Answer = Answer::Decided { decision: Decision::Released, repeated: false };
    const PAID: Decision = Decision::Refused(Refusal::Paid);

    fn row(status: &str) -> Says {
        Says::Row(Some(Reservation { status: status.to_owned(), version: 3 }))
    }

    fn outage() -> Unavailable {
        Unavailable { operation: "test", cause: "down".to_owned() }
    }

    fn down() -> Answer {
        Answer::Unavailable(outage())
    }

    #[test]
    fn rcv_1_to_3_one_write_decides_and_reads_follow_a_refused_one() {
        use Says::{Decision as Read, Refuse, Release};
        let repeated = |decision| Answer::Decided { decision, repeated: true };
        let refused = Answer::Decided { decision: PAID, repeated: false };
        check("released", &[Release(Stored::Yes)], &RELEASED, &[]);
        check("repeated", &[Release(Stored::Decided), Read(Some(PAID))], &repeated(PAID), &[]);
        check("paid", &[Release(Stored::NotHeld), row("paid"), Refuse(Stored::Yes)], &refused, &[]);
        let lost = [Release(Stored::NotHeld), row("paid"), Refuse(Stored::Decided), Read(Some(Decision::Released))];
        check("another was faster", &lost, &repeated(Decision::Released), &[]);
        let changed = [Release(Stored::NotHeld), row("held"), Release(Stored::Yes)];
        check("it changed between write and read", &changed, &RELEASED, &[20]);
        let vanished = [Release(Stored::Decided), Read(None), Release(Stored::Yes)];
        check("the decision's row vanished", &vanished, &RELEASED, &[20]);
    }

    #[test]
    fn rcv_4_a_busy_store_is_asked_again_a_few_times() {
        use Says::{Refuse, Release};
        check("once", &[Release(Stored::Busy), Release(Stored::Yes)], &RELEASED, &[20]);
        let busy = [Release(Stored::NotHeld), row("paid"), Refuse(Stored::Busy), Release(Stored::Yes)];
        check("at the refusal", &busy, &RELEASED, &[20]);
        check("always", &[const { Release(Stored::Busy) }; 5], &Answer::Busy, &[20, 40, 80, 160]);
    }

    #[test]
    fn rcv_4_a_store_that_fails_at_any_step_is_no_decision() {
        use Says::{Down, Release};
        check("release", &[Down], &down(), &[]);
        check("decision", &[Release(Stored::Decided), Down], &down(), &[]);
        check("reservation", &[Release(Stored::NotHeld), Down], &down(), &[]);
        check("refuse", &[Release(Stored::NotHeld), row("paid"), Down], &down(), &[]);
    }
}
