//! DLQ-2, DLQ-4, DLQ-5: what `triage` does with a batch of letters, and what remains of each step that fails.
//!
//! Owns: the order of the steps, with the ports in memory. Must not: test the disposition's expressions.

#![expect(clippy::expect_used, reason = "a helper of tests fails the test it is called from")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use lapse_aws::sqs_event::Received;
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::message::{Message, malformed_letter};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Accepted, Clock, Ledger, LedgerWrite, Outbox, Outgoing, Unavailable, Visibility, Written};
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;
use lapse_policy::triage::REDRIVE_AFTER;
use lapse_triage::triage::{Dispositions, Triage, Triaged};

const DEAD_AT: Timestamp = Timestamp::from_millis(1_796_040_000_000);

/// All ports of `triage`, and what was asked of them.
#[derive(Debug, Default)]
struct World {
    records: RefCell<HashMap<DeliveryKey, Record>>,
    calls: RefCell<Vec<String>>,
    sent: RefCell<Vec<Outgoing>>,
    ledger_down: Cell<bool>,
    dispositions_down: Cell<bool>,
    sends_refused: Cell<bool>,
    hides_refused: Cell<bool>,
    panics_at: RefCell<Option<DeliveryKey>>,
}

fn down(operation: &'static str) -> Unavailable {
    Unavailable { operation, cause: "told to".to_owned() }
}

impl World {
    fn note(&self, call: impl Into<String>) {
        self.calls.borrow_mut().push(call.into());
    }
}

fn answers(refused: &Cell<bool>, count: usize) -> Vec<Accepted> {
    let answer = if refused.get() { Accepted::No("told to".to_owned()) } else { Accepted::Yes };
    vec![answer; count]
}

impl Clock for &World {
    fn now(&self) -> Timestamp {
        DEAD_AT.plus(Duration::from_secs(1))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

impl Ledger for &World {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        self.note(format!("read {}", keys.len()));
        if self.ledger_down.get() {
            return Err(down("BatchGetItem deliveries"));
        }
        let records = self.records.borrow();
        Ok(keys.iter().filter_map(|key| Some((key.clone(), records.get(key)?.clone()))).collect())
    }

    async fn write(&self, _: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        Err(down("triage writes dispositions alone"))
    }
}

impl Dispositions for &World {
    async fn write(&self, key: &DeliveryKey, record: &Record) -> Result<(), Unavailable> {
        self.note(format!("dispose {key}"));
        assert_ne!(self.panics_at.borrow().as_ref(), Some(key), "told to panic");
        if self.dispositions_down.get() {
            return Err(down("UpdateItem deliveries"));
        }
        if let Some(stored) = self.records.borrow_mut().get_mut(key) {
            stored.triaged_epoch = Some(record.epoch);
        }
        Ok(())
    }
}

impl Visibility for &World {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        for (receipt, seconds) in messages {
            self.note(format!("hide {receipt} {seconds}"));
        }
        answers(&self.hides_refused, messages.len())
    }
}

impl Outbox for &World {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        self.note(format!("send {}", messages.len()));
        if !self.sends_refused.get() {
            self.sent.borrow_mut().extend(messages.iter().cloned());
        }
        answers(&self.sends_refused, messages.len())
    }
}

async fn triage(world: &World, batch: &[Received]) -> Triaged {
    let triage = Triage {
        clock: world,
        ledger: world,
        dispositions: world,
        failures: world,
        deliveries: world,
        redrive_after: REDRIVE_AFTER,
    };
    let named = |(index, received): (usize, &Received)| Received {
        message_id: format!("m{index}"),
        receipt_handle: format!("r{index}"),
        ..received.clone()
    };
    triage.batch(&batch.iter().enumerate().map(named).collect::<Vec<_>>()).await
}

fn body(id: &str) -> String {
    format!(
        r#"{{"v":1,"id":"{id}","destination":"catalog","type":"t","occurred_at":"{DEAD_AT}","payload":{{ "n" : 1 }}}}"#
    )
}

fn letter(id: &str, epoch: u32) -> String {
    Message::parse(&body(id)).expect("a message").letter(epoch, DEAD_AT)
}

fn sent_after(body: &str, span: Duration) -> Received {
    Received {
        message_id: String::new(),
        receipt_handle: String::new(),
        body: body.into(),
        receives: 1,
        sent_at: Some(DEAD_AT.plus(span)),
        origin: Origin::New,
    }
}

fn fresh(body: &str) -> Received {
    sent_after(body, Duration::from_secs(1))
}

fn redriven(body: &str) -> Received {
    sent_after(body, REDRIVE_AFTER)
}

fn with_record(id: &str, state: State, epoch: u32) -> World {
    let world = World::default();
    put(&world, id, state, epoch);
    world
}

