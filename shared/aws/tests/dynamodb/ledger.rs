//! LED-1, LED-2, LED-9: what each statement does, alone and in a batch, and what a read finds.
//!
//! Owns: [`Deliveries`], a ledger on its own table. Must not: test moves; they are pure.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::record_item::Item;
use lapse_engines::{Engine, each};
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Ledger as _, LedgerWrite, Written};
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);

pub(crate) fn key(id: u32) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#res_{id}:3")).unwrap()
}

/// A record with no optional attribute.
pub(crate) fn bare(version: u64, token: &str) -> Record {
    Record {
        version,
        state: State::Waiting,
        attempts: 0,
        throttles: 0,
        crashes: 0,
        token: token.to_owned(),
        lease: None,
        next_at: None,
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
        ttl: 1_797_336_010,
    }
}

pub(crate) fn insert(id: u32, record: &Record) -> (DeliveryKey, LedgerWrite) {
    (key(id), LedgerWrite::Insert(record.clone()))
}

pub(crate) fn swap(id: u32, record: &Record) -> (DeliveryKey, LedgerWrite) {
    (key(id), LedgerWrite::Swap(record.clone()))
}

/// A ledger with a table of its own.
pub(crate) struct Deliveries {
    pub(crate) client: Client,
    pub(crate) table: String,
    pub(crate) ledger: DynamoLedger,
}

impl Deliveries {
    pub(crate) async fn new(engine: &Engine) -> Self {
        let (client, table) = (engine.client(), engine.table("deliveries").await);
        let ledger = DynamoLedger::new(client.clone(), table.clone());
        Self { client, table, ledger }
    }

    pub(crate) async fn write(&self, writes: &[(DeliveryKey, LedgerWrite)]) -> Vec<Written> {
        self.ledger.write(writes).await.unwrap()
    }

    /// One write, alone in its call.
    pub(crate) async fn one(&self, write: (DeliveryKey, LedgerWrite)) -> Written {
        self.write(&[write]).await[0]
    }

    pub(crate) async fn read(&self, id: u32) -> Option<Record> {
        self.ledger.read(&[key(id)]).await.unwrap().remove(&key(id))
    }

    /// The item as it is stored.
    pub(crate) async fn raw(&self, id: u32) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        get.key("delivery", AttributeValue::S(key(id).to_string())).send().await.unwrap().item
    }
}

#[tokio::test]
async fn led_2_the_first_insert_is_stored_and_a_second_changes_nothing() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let (mine, theirs) = (bare(1, "mine"), bare(1, "theirs"));
        assert_eq!(deliveries.one(insert(1, &mine)).await, Written::Stored);
        assert_eq!(deliveries.one(insert(1, &theirs)).await, Written::Refused);
        assert_eq!(deliveries.one(insert(1, &mine)).await, Written::Refused, "the same again");
        assert_eq!(deliveries.read(1).await, Some(mine));
    }
}

#[tokio::test]
async fn led_1_a_swap_holds_only_on_the_version_before_it() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        deliveries.one(insert(1, &bare(7, "first"))).await;
        for (label, version, expected) in [
            ("the stored version itself", 7, Written::Refused),
            ("one too far", 9, Written::Refused),
            ("long past", 1, Written::Refused),
            ("the next", 8, Written::Stored),
            ("the next again", 8, Written::Refused),
            ("the one after it", 9, Written::Stored),
        ] {
            assert_eq!(deliveries.one(swap(1, &bare(version, label))).await, expected, "{label}");
        }
        assert_eq!(deliveries.read(1).await, Some(bare(9, "the one after it")));
    }
}

#[tokio::test]
async fn led_1_versions_of_sixteen_digits_are_told_apart() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let version = 9_007_199_254_740_993;
        deliveries.one(insert(1, &bare(version, "a"))).await;
        // A double cannot tell 2^53 and 2^53 + 1.
        assert_eq!(deliveries.one(swap(1, &bare(version, "b"))).await, Written::Refused);
        assert_eq!(deliveries.one(swap(1, &bare(version + 1, "c"))).await, Written::Stored);
    }
}

