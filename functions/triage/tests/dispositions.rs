//! DLQ-2: the disposition of a dead record on a real engine: written once it is dead, never on one that moved on.
//!
//! Owns: those checks, the index `dead` among them. Must not: judge letters; that is pure.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::record_item::{Item, number};
use lapse_engines::{Engine, each};
use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Ledger as _, LedgerWrite, Written};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use lapse_triage::dispositions::DynamoDispositions;
use lapse_triage::triage::Dispositions as _;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);
const HOUR: Duration = Duration::from_hours(1);
/// What `triage` writes, and no one else.
const WRITTEN: [&str; 4] = ["triaged_epoch", "advice", "dead", "dead_at"];

fn key(id: u32) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#res_{id}:3")).unwrap()
}

fn moment(ms: u64) -> Moment {
    let now = NOW.plus(Duration::from_millis(ms));
    Moment { now, deadline: NOW.plus(HOUR) }
}

/// A record that was claimed and died.
fn dead(ms: u64) -> Record {
    let claimed = Record::first("t", 1, moment(ms)).claimed("t", NOW.plus(HOUR), moment(ms)).unwrap();
    claimed.dead("t", Reason::PermanentStatus, Some("410 what".to_owned()), moment(ms)).unwrap()
}

struct World {
    client: Client,
    table: String,
    ledger: DynamoLedger,
    dispositions: DynamoDispositions,
}

impl World {
    async fn new(engine: &Engine) -> Self {
        let (client, table) = (engine.client(), engine.table("deliveries").await);
        let ledger = DynamoLedger::new(client.clone(), table.clone());
        let dispositions = DynamoDispositions::new(client.clone(), table.clone());
        Self { client, table, ledger, dispositions }
    }

    async fn store(&self, id: u32, write: LedgerWrite) {
        assert_eq!(self.ledger.write(&[(key(id), write)]).await, Ok(vec![Written::Stored]));
    }

    /// A dead record as it is stored, and as `triage` reads it.
    async fn dead(&self, id: u32) -> Record {
        self.store(id, LedgerWrite::Insert(dead(id.into()))).await;
        self.ledger.read(&[key(id)]).await.unwrap().remove(&key(id)).unwrap()
    }

    async fn raw(&self, id: u32) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        get.key("delivery", AttributeValue::S(key(id).to_string())).send().await.unwrap().item
    }

    /// The deliveries in each partition of the index, in its order.
    async fn index(&self) -> BTreeMap<String, Vec<String>> {
        let mut found = BTreeMap::new();
        for partition in (0..8).map(|shard| format!("catalog#{shard}")) {
            let query = self.client.query().table_name(&self.table).index_name("dead");
            let query = query.key_condition_expression("dead = :dead AND dead_at >= :since");
            let query = query.expression_attribute_values(":dead", AttributeValue::S(partition.clone()));
            let answer = query.expression_attribute_values(":since", number(NOW.millis())).send().await.unwrap();
            let keys = answer.items().iter().map(|item| item["delivery"].as_s().unwrap().clone());
            let keys: Vec<_> = keys.collect();
            if !keys.is_empty() {
                found.insert(partition, keys);
            }
        }
        found
    }
}

#[tokio::test]
async fn dlq_2_a_dead_record_gets_its_disposition_and_keeps_all_else() {
    for engine in each() {
        let world = World::new(engine).await;
        let record = world.dead(1).await;
        let before = world.raw(1).await.unwrap();
        // The letter may come twice.
        for _ in 0..2 {
            assert_eq!(world.dispositions.write(&key(1), &record).await, Ok(()));
            let mut after = world.raw(1).await.unwrap();
            let written: Vec<_> = WRITTEN.iter().map(|name| after.remove(*name)).collect();
            let text = |text: &str| Some(AttributeValue::S(text.to_owned()));
            let partition = format!("catalog#{}", key(1).crc32() % 8);
            let advice = Reason::PermanentStatus.advice();
            let expected = [Some(number(1)), text(advice), text(&partition), Some(number(NOW.millis() + 1))];
            assert_eq!(written, expected);
            assert_eq!(after, before, "nothing else changed, the version neither");
        }
        let read = world.ledger.read(&[key(1)]).await.unwrap();
        assert_eq!(read[&key(1)], Record { triaged_epoch: Some(1), ..record });
    }
}

