//! End to end, without other traffic: what the queues hold, the limiter's timing, and the scheduler's own tick.
//!
//! Owns: a stack on which one test at a time sends; only that of the scheduler, which waits for a minute, runs beside
//! them. Must not: invoke `expiry`, so that a tick is the scheduler's.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessagesDelayed;
use lapse_local::Function;
use lapse_local::driver::Hold;
use lapse_local::partner::{Lose, Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_policy::schedule::RowKey;
use lapse_tests::ground::{Ground, REDRIVE_AFTER_SECONDS, Shared, event, events, now, text};
use lapse_tests::patience::eventually;
use lapse_tests::witness::{Answer, Witness};
use serde_json::json;

static STACK: LazyLock<Shared> = LazyLock::new(|| Shared::start("quiet_stack"));
static SENDING: Mutex<()> = Mutex::new(());

/// Runs a test while no other sends.
fn alone(test: impl AsyncFnOnce(&Ground) -> Result<()>) -> Result<()> {
    let _alone = SENDING.lock().unwrap_or_else(PoisonError::into_inner);
    STACK.play(async |ground| {
        test(ground).await?;
        // What is left would be counted by the next.
        for queue in ["DeliveriesQueueUrl", "FailuresQueueUrl", "DeadLettersQueueUrl"] {
            let url = ground.driver.output(queue)?;
            ground.sqs.purge_queue().queue_url(url).send().await?;
        }
        Ok(())
    })
}

/// Waits until a queue holds so many messages: visible, in flight and delayed.
async fn holds(ground: &Ground, queue: &str, messages: usize) -> Result<()> {
    eventually(&format!("{queue} holds {messages}"), async || {
        Ok((ground.driver.depth(queue).await? == messages).then_some(()))
    })
    .await
}

#[test]
fn emt_1_the_scheduler_ends_a_hold_and_never_before_its_time() -> Result<()> {
    STACK.play(async |ground| {
        let partner = Partner::start()?;
        partner.set("studios", Script::Forward { url: ground.stack.receiver_url()?, lose_answers: Lose::First(0) });
        ground.destination(&partner, "studios", &json!({})).await?;
        let hold = |reservation: &str, seconds| Hold {
            reservation: reservation.to_owned(),
            resource: "studio-7".to_owned(),
            ends_at: now().plus(Duration::from_secs(seconds)),
            destination: "studios".to_owned(),
        };
        // One is over at the first tick, which is a minute away, and one is a few seconds ahead of it.
        let holds = [hold("res-1", 3), hold("res-2", 64)];
        for hold in &holds {
            ground.driver.hold(hold).await?;
        }
        for hold in &holds {
            ground.reaches(&hold.event(), State::Delivered).await?;
        }
        let seen = partner.requests("studios");
        assert_eq!(seen.len(), 2, "{seen:?}");
        for hold in &holds {
            let request = seen.iter().find(|one| one.event == hold.event().id).map(|one| one.arrived_ms);
            let ends = u64::try_from(hold.ends_at.millis())?;
            assert!(request.is_some_and(|arrived| arrived >= ends), "{}: {request:?} against {ends}", hold.reservation);
            // RCV-5 would have turned an early one away.
            assert!(ground.scheduled(&hold.event()).await?.is_empty(), "its row is gone");
        }
        assert_eq!(partner.checks("studios").statuses, [(200, 2)].into());
        Ok(())
    })
}

#[test]
fn dlq_2_a_letter_is_in_dead_letters_and_nowhere_else() -> Result<()> {
    alone(async |ground| {
        let partner = Partner::start()?;
        partner.set("refuses", Script::Sequence(vec![Reply::status(422)]));
        ground.destination(&partner, "refuses", &json!({})).await?;
        let events = events("refuses", "dead", 3);
        ground.driver.send(&events).await?;
        for event in &events {
            ground.reaches(event, State::Dead).await?;
        }
        holds(ground, "DeadLettersQueueUrl", 3).await?;
        holds(ground, "FailuresQueueUrl", 0).await?;
        holds(ground, "DeliveriesQueueUrl", 0).await?;

        // The console's default: all of it, to where it came from.
        partner.set("refuses", Script::Accept);
        tokio::time::sleep(Duration::from_secs(REDRIVE_AFTER_SECONDS)).await;
        assert_eq!(ground.driver.redrive().await?, 3);
        ground.delivered(&events).await?;
        for queue in ["DeadLettersQueueUrl", "FailuresQueueUrl", "DeliveriesQueueUrl"] {
            holds(ground, queue, 0).await?;
        }
        assert_eq!(partner.requests("refuses").len(), 6);
        Ok(())
    })
}

#[test]
fn dlq_2_letters_that_are_redriven_twice_while_triage_is_down_wait_and_are_delivered_once() -> Result<()> {
    alone(async |ground| {
        let partner = Partner::start()?;
        partner.set("patient", Script::Sequence(vec![Reply::status(422)]));
        ground.destination(&partner, "patient", &json!({})).await?;
        let events = events("patient", "waits", 2);
        ground.driver.send(&events).await?;
        for event in &events {
            ground.reaches(event, State::Dead).await?;
        }
        holds(ground, "DeadLettersQueueUrl", 2).await?;
        holds(ground, "FailuresQueueUrl", 0).await?;
        let copies = ground.driver.dead_letters().await?;

        ground.stack.set_mapping_enabled(Function::Triage, false).await?;
        partner.set("patient", Script::Accept);
        tokio::time::sleep(Duration::from_secs(REDRIVE_AFTER_SECONDS)).await;
        let redriven = async {
            assert_eq!(ground.driver.redrive().await?, 2);
            // A move task may send a letter twice; both copies are the same epoch's.
            for copy in &copies {
                let failures = ground.driver.output("FailuresQueueUrl")?;
                ground.sqs.send_message().queue_url(failures).message_body(copy).send().await?;
            }
            holds(ground, "FailuresQueueUrl", 4).await
        };
        let redriven = redriven.await;
        // Before anything can fail: the next test needs it.
        ground.stack.set_mapping_enabled(Function::Triage, true).await?;
        redriven?;
        ground.delivered(&events).await?;
        for queue in ["DeadLettersQueueUrl", "FailuresQueueUrl", "DeliveriesQueueUrl"] {
            holds(ground, queue, 0).await?;
        }
        for event in &events {
            assert_eq!(ground.reaches(event, State::Delivered).await?.epoch, 2, "one epoch for both copies");
        }
        assert_eq!(partner.requests("patient").len(), 4, "each was refused once and delivered once");
        Ok(())
    })
}

#[test]
fn lim_4_a_long_wait_is_parked_and_a_copy_parks_in_the_same_row() -> Result<()> {
    alone(async |ground| {
        let partner = Partner::start()?;
        partner.set("closed", Script::Sequence(vec![Reply::status(503).retry_after(1000)]));
        ground.destination(&partner, "closed", &json!({})).await?;
        let mut event = event("closed", "parked:1");
        event.payload = r#"{ "n" : 1.0e2, "text":"\u00e9 😀" }"#.to_owned();
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.until(&event, "throttled", |record| record.throttles == 1 && record.state == State::Waiting).await?;
        holds(ground, "DeliveriesQueueUrl", 0).await?;

        // LED-10: a copy reads the record, waits as it says, and becomes one with the first.
        ground.driver.send(std::slice::from_ref(&event)).await?;
        eventually(
            "the copy is parked, too",
            async || Ok((ground.count("closed", "parked").await? >= 2).then_some(())),
        )
        .await?;
        holds(ground, "DeliveriesQueueUrl", 0).await?;
        let record = ground.reaches(&event, State::Waiting).await?;
        let rows = ground.scheduled(&event).await?;
        assert_eq!(rows.len(), 1);
        let next_at = record.next_at.context("it waits until some time")?;
        let due = RowKey::new(next_at, event.key()?).sort_key();
        assert_eq!(text(&rows[0], "due")?, due, "its due is the record's time");
        assert_eq!(rows[0].get("resumed"), Some(&AttributeValue::Bool(true)));
        assert_eq!(text(&rows[0], "body")?, event.body(), "I2");
        let asked = partner.requests("closed")[0].not_before_ms.context("the partner asked for a time")?;
        assert!(u64::try_from(next_at.millis())? >= asked, "I7: {next_at} against {asked}");
        assert_eq!(partner.requests("closed").len(), 1);
        Ok(())
    })
}

#[test]
fn lim_4_a_wait_of_a_minute_is_a_delayed_message() -> Result<()> {
    alone(async |ground| {
        let partner = Partner::start()?;
        partner.set("rests", Script::Sequence(vec![Reply::status(429).retry_after(60)]));
        ground.destination(&partner, "rests", &json!({})).await?;
        let event = event("rests", "delayed:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        let throttled = ground.until(&event, "throttled", |record| record.throttles == 1);
        assert_eq!(throttled.await?.state, State::Waiting);
        eventually("a delayed message is in the queue", async || {
            let delayed = ground.queue_count("DeliveriesQueueUrl", ApproximateNumberOfMessagesDelayed).await?;
            Ok((delayed == 1).then_some(()))
        })
        .await?;
        holds(ground, "DeliveriesQueueUrl", 1).await?;
        assert_eq!(ground.count("rests", "republished").await?, 1);
        assert!(ground.scheduled(&event).await?.is_empty());
        assert_eq!(partner.requests("rests").len(), 1);
        Ok(())
    })
}

#[test]
fn lim_5_a_strict_partner_with_the_same_limit_refuses_nothing() -> Result<()> {
    alone(async |ground| {
        let partner = Partner::start()?;
        partner.set("strict", Script::Bucket { limit_per_second: 10, burst: 10 });
        let rate = json!({"rate": {"limit": 10, "per_seconds": 1, "burst": 10}});
        ground.destination(&partner, "strict", &rate).await?;
        let events = events("strict", "limited", 30);
        ground.driver.send(&events).await?;
        ground.delivered(&events).await?;
        let checks = partner.checks("strict");
        assert_eq!(checks.statuses, [(200, 30)].into());
        assert!(checks.most_in_a_second <= 20, "I4: {} in a second", checks.most_in_a_second);
        let records = ground
            .driver
            .records(&events.iter().map(lapse_local::driver::Event::key).collect::<Result<Vec<_>>>()?)
            .await?;
        assert!(records.values().all(|record| (record.attempts, record.throttles) == (1, 0)));
        Ok(())
    })
}

#[test]
fn lim_7_a_pause_holds_for_all_that_wait() -> Result<()> {
    alone(async |ground| {
        let busy = Answer { status: 429, retry_after: Some("6"), ..Answer::default() };
        let witness = Witness::start([busy, Answer { status: 200, ..Answer::default() }]).await?;
        let partner = Partner::start()?;
        partner.set("pauses", Script::Forward { url: witness.url.clone(), lose_answers: Lose::First(0) });
        // So far apart that nothing else is on its way when the first is answered: LIM-4's 1.0 s is less.
        let rate = json!({"rate": {"limit": 2, "per_seconds": 3, "burst": 1}});
        ground.destination(&partner, "pauses", &rate).await?;
        let events = events("pauses", "paused", 10);
        ground.driver.send(&events).await?;
        ground.delivered(&events).await?;
        let seen = partner.requests("pauses");
        assert_eq!(partner.checks("pauses").statuses, [(429, 1), (200, 10)].into());
        let end = seen[0].not_before_ms;
        assert!(end.is_some(), "the first is refused");
        let early: Vec<_> = seen[1..].iter().filter(|one| Some(one.arrived_ms) < end).collect();
        assert!(early.is_empty(), "LIM-7: during the pause until {end:?}: {early:?}");
        // I9: nobody plans anew for a pause.
        let received = ground.count("pauses", "received").await?;
        assert!(received <= 45, "{received} receives of 10 deliveries with one pause");
        Ok(())
    })
}