fn put(world: &World, id: &str, state: State, epoch: u32) {
    let moment = Moment { now: DEAD_AT, deadline: DEAD_AT };
    let record = Record { state, version: 3, ..Record::first("token", epoch, moment) };
    world.records.borrow_mut().insert(key(id), record);
}

fn key(id: &str) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#{id}")).expect("a key")
}

fn none() -> Vec<usize> {
    Vec::new()
}

#[tokio::test]
async fn dlq_2_a_fresh_letters_disposition_is_written_before_it_is_handed_over() {
    let world = with_record("a:1", State::Dead, 2);
    let triaged = triage(&world, &[fresh(&letter("a:1", 2))]).await;
    assert_eq!(world.calls.take(), ["read 1", "dispose catalog#a:1", "hide r0 0"]);
    assert_eq!((triaged.remaining, triaged.disposed), (vec![0], 1), "it fails, so that SQS moves it");
    assert!(world.sent.borrow().is_empty(), "nothing is sent by us");
}

#[tokio::test]
async fn dlq_2_a_letter_is_counted_once_however_often_sqs_hands_it_over() {
    let world = with_record("a:1", State::Dead, 2);
    let batch = [fresh(&letter("a:1", 2))];
    let mut disposed = Vec::new();
    for _ in 0..3 {
        let triaged = triage(&world, &batch).await;
        assert_eq!(triaged.remaining, [0]);
        disposed.push(triaged.disposed);
    }
    assert_eq!(disposed, [1, 0, 0]);
}

#[tokio::test]
async fn dlq_2_a_letter_whose_disposition_is_not_written_remains_and_is_not_handed_over() {
    let world = with_record("a:1", State::Dead, 1);
    world.dispositions_down.set(true);
    let triaged = triage(&world, &[fresh(&letter("a:1", 1))]).await;
    assert_eq!((triaged.remaining, triaged.disposed), (vec![0], 0));
    assert_eq!(world.calls.take(), ["read 1", "dispose catalog#a:1"]);
    world.dispositions_down.set(false);
    assert_eq!(triage(&world, &[fresh(&letter("a:1", 1))]).await.disposed, 1, "the next receive writes it");
}

#[tokio::test]
async fn dlq_2_without_the_ledger_a_fresh_letter_remains_and_is_not_handed_over() {
    let world = with_record("a:1", State::Dead, 1);
    world.ledger_down.set(true);
    let triaged = triage(&world, &[fresh(&letter("a:1", 1)), redriven(&letter("a:2", 1))]).await;
    assert_eq!((triaged.remaining, triaged.redriven), (vec![0], 1), "a redrive needs no record");
    assert_eq!(world.calls.take(), ["read 2", "send 1"]);
}

#[tokio::test]
async fn dlq_2_a_hand_over_that_fails_leaves_the_letter_to_the_queues_own_visibility() {
    let world = with_record("a:1", State::Dead, 1);
    world.hides_refused.set(true);
    let triaged = triage(&world, &[fresh(&letter("a:1", 1))]).await;
    assert_eq!((triaged.remaining, triaged.disposed), (vec![0], 1));
}

#[tokio::test]
async fn dlq_2_a_record_that_moved_on_gets_no_disposition_and_the_letter_stands() {
    for (label, state, epoch) in [
        ("dead again", State::Dead, 3),
        ("redriven, sending", State::Sending, 3),
        ("redriven, waiting", State::Waiting, 3),
        ("behind its letter", State::Dead, 1),
    ] {
        let world = with_record("a:1", state, epoch);
        let triaged = triage(&world, &[fresh(&letter("a:1", 2))]).await;
        assert_eq!((triaged.remaining, triaged.disposed), (vec![0], 0), "{label}");
        assert_eq!(world.calls.take(), ["read 1", "hide r0 0"], "{label}");
    }
    let world = World::default();
    assert_eq!(triage(&world, &[fresh(&letter("a:1", 2))]).await.remaining, [0], "no record any more");
}

#[tokio::test]
async fn dlq_2_only_a_delivered_records_letter_is_acknowledged_without_being_sent_on() {
    let world = with_record("a:1", State::Delivered, 1);
    let triaged = triage(&world, &[fresh(&letter("a:1", 1))]).await;
    assert_eq!((triaged.remaining, triaged.void), (none(), 1));
    assert_eq!(world.calls.take(), ["read 1"]);
}