#[tokio::test]
async fn led_2_a_swap_of_an_absent_record_creates_none() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        for version in [1, 2] {
            assert_eq!(deliveries.one(swap(1, &bare(version, "mine"))).await, Written::Refused, "to version {version}");
        }
        assert_eq!(deliveries.raw(1).await, None);
    }
}

#[tokio::test]
async fn led_9_each_of_25_statements_is_answered_on_its_own_and_in_order() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let old: Vec<_> = (0..10).map(|id| insert(id, &bare(4, "old"))).collect();
        assert_eq!(deliveries.write(&old).await, [Written::Stored; 10]);
        // Of the ten that are there: duplicates, right versions, wrong versions; of 15 that are not: inserts and swaps.
        let writes: Vec<_> = (0..25)
            .map(|id| match id {
                0..3 => insert(id, &bare(1, "new")),
                3..7 => swap(id, &bare(5, "new")),
                7..10 => swap(id, &bare(6, "new")),
                _ if id % 2 == 0 => insert(id, &bare(1, "new")),
                _ => swap(id, &bare(5, "new")),
            })
            .rev()
            .collect();
        let stored = |id: u32| (3..7).contains(&id) || (id >= 10 && id.is_multiple_of(2));
        let expected: Vec<_> =
            (0..25).rev().map(|id| if stored(id) { Written::Stored } else { Written::Refused }).collect();
        assert_eq!(deliveries.write(&writes).await, expected);
        let keys: Vec<_> = (0..25).map(key).collect();
        let found = deliveries.ledger.read(&keys).await.unwrap();
        for id in 0..25 {
            let token = found.get(&key(id)).map(|record| record.token.as_str());
            let expected = if stored(id) { Some("new") } else { Some("old").filter(|_| id < 10) };
            assert_eq!(token, expected, "{id}");
        }
    }
}

#[tokio::test]
async fn led_9_a_batch_of_first_receives_is_one_call() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let writes: Vec<_> = (0..25).map(|id| insert(id, &bare(1, "mine"))).collect();
        assert_eq!(deliveries.write(&writes).await, [Written::Stored; 25]);
        assert_eq!(deliveries.write(&writes).await, [Written::Refused; 25], "run twice");
    }
}

#[tokio::test]
async fn led_9_more_keys_than_one_read_takes_are_all_found() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let ids: Vec<_> = (0..130).collect();
        for ids in ids.chunks(25) {
            let writes: Vec<_> = ids.iter().map(|id| insert(*id, &bare(u64::from(*id), "t"))).collect();
            assert!(deliveries.write(&writes).await.iter().all(|w| *w == Written::Stored));
        }
        // Of every other id there is no record.
        let keys: Vec<_> = (0..135).map(key).collect();
        let found = deliveries.ledger.read(&keys).await.unwrap();
        let expected: HashMap<_, _> = ids.iter().map(|id| (key(*id), bare(u64::from(*id), "t"))).collect();
        assert_eq!(found, expected);
        assert_eq!(deliveries.ledger.read(&[]).await, Ok(HashMap::new()), "none asked for");
    }
}

#[tokio::test]
async fn led_9_a_missing_table_stores_nothing_and_says_so() {
    for engine in each() {
        let ledger = DynamoLedger::new(engine.client(), "no-such-table".to_owned());
        let writes = [insert(1, &bare(1, "mine")), swap(2, &bare(2, "mine"))];
        match ledger.write(&writes).await {
            Ok(written) => assert_eq!(written, [Written::NotStored; 2]),
            Err(error) => assert_eq!(error.operation, "BatchExecuteStatement deliveries"),
        }
        assert_eq!(ledger.read(&[key(1)]).await.unwrap_err().operation, "BatchGetItem deliveries");
    }
}
