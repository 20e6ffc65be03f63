//! EMT-1, EMT-3, EMT-4, LED-10: rows put, found when due, deleted, and set aside.
//!
//! Owns: those checks. Must not: decide what is due; keys and bounds are `lapse_policy::schedule`'s.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::record_item::{Item, number};
use lapse_aws::schedule::{DynamoSchedule, row_item};
use lapse_engines::{Engine, each};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{Page, Parking as _, Row, Schedule as _, StoredRow};
use lapse_policy::schedule::{Origin, RowKey, UNSENDABLE, due_until};
use lapse_policy::timestamp::Timestamp;

const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_123);
const SHARD: u32 = 5;
/// After every sort key of this time.
const END: &str = "9";

struct World {
    client: Client,
    table: String,
    schedule: DynamoSchedule,
}

impl World {
    async fn new(engine: &Engine) -> Self {
        let (client, table) = (engine.client(), engine.table("schedule").await);
        let schedule = DynamoSchedule::new(client.clone(), table.clone());
        Self { client, table, schedule }
    }

    async fn put(&self, rows: &[Row]) {
        assert_eq!(self.schedule.put(rows).await, vec![Ok(()); rows.len()]);
    }

    /// All rows up to `until`, page by page, and how many each page held.
    async fn due(&self, shard: u32, until: &str) -> (Vec<StoredRow>, Vec<usize>) {
        let (mut rows, mut pages, mut from) = (Vec::new(), Vec::new(), None);
        loop {
            let Page { rows: found, next } = self.schedule.due(shard, until, from.as_deref()).await.unwrap();
            pages.push(found.len());
            assert!(pages.len() < 20, "the same page again and again: {pages:?}");
            rows.extend(found);
            from = next;
            if from.is_none() {
                return (rows, pages);
            }
        }
    }

    async fn raw(&self, shard: i64, due: &str) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let get = get.key("shard", number(shard)).key("due", AttributeValue::S(due.to_owned()));
        get.send().await.unwrap().item
    }
}

/// A row of [`SHARD`], the `n`-th such, due then.
fn row(n: usize, due: Timestamp, origin: Origin) -> Row {
    let deliveries = (0..).map(|i| DeliveryKey::parse(&format!("catalog#res_{i}:3")).unwrap());
    let delivery = deliveries.filter(|key| key.crc32() % 16 == SHARD).nth(n).unwrap();
    Row { key: RowKey::new(due, delivery), body: Arc::from(format!("{{\"n\":{n}}}")), origin }
}

fn new(n: usize, due: Timestamp) -> Row {
    row(n, due, Origin::New)
}

fn at(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

fn stored(row: &Row) -> StoredRow {
    StoredRow { due: row.key.sort_key(), body: Some(Arc::clone(&row.body)), origin: row.origin }
}

#[tokio::test]
async fn emt_1_due_rows_come_earliest_first_and_a_resumed_one_says_so() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows =
            [new(0, at(5000)), row(1, at(1), Origin::Resumed), new(2, at(1000)), new(3, Timestamp::from_millis(7))];
        world.put(&rows).await;
        let expected: Vec<_> = [3, 1, 2, 0].into_iter().map(|n: usize| stored(&rows[n])).collect();
        assert_eq!(world.due(SHARD, END).await, (expected, vec![4]));
        let (others, _) = world.due(SHARD + 1, END).await;
        assert_eq!(others, [], "of another shard");
    }
}

#[tokio::test]
async fn emt_1_the_bound_is_inclusive() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows = [new(0, at(149_999)), new(1, at(150_000)), new(2, at(150_001))];
        world.put(&rows).await;
        let (found, _) = world.due(SHARD, &rows[1].key.sort_key()).await;
        assert_eq!(found, [stored(&rows[0]), stored(&rows[1])], "the key itself");
        let (found, _) = world.due(SHARD, &due_until(NOW)).await;
        assert_eq!(found, [stored(&rows[0]), stored(&rows[1])], "a tick's");
    }
}

#[tokio::test]
async fn emt_2_a_backlog_comes_in_pages_without_gap_or_repeat() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows: Vec<_> = (0..200).map(|n| new(n, at(n as u64))).collect();
        world.put(&rows).await;
        let expected: Vec<_> = rows.iter().map(stored).collect();
        let (found, pages) = world.due(SHARD, END).await;
        assert_eq!(found, expected);
        assert!(pages == [100, 100, 0] || pages == [100, 100], "{pages:?}");
        // A row that was deleted since still marks where the next page starts.
        let first = world.schedule.due(SHARD, END, None).await.unwrap();
        let sent: Vec<_> = first.rows.iter().map(|row| row.due.clone()).collect();
        world.schedule.delete(SHARD, &sent).await.unwrap();
        let second = world.schedule.due(SHARD, END, first.next.as_deref()).await.unwrap();
        assert_eq!(second.rows, expected[100..]);
        assert_eq!(world.due(SHARD, END).await.0, expected[100..]);
    }
}

