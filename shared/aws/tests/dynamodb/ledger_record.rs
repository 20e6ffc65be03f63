//! LED-1, LED-8, DLQ-2: a record's attributes in the table, those of others beside them, and what cannot be read.
//!
//! Owns: those checks. Must not: test conditions; `ledger` does.

use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::record_item::number;
use lapse_engines::each;
use lapse_policy::ledger::{Record, State};
use lapse_policy::ports::{Ledger as _, Written};
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::ledger::{Deliveries, bare, insert, key, swap};

/// A record with every attribute that `deliver` writes, each as large as it gets.
fn full(version: u64) -> Record {
    Record {
        version,
        state: State::Dead,
        attempts: u32::MAX,
        throttles: u32::MAX - 1,
        crashes: 3,
        token: "0123456789abcdef".to_owned(),
        lease: Some(Timestamp::FAR_FUTURE),
        next_at: Some(Timestamp::from_millis(1_796_040_099_001)),
        planned_at: Some(Micros(1_796_040_010_000_123)),
        unknown_outcome: true,
        reason: Some(Reason::Poison),
        last_status: Some(u16::MAX),
        last_error: Some("it's \"busy\" \u{2014} ?\n\\x00{}".repeat(20)),
        epoch: u32::MAX,
        redrive_until: Some(Timestamp::from_millis(1)),
        triaged_epoch: None,
        first_at: Timestamp::EPOCH,
        last_at: Timestamp::FAR_FUTURE,
        ttl: i64::MAX,
    }
}

const OPTIONAL: [&str; 7] = ["lease", "next_at", "planned_at", "reason", "last_status", "last_error", "redrive_until"];

#[tokio::test]
async fn led_1_every_attribute_comes_back_as_it_was_written() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        deliveries.one(insert(1, &full(1))).await;
        assert_eq!(deliveries.read(1).await, Some(full(1)), "inserted with all");
        deliveries.one(insert(2, &bare(1, ""))).await;
        assert_eq!(deliveries.read(2).await, Some(bare(1, "")), "inserted with none");
        assert_eq!(deliveries.one(swap(1, &bare(2, "t"))).await, Written::Stored);
        assert_eq!(deliveries.read(1).await, Some(bare(2, "t")), "from all to none");
        assert_eq!(deliveries.one(swap(2, &full(2))).await, Written::Stored);
        assert_eq!(deliveries.read(2).await, Some(full(2)), "from none to all");
        let negative = Record { planned_at: Some(Micros(-5)), ..bare(3, "t") };
        assert_eq!(deliveries.one(swap(1, &negative)).await, Written::Stored);
        assert_eq!(deliveries.read(1).await, Some(negative), "a planned time before 1970, less a long shift");
    }
}

#[tokio::test]
async fn led_1_every_state_and_reason_comes_back() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let states = [State::Sending, State::Waiting, State::Delivered, State::Dead].map(|state| (state, None));
        let reasons = Reason::ALL.iter().map(|reason| (State::Dead, Some(*reason)));
        let records = states.into_iter().chain(reasons).map(|(state, reason)| Record { state, reason, ..bare(1, "t") });
        let records: Vec<_> = (0..).zip(records).collect();
        let writes: Vec<_> = records.iter().map(|(id, record)| insert(*id, record)).collect();
        assert_eq!(deliveries.write(&writes).await, vec![Written::Stored; writes.len()]);
        for (id, record) in records {
            assert_eq!(deliveries.read(id).await, Some(record));
        }
    }
}

#[tokio::test]
async fn led_8_an_attribute_that_a_record_lost_is_gone_and_ttl_is_a_number_of_seconds() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        deliveries.one(insert(1, &full(1))).await;
        let item = deliveries.raw(1).await.unwrap();
        assert!(OPTIONAL.iter().all(|name| item.contains_key(*name)), "{item:?}");
        let swapped = bare(2, "t");
        deliveries.one(swap(1, &swapped)).await;
        let item = deliveries.raw(1).await.unwrap();
        // Not even as a NULL: what looks for absent attributes must find none.
        assert!(OPTIONAL.iter().all(|name| !item.contains_key(*name)), "{item:?}");
        assert_eq!(item["ttl"], number(swapped.ttl));
        assert_eq!(item["delivery"], AttributeValue::S("catalog#res_1:3".to_owned()));
    }
}

