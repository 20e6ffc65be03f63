//! DLQ-2, DLQ-3, LIM-5: what a redrive does with letters of every kind, again and again, and without a record.
//!
//! Owns: redrives of this file's own letters. Must not: stop `triage`, which others use; `quiet_stack` does.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_local::driver::Event;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_policy::reason::Reason;
use lapse_tests::ground::{event, events, now};
use serde_json::json;

use crate::play;

#[test]
fn dlq_3_letters_of_many_reasons_are_redriven_together_and_each_starts_over() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let status = |status| Script::Sequence(vec![Reply::status(status)]);
        let asks = |seconds| Script::Sequence(vec![Reply::status(503).retry_after(seconds)]);
        let cases = [
            ("mixed-refuses", status(422), None, Reason::PermanentStatus),
            ("mixed-fails", status(500), None, Reason::AttemptsExhausted),
            ("mixed-late", Script::Accept, Some(now()), Reason::DeadlinePassed),
            ("mixed-rests", asks(100), Some(now().plus(Duration::from_secs(60))), Reason::RetryAfterExceedsDeadline),
        ];
        let mut events = Vec::new();
        for (name, script, deadline, reason) in cases {
            partner.set(name, script);
            ground.destination(&partner, name, &json!({"max_age": 3600, "policy": {"max_attempts": 2}})).await?;
            let mut event = event(name, "mixed:1");
            event.payload = r#"{ "n" : 1.50, "text":"\u00e9" }"#.to_owned();
            event.deadline = deadline;
            events.push((event, reason));
        }
        let sent: Vec<_> = events.iter().map(|(event, _)| event.clone()).collect();
        ground.driver.send(&sent).await?;
        for (event, reason) in &events {
            let record = ground.reaches(event, State::Dead).await?;
            assert_eq!(record.reason, Some(*reason), "{}", event.destination);
            ground.letter_of(event).await?;
        }
        for event in &sent {
            partner.set(&event.destination, Script::Accept);
            // The pause that an answer set holds a redrive up like all else.
            forget_pause(ground, &event.destination).await?;
        }
        let before = now();
        assert_eq!(ground.redrive(|letter| sent.iter().any(|event| letter.is_of(event))).await?, sent.len());
        for event in &sent {
            let name = &event.destination;
            let record = ground.reaches(event, State::Delivered).await?;
            assert_eq!((record.epoch, record.attempts), (2, 1), "{name}");
            let until = record.redrive_until.context("a redrive has a deadline of its own")?;
            assert!(until >= before.plus(Duration::from_secs(3600)), "{name}: max_age from the redrive: {until}");
            assert!(partner.checks(name).changed.is_empty(), "I2: {name}");
            let last = partner.requests(name).pop().context("it was sent")?;
            assert_eq!((last.event.as_str(), last.body.as_deref()), ("mixed:1", Some(event.payload.as_bytes())));
        }
        Ok(())
    })
}

#[test]
fn dlq_3_a_redrive_that_fails_again_comes_back_with_its_count() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("again", Script::Sequence(vec![Reply::status(400)]));
        ground.destination(&partner, "again", &json!({})).await?;
        let event = event("again", "again:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        let first = ground.reaches(&event, State::Dead).await?;
        for epoch in [1, 2] {
            let of_epoch =
                |letter: &lapse_tests::letters::Letter| letter.is_of(&event) && letter.body["dead"]["epoch"] == epoch;
            ground.letter("this epoch", of_epoch).await?;
            assert_eq!(ground.redrive(of_epoch).await?, 1);
            let dead = |record: &lapse_policy::ledger::Record| record.state == State::Dead && record.epoch == epoch + 1;
            let record = ground.until(&event, "dead again", dead).await?;
            assert_eq!((record.attempts, record.reason), (1, Some(Reason::PermanentStatus)), "epoch {}", record.epoch);
            assert_eq!(record.first_at, first.first_at, "its history stays");
        }
        ground.letter("the third", |letter| letter.is_of(&event) && letter.body["dead"]["epoch"] == 3).await?;
        assert_eq!(partner.requests("again").len(), 3);
        Ok(())
    })
}

#[test]
fn dlq_3_a_letter_whose_record_is_gone_is_delivered_by_a_redrive() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("forgotten", Script::Sequence(vec![Reply::status(400)]));
        ground.destination(&partner, "forgotten", &json!({})).await?;
        let event = event("forgotten", "gone:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.letter_of(&event).await?;
        // What TTL does 15 days later.
        let delete = ground.dynamodb.delete_item().table_name(ground.driver.output("DeliveriesTableName")?);
        delete.key("delivery", AttributeValue::S(event.key()?.to_string())).send().await?;
        partner.set("forgotten", Script::Accept);
        assert_eq!(ground.redrive(|letter| letter.is_of(&event)).await?, 1);
        ground.reaches(&event, State::Delivered).await?;
        assert_eq!(partner.requests("forgotten").len(), 2);
        Ok(())
    })
}

#[test]
fn lim_5_redriven_letters_are_under_the_limit_like_all_else() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("limited-again", Script::Sequence(vec![Reply::status(400)]));
        let rate = json!({"rate": {"limit": 5, "per_seconds": 1, "burst": 5}});
        ground.destination(&partner, "limited-again", &rate).await?;
        let events = events("limited-again", "crowd", 15);
        ground.driver.send(&events).await?;
        for event in &events {
            ground.reaches(event, State::Dead).await?;
            ground.letter_of(event).await?;
        }
        // The partner keeps the same limit, and would refuse with a 429 what comes too early.
        partner.set("limited-again", Script::Bucket { limit_per_second: 5, burst: 5 });
        let moved = ground.redrive(|letter| events.iter().any(|event| letter.is_of(event))).await?;
        ensure!(moved == events.len(), "{moved} letters moved");
        ground.delivered(&events).await?;
        assert_eq!(partner.checks("limited-again").statuses, [(400, 15), (200, 15)].into(), "none is refused");
        let keys = events.iter().map(Event::key).collect::<Result<Vec<_>>>()?;
        let records = ground.driver.records(&keys).await?;
        assert!(records.values().all(|record| (record.epoch, record.throttles) == (2, 0)), "{records:?}");
        Ok(())
    })
}

/// Forgets a destination's pause with its clock: nothing else waits for this destination, so no plan is lost.
async fn forget_pause(ground: &lapse_tests::ground::Ground, destination: &str) -> Result<()> {
    let table = ground.driver.output("LimitsTableName")?;
    let delete = ground.dynamodb.delete_item().table_name(table);
    delete
        .key("destination", AttributeValue::S(destination.to_owned()))
        .key("lane", AttributeValue::S("clock".to_owned()))
        .send()
        .await?;
    Ok(())
}
