//! Copies of a message, and its bytes. LED-5, LED-9, I2.

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_local::Function;
use lapse_local::driver::Event;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_policy::message::MAX_MESSAGE_BYTES;
use lapse_policy::schedule::RowKey;
use lapse_tests::ground::{Ground, event, now, text};
use lapse_tests::patience::eventually;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::play;

/// Number forms, key order, a key twice, white space and escapes that any parser and printer would change.
const ODD: &str = concat!(
    r#"{ "z" : 1.0e2, "a":-0.0, "n":12345678901234567890.10 ,"z2":1E+2,"#,
    "\t\r\n",
    r#" "text":"\u00e9\/\n\ud83d\ude00 😀 é <&> \u2028", "a":2, "list" : [ ], "nothing":null }"#
);

#[test]
fn led_9_copies_at_once_and_later_are_one_request() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("once", Script::Sequence(vec![Reply::status(200).after(std::time::Duration::from_millis(500))]));
        ground.destination(&partner, "once", &json!({})).await?;
        let event = event("once", "copied:1");
        ground.driver.send(&[event.clone(), event.clone()]).await?;
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.reaches(&event, State::Delivered).await?;
        // LED-5: delivered is delivered.
        ground.driver.send(std::slice::from_ref(&event)).await?;
        eventually("all four copies were received", async || {
            Ok((ground.count("once", "received").await? >= 4).then_some(()))
        })
        .await?;
        assert_eq!(partner.checks("once").statuses, [(200, 1)].into());
        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!((record.attempts, record.epoch), (1, 1));
        Ok(())
    })
}

#[test]
fn i2_the_payloads_bytes_are_the_same_on_every_attempt_and_after_a_redrive() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let replies = [503, 404].map(Reply::status);
        partner.set("exact", Script::Sequence(replies.to_vec()));
        ground.destination(&partner, "exact", &json!({})).await?;
        let mut event = event("exact", "odd:1");
        event.payload = ODD.to_owned();
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.reaches(&event, State::Dead).await?;
        let letter = ground.letter_of(&event).await?;
        assert!(letter.text.contains(ODD), "{}", letter.text);

        partner.set("exact", Script::Sequence(vec![Reply::status(500), Reply::status(200)]));
        ground.redrive(|letter| letter.is_of(&event)).await?;
        ground.reaches(&event, State::Delivered).await?;
        let seen = partner.requests("exact");
        assert_eq!(seen.len(), 4);
        for one in &seen {
            assert_eq!(one.body.as_deref(), Some(ODD.as_bytes()), "attempt {:?}", one.attempt);
            assert_eq!(one.idempotency_key.as_deref(), Some("odd:1"));
        }
        Ok(())
    })
}

#[test]
fn i2_a_scheduled_row_keeps_its_bytes_through_emission_and_parking() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        // RET-2: so long a wait is parked.
        let busy = Reply::status(429).retry_after(1000);
        partner.set("shelved", Script::Sequence(vec![busy, Reply::status(200)]));
        ground.destination(&partner, "shelved", &json!({})).await?;
        let mut event = event("shelved", "shelf:1");
        event.payload = ODD.to_owned();
        ground.driver.schedule(now(), &event).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;
        ground.until(&event, "throttled", |record| record.throttles == 1).await?;
        let parked = eventually("it is parked", async || Ok(ground.scheduled(&event).await?.pop())).await?;
        assert_eq!(parked.get("resumed"), Some(&AttributeValue::Bool(true)));
        assert_eq!(text(&parked, "body")?, event.body(), "the whole message, as the producer wrote it");

        end_the_wait(ground, &event, parked).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;
        let record = ground.reaches(&event, State::Delivered).await?;
        // RET-4: the same epoch, and the throttled answer was no attempt.
        assert_eq!((record.attempts, record.throttles, record.epoch), (1, 1, 1));
        let seen = partner.requests("shelved");
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|one| one.body.as_deref() == Some(ODD.as_bytes())), "{seen:?}");
        assert!(ground.scheduled(&event).await?.is_empty(), "EMT-1: the row that was sent is gone");
        Ok(())
    })
}

#[test]
fn i2_a_message_of_exactly_256_kib_is_delivered_whole() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("large", Script::Sequence([503, 200].map(Reply::status).to_vec()));
        ground.destination(&partner, "large", &json!({})).await?;
        let mut event = event("large", "full:1");
        event.payload = "\"\"".to_owned();
        let room = MAX_MESSAGE_BYTES - event.body().len();
        // Two bytes a letter: the limit counts bytes.
        event.payload = format!("\"{}{}\"", "é".repeat(room / 2), "x".repeat(room % 2));
        assert_eq!(event.body().len(), MAX_MESSAGE_BYTES);
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.reaches(&event, State::Delivered).await?;
        let seen = partner.requests("large");
        let sent: [u8; 32] = Sha256::digest(&event.payload).into();
        assert_eq!(seen.iter().map(|one| one.body_sha256).collect::<Vec<_>>(), [sent, sent]);
        Ok(())
    })
}

/// As if the time of a parked delivery had come: its row, its record and its destination's pause end now.
async fn end_the_wait(ground: &Ground, event: &Event, mut parked: lapse_aws::record_item::Item) -> Result<()> {
    let (tables, output) = (&ground.dynamodb, |name| ground.driver.output(name));
    let at = now();
    let clock = tables.delete_item().table_name(output("LimitsTableName")?);
    let clock = clock.key("destination", AttributeValue::S(event.destination.clone()));
    clock.key("lane", AttributeValue::S("clock".to_owned())).send().await?;
    let record = tables.update_item().table_name(output("DeliveriesTableName")?);
    let record = record.key("delivery", AttributeValue::S(event.key()?.to_string()));
    let record = record.update_expression("SET next_at = :now");
    record.expression_attribute_values(":now", AttributeValue::N(at.millis().to_string())).send().await?;

    let shard = parked.get("shard").context("a row has a shard")?.clone();
    let due = parked.insert("due".to_owned(), AttributeValue::S(RowKey::new(at, event.key()?).sort_key()));
    tables.put_item().table_name(output("ScheduleTableName")?).set_item(Some(parked)).send().await?;
    let old = tables.delete_item().table_name(output("ScheduleTableName")?).key("shard", shard);
    old.key("due", due.context("a row has a due")?).send().await?;
    Ok(())
}
