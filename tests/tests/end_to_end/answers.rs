//! What becomes of a delivery by the partner's answer: CLS, RET, LED-6, DLQ-1 to DLQ-3, DST-2.

use std::time::Duration;

use anyhow::{Context, Result};
use lapse_local::LOCAL_SECRET;
use lapse_local::partner::{Lose, Partner, Reply, Script, Seen};
use lapse_policy::ledger::State;
use lapse_policy::reason::Reason;
use lapse_tests::ground::{event, now, text};
use lapse_tests::witness::{Answer, Witness};
use serde_json::json;

use crate::play;

#[test]
fn ret_2_a_retry_after_of_12_s_is_kept_and_the_request_is_the_same() -> Result<()> {
    play(async |ground| {
        let busy = Answer { status: 429, retry_after: Some("12"), ..Answer::default() };
        let witness = Witness::start([busy, Answer { status: 200, ..Answer::default() }]).await?;
        let partner = Partner::start()?;
        partner.set("asks", Script::Forward { url: witness.url.clone(), lose_answers: Lose::First(0) });
        ground.destination(&partner, "asks", &json!({})).await?;
        let event = event("asks", "asked:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;

        let record = ground.reaches(&event, State::Delivered).await?;
        // RET-4: a throttled answer is no attempt.
        assert_eq!((record.attempts, record.throttles, record.epoch), (1, 1, 1));
        let seen = partner.requests("asks");
        assert_eq!(seen.iter().map(Seen::status).collect::<Vec<_>>(), [Some(429), Some(200)]);
        let asked = seen[0].not_before_ms.context("the partner asked for a time")?;
        assert!(seen[1].arrived_ms >= asked, "I7: {} ms early", asked - seen[1].arrived_ms);
        let checks = partner.checks("asks");
        assert!(checks.early.is_empty() && checks.changed.is_empty(), "I2, I7: {checks:?}");

        let heard = witness.heard();
        for (attempt, request) in ["1", "2"].into_iter().zip(&heard) {
            assert_eq!(request.header("webhook-id")?, event.id);
            assert_eq!(request.header("idempotency-key")?, event.id);
            assert_eq!(request.header("webhook-attempt")?, attempt);
            assert_eq!(request.header("content-type")?, "application/json");
            assert!(request.header("user-agent")?.starts_with("lapse/"));
            assert_eq!(request.body, event.payload.as_bytes());
            request.verify(LOCAL_SECRET)?;
        }
        assert_ne!(heard[0].header("webhook-timestamp")?, heard[1].header("webhook-timestamp")?, "fresh each time");
        Ok(())
    })
}

#[test]
fn cls_4_a_transient_answer_is_tried_again_on_our_own_schedule() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let replies = [500, 503, 200].map(Reply::status);
        partner.set("shaky", Script::Sequence(replies.to_vec()));
        ground.destination(&partner, "shaky", &json!({})).await?;
        let event = event("shaky", "shaken:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;

        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!((record.attempts, record.throttles), (3, 0));
        let seen = partner.requests("shaky");
        assert_eq!(seen.iter().map(|one| one.attempt).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
        // RET-3: 2 s after the first attempt and 4 s after the second, at least.
        for (pair, least) in seen.windows(2).zip([2000, 4000]) {
            let waited = pair[1].arrived_ms - pair[0].arrived_ms;
            assert!(waited >= least, "{waited} ms after attempt {:?}", pair[0].attempt);
        }
        assert!(partner.checks("shaky").changed.is_empty(), "I2");
        Ok(())
    })
}

#[test]
fn dlq_1_a_permanent_answer_is_a_letter_and_a_redrive_delivers_it() -> Result<()> {
    play(async |ground| {
        let no = Answer { status: 422, body: "no such studio", ..Answer::default() };
        let witness = Witness::start([no]).await?;
        let partner = Partner::start()?;
        partner.set("strict", Script::Forward { url: witness.url.clone(), lose_answers: Lose::First(0) });
        ground.destination(&partner, "strict", &json!({})).await?;
        let mut event = event("strict", "refused:1");
        event.payload = r#"{ "n" : 1.50, "order_id":"refused" }"#.to_owned();
        ground.driver.send(std::slice::from_ref(&event)).await?;

        let record = ground.reaches(&event, State::Dead).await?;
        assert_eq!(record.reason, Some(Reason::PermanentStatus));
        assert_eq!((record.last_status, record.last_error.as_deref()), (Some(422), Some("no such studio")));
        assert_eq!((record.epoch, record.attempts), (1, 1));
        let letter = ground.letter_of(&event).await?;
        let from = letter.moved_from.as_deref().unwrap_or_default();
        assert!(from.ends_with("-failures"), "SQS's own move: {from}");
        assert_eq!(letter.body["dead"]["epoch"], 1);
        assert!(letter.text.contains(&event.payload), "I2: the letter keeps the payload's bytes: {}", letter.text);
        // DLQ-2: what an operator reads, and the index that finds it.
        let record = ground.reaches(&event, State::Dead).await?;
        assert_eq!(record.triaged_epoch, Some(1));
        let rows = ground.driver.rows("DeliveriesTableName").await?;
        let key = event.key()?;
        let row = rows.iter().find(|row| text(row, "delivery").is_ok_and(|name| name == key.to_string()));
        let row = row.context("the record is in the table")?;
        assert_eq!(text(row, "dead")?, format!("strict#{}", key.crc32() % 8));
        assert_eq!(text(row, "advice")?, Reason::PermanentStatus.advice());

        partner.set("strict", Script::Accept);
        assert_eq!(ground.redrive(|letter| letter.is_of(&event)).await?, 1);
        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!((record.epoch, record.attempts), (2, 1), "DLQ-3");
        let seen = partner.requests("strict");
        assert_eq!(seen.len(), 2);
        assert!(partner.checks("strict").changed.is_empty(), "I2");
        assert_eq!(seen[1].body.as_deref(), Some(event.payload.as_bytes()));
        assert!(ground.letters(|letter| letter.is_of(&event)).await?.is_empty());
        Ok(())
    })
}