#[tokio::test]
async fn dlq_2_what_triage_wrote_outlives_a_later_swap() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        deliveries.one(insert(1, &full(1))).await;
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let others = [
            ("triaged_epoch", number(1)),
            ("advice", text("Look first.")),
            ("dead", text("catalog#3")),
            ("dead_at", number(1_796_040_010_000_i64)),
        ];
        let mut update =
            deliveries.client.update_item().table_name(&deliveries.table).key("delivery", text("catalog#res_1:3"));
        for (name, value) in &others {
            update = update.expression_attribute_values(format!(":{name}"), value.clone());
        }
        let set = "SET triaged_epoch = :triaged_epoch, advice = :advice, dead = :dead, dead_at = :dead_at";
        update.update_expression(set).send().await.unwrap();
        assert_eq!(deliveries.read(1).await.and_then(|record| record.triaged_epoch), Some(1));
        for record in [bare(2, "t"), full(3)] {
            assert_eq!(deliveries.one(swap(1, &record)).await, Written::Stored);
            let item = deliveries.raw(1).await.unwrap();
            for (name, value) in &others {
                assert_eq!(item.get(*name), Some(value), "{name} at version {}", record.version);
            }
            assert_eq!(deliveries.read(1).await, Some(Record { triaged_epoch: Some(1), ..record }));
        }
    }
}

#[tokio::test]
async fn led_9_a_record_that_cannot_be_read_is_an_error_that_names_the_attribute() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        let text = || AttributeValue::S("odd".to_owned());
        let raw = |n: &str| AttributeValue::N(n.to_owned());
        let cases = [
            ("version", text()),
            ("version", raw("-1")),
            ("state", text()),
            ("state", raw("1")),
            ("attempts", raw("-1")),
            ("throttles", text()),
            ("crashes", raw("4294967296")),
            ("lease", raw("1.5")),
            ("next_at", text()),
            ("planned_at", AttributeValue::Null(true)),
            ("last_status", raw("70000")),
            ("epoch", text()),
            ("redrive_until", text()),
            ("triaged_epoch", raw("0.5")),
            ("first_at", text()),
            ("last_at", text()),
            ("ttl", text()),
        ];
        deliveries.one(insert(0, &bare(1, "t"))).await;
        for (id, (attribute, value)) in (1..).zip(cases) {
            deliveries.one(insert(id, &bare(1, "t"))).await;
            let mut item = deliveries.raw(id).await.unwrap();
            item.insert(attribute.to_owned(), value.clone());
            deliveries.client.put_item().table_name(&deliveries.table).set_item(Some(item)).send().await.unwrap();
            let error = deliveries.ledger.read(&[key(0), key(id)]).await.unwrap_err();
            let expected = format!("a record's attribute {attribute} cannot be read");
            assert_eq!(error.cause, expected, "{attribute}: {value:?}");
        }
    }
}

#[tokio::test]
async fn led_9_a_record_without_version_or_state_cannot_be_read() {
    for engine in each() {
        let deliveries = Deliveries::new(engine).await;
        for (id, attribute) in (1..).zip(["version", "state"]) {
            deliveries.one(insert(id, &bare(1, "t"))).await;
            let mut item = deliveries.raw(id).await.unwrap();
            item.remove(attribute);
            deliveries.client.put_item().table_name(&deliveries.table).set_item(Some(item)).send().await.unwrap();
            let error = deliveries.ledger.read(&[key(id)]).await.unwrap_err();
            assert_eq!(error.cause, format!("a record's attribute {attribute} cannot be read"));
        }
    }
}