#[tokio::test]
async fn emt_2_a_page_that_is_full_of_large_bodies_goes_on_too() {
    for engine in each() {
        let world = World::new(engine).await;
        let body: Arc<str> = Arc::from("x".repeat(262_144));
        let rows: Vec<_> = (0..6).map(|n| Row { body: Arc::clone(&body), ..new(n, at(n as u64)) }).collect();
        world.put(&rows).await;
        let (found, pages) = world.due(SHARD, END).await;
        assert_eq!(found, rows.iter().map(stored).collect::<Vec<_>>());
        assert!(pages.len() > 1, "1 MB is the most that a query reads: {pages:?}");
    }
}

#[tokio::test]
async fn led_10_the_same_row_twice_leaves_one() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows = [row(0, at(0), Origin::Resumed), row(1, at(0), Origin::Resumed)];
        world.put(&rows).await;
        world.put(&rows).await;
        assert_eq!(world.due(SHARD, END).await.1, [2], "in two calls");
        // 26 of them do not fit in one call of the store.
        let copies = vec![row(2, at(0), Origin::Resumed); 26];
        world.put(&copies).await;
        world.put(&[rows[0].clone(), rows[1].clone(), rows[0].clone()]).await;
        assert_eq!(world.due(SHARD, END).await.1, [3], "in one call");
        assert_eq!(world.schedule.put(&[]).await, []);
    }
}

#[tokio::test]
async fn emt_1_rows_go_to_the_shard_that_any_producer_computes() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows: Vec<_> = (0..40)
            .map(|n| DeliveryKey::parse(&format!("shop-{}#res_{n}:1", n % 3)).unwrap())
            .map(|delivery| Row { key: RowKey::new(at(0), delivery), body: Arc::from("{}"), origin: Origin::New })
            .collect();
        world.put(&rows).await;
        for row in &rows {
            let shard = i64::from(crc32(&row.key.delivery.to_string()) % 16);
            assert_eq!(world.raw(shard, &row.key.sort_key()).await, Some(row_item(row)));
        }
    }
}

/// CRC-32 of IEEE, bit by bit.
fn crc32(text: &str) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !text.bytes().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[tokio::test]
async fn emt_3_a_deleted_row_is_gone_and_deleting_it_again_is_fine() {
    for engine in each() {
        let world = World::new(engine).await;
        let rows: Vec<_> = (0..30).map(|n| new(n, at(0))).collect();
        world.put(&rows).await;
        let mut due: Vec<_> = rows[..28].iter().map(|row| row.key.sort_key()).collect();
        due.push("never there".to_owned());
        for _ in 0..2 {
            assert_eq!(world.schedule.delete(SHARD, &due).await, Ok(()));
            assert_eq!(world.due(SHARD, END).await.1, [2], "of another call's rows none is lost");
        }
        assert_eq!(world.schedule.delete(SHARD, &[]).await, Ok(()));
    }
}

#[tokio::test]
async fn emt_4_a_row_that_is_set_aside_keeps_its_body_and_tells_why() {
    for engine in each() {
        let world = World::new(engine).await;
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let parked = row(0, at(0), Origin::Resumed);
        world.put(std::slice::from_ref(&parked)).await;
        let bad = StoredRow { due: "tomorrow".to_owned(), body: None, origin: Origin::New };
        let put = world.client.put_item().table_name(&world.table);
        put.item("shard", number(SHARD)).item("due", text("tomorrow")).send().await.unwrap();
        // "tomorrow" sorts after every digit.
        assert_eq!(world.due(SHARD, "~").await.0, [stored(&parked), bad.clone()], "found without a body");
        for (row, reason) in [(stored(&parked), "too large"), (bad, "not a key")] {
            // The second time its shard no longer has it: a crash between the two writes.
            for _ in 0..2 {
                assert_eq!(world.schedule.set_aside(SHARD, &row, reason).await, Ok(()));
                assert_eq!(world.raw(SHARD.into(), &row.due).await, None, "gone from its shard");
                let aside = world.raw(UNSENDABLE.into(), &format!("{}@{SHARD}", row.due)).await.unwrap();
                assert_eq!(aside["reason"], text(reason));
                assert_eq!(aside["from_shard"], number(SHARD));
                assert_eq!(aside.get("body"), row.body.as_deref().map(text).as_ref());
                let resumed = (row.origin == Origin::Resumed).then_some(AttributeValue::Bool(true));
                assert_eq!(aside.get("resumed"), resumed.as_ref());
            }
        }
        for shard in 0..16 {
            assert_eq!(world.due(shard, "~").await.0, [], "no tick meets them again");
        }
    }
}

#[tokio::test]
async fn emt_1_a_missing_table_is_unavailable_for_each_row() {
    for engine in each() {
        let schedule = DynamoSchedule::new(engine.client(), "no-such-table".to_owned());
        let rows = [new(0, at(0)), new(1, at(0)), new(0, at(0))];
        let answers = schedule.put(&rows).await;
        assert_eq!(answers.len(), 3);
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|e| e.operation == "BatchWriteItem schedule")));
        assert_eq!(schedule.due(0, END, None).await.unwrap_err().operation, "Query schedule");
        assert!(schedule.delete(0, &["x".to_owned()]).await.is_err());
        assert!(schedule.set_aside(0, &stored(&rows[0]), "why").await.is_err());
    }
}