#[tokio::test]
async fn dlq_2_a_record_that_moved_on_is_left_alone() {
    for engine in each() {
        let world = World::new(engine).await;
        let read = world.dead(0).await;
        let redriven = read.redriven(NOW.plus(HOUR), moment(60_000)).unwrap();
        let lease = NOW.plus(HOUR);
        let sending = redriven.claimed("t2", lease, moment(60_000)).unwrap();
        let again = sending.dead("t2", Reason::Redirect, None, moment(61_000)).unwrap();
        let next = [
            ("redriven, and being sent", sending),
            ("redriven, and waiting", redriven.waiting("t2", lease, None, moment(60_000)).unwrap()),
            ("dead again, in the next epoch", Record { version: read.version + 1, ..again }),
            ("delivered late", read.delivered(moment(1000)).unwrap()),
        ];
        for (id, (label, moved)) in (1..).zip(next) {
            let letter = world.dead(id).await;
            world.store(id, LedgerWrite::Swap(moved.clone())).await;
            let before = world.raw(id).await;
            assert_eq!(world.dispositions.write(&key(id), &letter).await, Ok(()), "{label}");
            assert_eq!(world.raw(id).await, before, "{label}");
            // With the record of its own epoch it is written, but only on a dead one.
            assert_eq!(world.dispositions.write(&key(id), &moved).await, Ok(()), "{label}");
            let written = world.raw(id).await.is_some_and(|item| item.contains_key("triaged_epoch"));
            assert_eq!(written, moved.state == State::Dead, "{label}");
        }
    }
}

#[tokio::test]
async fn dlq_2_a_record_that_is_gone_is_not_brought_back() {
    for engine in each() {
        let world = World::new(engine).await;
        assert_eq!(world.dispositions.write(&key(1), &dead(0)).await, Ok(()));
        assert_eq!(world.raw(1).await, None);
    }
}

#[tokio::test]
async fn dlq_2_the_next_epochs_disposition_replaces_the_last() {
    for engine in each() {
        let world = World::new(engine).await;
        let first = world.dead(1).await;
        world.dispositions.write(&key(1), &first).await.unwrap();
        let redriven = first.redriven(NOW.plus(HOUR), moment(60_000)).unwrap();
        let sending = redriven.claimed("t2", NOW.plus(HOUR), moment(60_000)).unwrap();
        let second = sending.dead("t2", Reason::Poison, None, moment(61_000)).unwrap();
        for record in [sending, second.clone()] {
            world.store(1, LedgerWrite::Swap(record)).await;
            let item = world.raw(1).await.unwrap();
            assert_eq!(item["triaged_epoch"], number(1), "as the first letter left it");
        }
        // A copy of the first epoch's letter comes late.
        world.dispositions.write(&key(1), &first).await.unwrap();
        assert_eq!(world.raw(1).await.unwrap()["triaged_epoch"], number(1));
        world.dispositions.write(&key(1), &second).await.unwrap();
        let item = world.raw(1).await.unwrap();
        assert_eq!(item["triaged_epoch"], number(2));
        assert_eq!(item["advice"], AttributeValue::S(Reason::Poison.advice().to_owned()));
        assert_eq!(item["dead_at"], number(NOW.millis() + 61_000));
    }
}

#[tokio::test]
async fn dlq_2_the_index_shows_the_dead_of_a_destination_in_the_order_of_their_deaths() {
    for engine in each() {
        let world = World::new(engine).await;
        // Stored from the last to the first; a tenth that is dead but not triaged is not in it.
        for id in (0..10).rev() {
            let record = world.dead(id).await;
            if id < 9 {
                world.dispositions.write(&key(id), &record).await.unwrap();
            }
        }
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in 0..9 {
            let partition = format!("catalog#{}", key(id).crc32() % 8);
            expected.entry(partition).or_default().push(key(id).to_string());
        }
        assert_eq!(world.index().await, expected);
        assert!(expected.len() > 1, "they spread over partitions");
    }
}

#[tokio::test]
async fn dlq_2_a_missing_table_is_told_so_that_the_letter_stays() {
    for engine in each() {
        let dispositions = DynamoDispositions::new(engine.client(), "no-such-table".to_owned());
        let error = dispositions.write(&key(1), &dead(0)).await.unwrap_err();
        assert_eq!(error.operation, "UpdateItem deliveries");
    }
}
