//! LED-3, LED-9: what a write came to, when replies are lost, calls fail, and others write first; on a real engine.
//!
//! Owns: [`Faulty`], a ledger that goes wrong where a test says. Must not: choose moves.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use lapse_aws::ledger::DynamoLedger;
use lapse_deliver::commit::{Committed, commit};
use lapse_engines::{Engine, each};
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Ledger, LedgerWrite, Unavailable, Written};
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);

/// What goes wrong with one call of `write`.
#[derive(Debug, Clone)]
enum Fault {
    /// Everything is stored, and no reply comes.
    LostReply,
    /// Nothing is stored, and no reply comes.
    Fails,
    /// These ids are throttled, the others written.
    Throttled(&'static [u32]),
    /// These ids are stored, and answered as unknown.
    Unsure(&'static [u32]),
    /// No reply comes; before anything is read, someone else writes.
    Overtaken(Record),
}

/// A ledger whose next writes go wrong.
struct Faulty {
    inner: DynamoLedger,
    faults: RefCell<Vec<Fault>>,
    reads_fail: Cell<bool>,
    writes: RefCell<Vec<usize>>,
    reads: Cell<usize>,
}

fn down(operation: &'static str) -> Unavailable {
    Unavailable { operation, cause: "down".to_owned() }
}

fn stands_for(ids: &[u32], key: &DeliveryKey) -> bool {
    ids.iter().any(|id| *key == self::key(*id))
}

impl Ledger for Faulty {
    async fn read(&self, keys: &[DeliveryKey]) -> Result<HashMap<DeliveryKey, Record>, Unavailable> {
        self.reads.set(self.reads.get() + 1);
        if self.reads_fail.get() { Err(down("read")) } else { self.inner.read(keys).await }
    }

    async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Result<Vec<Written>, Unavailable> {
        self.writes.borrow_mut().push(writes.len());
        let fault = if self.faults.borrow().is_empty() { None } else { Some(self.faults.borrow_mut().remove(0)) };
        match fault {
            None => self.inner.write(writes).await,
            Some(Fault::Fails) => Err(down("write")),
            Some(Fault::LostReply) => {
                self.inner.write(writes).await?;
                Err(down("write"))
            }
            Some(Fault::Throttled(ids)) => {
                let mut answers = Vec::new();
                for write in writes {
                    answers.push(if stands_for(ids, &write.0) {
                        Written::NotStored
                    } else {
                        self.inner.write(std::slice::from_ref(write)).await?[0]
                    });
                }
                Ok(answers)
            }
            Some(Fault::Unsure(ids)) => {
                let answers = self.inner.write(writes).await?;
                let answer = |((key, _), answer): (&(DeliveryKey, _), Written)| {
                    if stands_for(ids, key) { Written::Unknown } else { answer }
                };
                Ok(writes.iter().zip(answers).map(answer).collect())
            }
            Some(Fault::Overtaken(theirs)) => {
                self.inner.write(writes).await?;
                self.inner.write(&[(writes[0].0.clone(), LedgerWrite::Swap(theirs))]).await?;
                Err(down("write"))
            }
        }
    }
}

fn key(id: u32) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#res_{id}:3")).unwrap()
}

fn record(version: u64, state: State, token: &str) -> Record {
    Record {
        version,
        state,
        attempts: 0,
        throttles: 0,
        crashes: 0,
        token: token.to_owned(),
        lease: (state == State::Sending).then_some(NOW),
        next_at: (state == State::Waiting).then_some(NOW),
        planned_at: None,
        unknown_outcome: false,
        reason: None,
        last_status: None,
        last_error: None,
        epoch: 1,
        redrive_until: None,
        triaged_epoch: None,
        first_at: NOW,
        last_at: NOW,
        ttl: 1,
    }
}

fn claim(version: u64, token: &str) -> Record {
    record(version, State::Sending, token)
}

fn insert(id: u32, record: &Record) -> (DeliveryKey, LedgerWrite) {
    (key(id), LedgerWrite::Insert(record.clone()))
}

fn swap(id: u32, record: &Record) -> (DeliveryKey, LedgerWrite) {
    (key(id), LedgerWrite::Swap(record.clone()))
}

fn lost(theirs: &Record) -> Committed {
    Committed::Lost(Some(Box::new(theirs.clone())))
}

impl Faulty {
    /// An empty ledger.
    async fn new(engine: &Engine) -> Self {
        let inner = DynamoLedger::new(engine.client(), engine.table("deliveries").await);
        let (faults, writes) = (RefCell::default(), RefCell::default());
        Self { inner, faults, reads_fail: Cell::new(false), writes, reads: Cell::new(0) }
    }