#[tokio::test]
async fn dlq_2_a_redriven_letter_goes_to_deliveries_unchanged_and_nothing_is_written() {
    for state in [State::Dead, State::Delivered, State::Waiting] {
        let world = with_record("a:1", state, 2);
        let triaged = triage(&world, &[redriven(&letter("a:1", 2))]).await;
        assert_eq!((triaged.remaining, triaged.redriven), (none(), 1), "{state:?}");
        let sent = world.sent.take();
        assert_eq!((&*sent[0].body, sent[0].delay_seconds), (letter("a:1", 2).as_str(), 0), "{state:?}");
        assert_eq!(sent[0].group.as_ref(), Some(&key("a:1").destination), "{state:?}");
        assert!(!world.calls.take().iter().any(|call| call.starts_with("dispose")), "{state:?}");
    }
}

#[tokio::test]
async fn dlq_2_what_could_not_be_sent_on_remains() {
    let world = with_record("a:1", State::Dead, 1);
    world.sends_refused.set(true);
    let triaged = triage(&world, &[redriven(&letter("a:1", 1)), fresh(&body("a:2"))]).await;
    assert_eq!(triaged, Triaged { remaining: vec![0, 1], ..Triaged::default() });
    world.sends_refused.set(false);
    let triaged = triage(&world, &[redriven(&letter("a:1", 1)), fresh(&body("a:2"))]).await;
    assert_eq!((triaged.remaining, triaged.redriven, triaged.unmarked), (none(), 1, 1), "the next receive sends it");
}

#[tokio::test]
async fn dlq_2_each_letter_of_a_batch_is_judged_alone() {
    let world = with_record("a:1", State::Dead, 1);
    put(&world, "a:2", State::Delivered, 1);
    let batch = [
        fresh("hello"),
        fresh(&letter("a:1", 1)),
        fresh(&letter("a:2", 1)),
        redriven(&letter("a:3", 1)),
        fresh(&body("a:4")),
    ];
    let triaged = triage(&world, &batch).await;
    let expected = Triaged { remaining: vec![0, 1], disposed: 1, redriven: 1, unmarked: 1, void: 1 };
    assert_eq!(triaged, expected);
    assert_eq!(world.calls.take(), ["read 3", "dispose catalog#a:1", "hide r0 0", "hide r1 0", "send 2"]);
}

#[tokio::test]
async fn dlq_4_a_malformed_bodys_letter_is_handed_over_when_fresh_and_sent_back_when_redriven() {
    let error = Message::parse("hello").expect_err("no message");
    let malformed = malformed_letter("hello", &error, DEAD_AT).expect("fits");
    let world = World::default();
    let triaged = triage(&world, &[fresh(&malformed)]).await;
    assert_eq!((triaged.remaining, triaged.disposed), (vec![0], 0));
    assert_eq!(world.calls.take(), ["hide r0 0"], "it has no record");
    let triaged = triage(&world, &[redriven(&malformed)]).await;
    assert_eq!((triaged.remaining, triaged.redriven), (none(), 1));
    let sent = world.sent.take();
    assert_eq!((&*sent[0].body, &sent[0].group), (malformed.as_str(), &None));
}

#[tokio::test]
async fn dlq_2_what_is_neither_letter_nor_message_is_handed_over_at_any_age() {
    for message in [fresh("hello"), redriven("hello"), redriven("{}")] {
        let world = World::default();
        assert_eq!(triage(&world, &[message]).await.remaining, [0]);
        assert_eq!(world.calls.take(), ["hide r0 0"]);
    }
}

#[tokio::test]
async fn dlq_5_what_sqs_itself_moved_goes_back_to_work_after_a_minute() {
    for message in [fresh(&body("a:1")), redriven(&body("a:1"))] {
        let world = with_record("a:1", State::Sending, 1);
        let triaged = triage(&world, &[message]).await;
        assert_eq!((triaged.remaining, triaged.unmarked), (none(), 1));
        let sent = world.sent.take();
        assert_eq!((&*sent[0].body, sent[0].delay_seconds), (body("a:1").as_str(), 60));
        assert_eq!(sent[0].origin, Origin::Resumed, "its record is read first");
        assert_eq!(world.calls.take(), ["send 1"], "whatever its record says");
    }
}

#[tokio::test]
async fn ack_2_a_panic_over_one_letter_leaves_the_others_to_be_handed_over() {
    let world = with_record("res:1", State::Dead, 1);
    for id in ["res:2", "res:3"] {
        put(&world, id, State::Dead, 1);
    }
    world.panics_at.replace(Some(key("res:2")));
    let letters = ["res:1", "res:2", "res:3"].map(|id| fresh(&letter(id, 1)));
    let triaged = triage(&world, &letters).await;
    assert_eq!((triaged.remaining, triaged.disposed), (vec![0, 1, 2], 2), "none is acknowledged");
    let hidden: Vec<_> = world.calls.borrow().iter().filter(|call| call.starts_with("hide")).cloned().collect();
    assert_eq!(hidden, ["hide r0 0", "hide r2 0"], "the second comes back by the queue's own visibility");
}