#[test]
fn ret_7_a_deadline_that_is_over_at_the_first_receive_sends_nothing() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("too-late", Script::Accept);
        ground.destination(&partner, "too-late", &json!({})).await?;
        let mut event = event("too-late", "over:1");
        event.deadline = Some(now().minus(Duration::from_secs(1)));
        ground.driver.send(std::slice::from_ref(&event)).await?;

        let record = ground.reaches(&event, State::Dead).await?;
        assert_eq!((record.reason, record.attempts), (Some(Reason::DeadlinePassed), 0));
        ground.letter_of(&event).await?;
        assert!(partner.requests("too-late").is_empty());
        Ok(())
    })
}

#[test]
fn ret_6_a_deadline_that_comes_while_retrying_is_kept() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("never-well", Script::Sequence(vec![Reply::status(503)]));
        ground.destination(&partner, "never-well", &json!({"timeout_ms": 1000})).await?;
        let mut event = event("never-well", "expires:1");
        let deadline = now().plus(Duration::from_secs(8));
        event.deadline = Some(deadline);
        ground.driver.send(std::slice::from_ref(&event)).await?;

        let record = ground.reaches(&event, State::Dead).await?;
        // The second, if a busy machine woke the last attempt too late.
        let reasons = [Some(Reason::NoRetryBeforeDeadline), Some(Reason::DeadlinePassed)];
        assert!(reasons.contains(&record.reason), "{record:?}");
        ground.letter_of(&event).await?;
        let seen = partner.requests("never-well");
        assert!(seen.len() >= 2, "it was tried again: {seen:?}");
        let deadline = u64::try_from(deadline.millis())?;
        assert!(seen.iter().all(|one| one.arrived_ms <= deadline), "I6: {seen:?}");
        Ok(())
    })
}

#[test]
fn cls_8_a_410_pauses_the_destination_and_its_other_events_wait() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("gone", Script::Sequence(vec![Reply::status(410)]));
        ground.destination(&partner, "gone", &json!({})).await?;
        let (first, second) = (event("gone", "first:1"), event("gone", "second:1"));
        ground.driver.send(std::slice::from_ref(&first)).await?;
        let record = ground.reaches(&first, State::Dead).await?;
        assert_eq!((record.reason, record.last_status), (Some(Reason::Gone), Some(410)));

        ground.driver.send(std::slice::from_ref(&second)).await?;
        let record = ground.reaches(&second, State::Waiting).await?;
        // DST-2: it is looked at again in an hour.
        assert!(record.next_at.is_some_and(|at| at.since(now()) > Duration::from_mins(50)), "{record:?}");
        assert_eq!((record.attempts, record.throttles), (0, 0));
        assert_eq!(partner.requests("gone").len(), 1, "nothing is sent to it any more");
        Ok(())
    })
}

#[test]
fn led_10_a_wait_of_over_30_s_is_a_message_of_its_own_and_the_bytes_stay() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let busy = Reply::status(429).retry_after(31);
        partner.set("slow-lane", Script::Sequence(vec![busy, Reply::status(200)]));
        ground.destination(&partner, "slow-lane", &json!({"policy": {"jitter": 0.0}})).await?;
        let mut event = event("slow-lane", "again:1");
        event.payload = r#"{"z": 1e+2 ,"a":[ ],"text":"\u00e9\ud83d\ude00 😀\/"}"#.to_owned();
        ground.driver.send(std::slice::from_ref(&event)).await?;

        ground.reaches(&event, State::Delivered).await?;
        let checks = partner.checks("slow-lane");
        assert!(checks.early.is_empty() && checks.changed.is_empty(), "{checks:?}");
        let seen = partner.requests("slow-lane");
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|one| one.body.as_deref() == Some(event.payload.as_bytes())), "I2");
        assert_eq!(ground.count("slow-lane", "republished").await?, 1);
        // The old message was acknowledged, and what was left of the pause is waited for in one place.
        let received = ground.count("slow-lane", "received").await?;
        assert!(received <= 3, "I9: {received} receives");
        Ok(())
    })
}