    /// A ledger with one record, of id 1.
    async fn holding(engine: &Engine, record: &Record) -> Self {
        let faulty = Self::new(engine).await;
        assert_eq!(faulty.inner.write(&[insert(1, record)]).await, Ok(vec![Written::Stored]));
        faulty
    }

    async fn stored(&self, id: u32) -> Option<Record> {
        self.inner.read(&[key(id)]).await.unwrap().remove(&key(id))
    }

    /// Commits one write of id 1 with these faults: what it came to, how many calls it took, and what is stored.
    async fn check(
        &self,
        label: &str,
        faults: &[Fault],
        write: (DeliveryKey, LedgerWrite),
        expected: Committed,
        calls: (usize, usize),
        stored: Option<&Record>,
    ) {
        self.faults.replace(faults.to_vec());
        self.writes.take();
        self.reads.set(0);
        assert_eq!(commit(self, vec![write]).await, [expected], "{label}");
        assert_eq!((self.writes.borrow().len(), self.reads.get()), calls, "{label}: writes and reads");
        assert_eq!(self.stored(1).await.as_ref(), stored, "{label}: stored");
    }
}

#[tokio::test]
async fn led_3_an_insert_whose_reply_is_lost_is_stored() {
    for engine in each() {
        use Fault::{Fails, LostReply, Unsure};
        let mine = claim(1, "mine");
        for (label, faults, expected, calls, stored) in [
            ("nothing goes wrong", vec![], Committed::Stored, (1, 0), true),
            ("its reply is lost", vec![LostReply], Committed::Stored, (1, 1), true),
            ("its statement is answered as unknown", vec![Unsure(&[1])], Committed::Stored, (1, 1), true),
            ("it never arrives, then does", vec![Fails], Committed::Stored, (2, 1), true),
            ("it never arrives, then its reply is lost", vec![Fails, LostReply], Committed::Stored, (2, 2), true),
            ("it never arrives, twice", vec![Fails, Fails], Committed::Unavailable, (2, 2), false),
        ] {
            let ledger = Faulty::new(engine).await;
            ledger.check(label, &faults, insert(1, &mine), expected, calls, stored.then_some(&mine)).await;
        }
    }
}

#[tokio::test]
async fn led_3_a_swap_whose_reply_is_lost_is_stored() {
    for engine in each() {
        use Fault::{Fails, LostReply, Throttled};
        // The token is the claim's own: only version and state tell the completion from the claim.
        let (claimed, mine) = (claim(1, "mine"), record(2, State::Delivered, "mine"));
        for (label, faults, expected, calls, stored) in [
            ("nothing goes wrong", vec![], Committed::Stored, (1, 0), &mine),
            ("its reply is lost", vec![LostReply], Committed::Stored, (1, 1), &mine),
            ("it never arrives, then does", vec![Fails], Committed::Stored, (2, 1), &mine),
            ("it never arrives, twice", vec![Fails, Fails], Committed::Unavailable, (2, 2), &claimed),
            ("throttled, then lost", vec![Throttled(&[1]), LostReply], Committed::Stored, (2, 1), &mine),
        ] {
            let ledger = Faulty::holding(engine, &claimed).await;
            ledger.check(label, &faults, swap(1, &mine), expected, calls, Some(stored)).await;
            if *stored == mine {
                // Another call with the same write finds that it is stored.
                ledger.check("run twice", &[], swap(1, &mine), Committed::Stored, (1, 1), Some(&mine)).await;
            }
        }
    }
}

#[tokio::test]
async fn led_3_a_strangers_write_is_lost_with_their_record() {
    for engine in each() {
        use Fault::{Fails, LostReply, Overtaken};
        let (theirs, mine) = (claim(1, "theirs"), claim(1, "mine"));
        let ledger = Faulty::holding(engine, &theirs).await;
        for (label, faults) in [("refused", vec![]), ("reply lost", vec![LostReply]), ("never arrived", vec![Fails])] {
            ledger.check(label, &faults, insert(1, &mine), lost(&theirs), (1, 1), Some(&theirs)).await;
        }
        // They were here between our claim and our completion.
        let (took, done) = (claim(2, "theirs"), record(2, State::Delivered, "mine"));
        let ledger = Faulty::holding(engine, &took).await;
        for (label, faults) in [("refused", vec![]), ("reply lost", vec![LostReply]), ("never arrived", vec![Fails])] {
            ledger.check(label, &faults, swap(1, &done), lost(&took), (1, 1), Some(&took)).await;
        }
        // Ours was stored, and is history before we could read it: no one knows it for ours any more.
        let after = claim(3, "theirs");
        let ledger = Faulty::holding(engine, &claim(1, "old")).await;
        let overtaken = [Overtaken(after.clone())];
        ledger.check("overtaken", &overtaken, swap(1, &claim(2, "mine")), lost(&after), (1, 1), Some(&after)).await;
    }
}

#[tokio::test]
async fn led_3_the_same_token_in_another_state_is_not_this_write() {
    for engine in each() {
        let delivered = record(2, State::Delivered, "mine");
        let ledger = Faulty::holding(engine, &delivered).await;
        let waiting = record(2, State::Waiting, "mine");
        ledger.check("another state", &[], swap(1, &waiting), lost(&delivered), (1, 1), Some(&delivered)).await;
    }
}

#[tokio::test]
async fn led_2_a_swap_of_a_record_that_is_gone_is_lost() {
    for engine in each() {
        let ledger = Faulty::new(engine).await;
        ledger.check("gone", &[], swap(1, &claim(2, "mine")), Committed::Lost(None), (1, 1), None).await;
    }
}

#[tokio::test]
async fn led_9_what_is_throttled_is_tried_once_more() {
    for engine in each() {
        use Fault::{LostReply, Throttled};
        let mine = claim(1, "mine");
        let ledger = Faulty::new(engine).await;
        let twice = [Throttled(&[1]), Throttled(&[1])];
        ledger.check("twice", &twice, insert(1, &mine), Committed::Unavailable, (2, 0), None).await;
        ledger.check("once", &[Throttled(&[1])], insert(1, &mine), Committed::Stored, (2, 0), Some(&mine)).await;
        let ledger = Faulty::new(engine).await;
        let lost = [Throttled(&[1]), LostReply];
        ledger.check("then lost", &lost, insert(1, &mine), Committed::Stored, (2, 1), Some(&mine)).await;
    }
}

#[tokio::test]
async fn led_9_a_doubt_that_cannot_be_read_away_stays_one() {
    for engine in each() {
        use Fault::{LostReply, Throttled, Unsure};
        let mine = claim(1, "mine");
        for (label, fault) in [("reply lost", LostReply), ("answered as unknown", Unsure(&[1]))] {
            let ledger = Faulty::new(engine).await;
            ledger.reads_fail.set(true);
            ledger.check(label, &[fault], insert(1, &mine), Committed::Unavailable, (1, 1), Some(&mine)).await;
            // The next receive finds out.
            ledger.reads_fail.set(false);
            ledger.check("later", &[], insert(1, &mine), Committed::Stored, (1, 1), Some(&mine)).await;
        }
        // What is not in doubt needs no read.
        let ledger = Faulty::new(engine).await;
        ledger.reads_fail.set(true);
        ledger.check("throttled", &[Throttled(&[1])], insert(1, &mine), Committed::Stored, (2, 0), Some(&mine)).await;
    }
}

#[tokio::test]
async fn led_9_each_write_of_a_batch_comes_to_its_own_end() {
    for engine in each() {
        let ledger = Faulty::holding(engine, &claim(1, "theirs")).await;
        let mine = claim(1, "mine");
        ledger.faults.replace(vec![Fault::Throttled(&[3, 5]), Fault::Throttled(&[5])]);
        let writes =
            vec![insert(1, &mine), insert(2, &mine), insert(3, &mine), swap(4, &claim(2, "mine")), insert(5, &mine)];
        let expected = [
            lost(&claim(1, "theirs")),
            Committed::Stored,
            Committed::Stored,
            Committed::Lost(None),
            Committed::Unavailable,
        ];
        assert_eq!(commit(&ledger, writes).await, expected);
        assert_eq!(*ledger.writes.borrow(), [5, 2], "the second call holds only what was throttled");
        assert_eq!(ledger.reads.get(), 1, "one read for all that is in doubt");
    }
}
