//! The main job: a hold ends, and exactly one decision is made about its slot. RCV, EMT, I3.

use std::time::Duration;

use anyhow::{Context, Result};
use lapse_local::Function;
use lapse_local::driver::{Cancel, Event, Hold};
use lapse_local::partner::{Ending, Lose, Partner, Script};
use lapse_policy::ledger::State;
use lapse_policy::names::DeliveryKey;
use lapse_policy::schedule::RowKey;
use lapse_tests::ground::{Ground, event, now, text};
use lapse_tests::patience::eventually;
use serde_json::{Value, json};

use crate::play;

/// A hold that ends soon.
fn hold(destination: &str, reservation: &str) -> Hold {
    Hold {
        reservation: reservation.to_owned(),
        resource: format!("studio-{reservation}"),
        ends_at: now().plus(Duration::from_secs(2)),
        destination: destination.to_owned(),
    }
}

/// A partner in front of the reference receiver.
async fn catalog(ground: &Ground, name: &str, lose_answers: Lose) -> Result<Partner> {
    let partner = Partner::start()?;
    partner.set(name, Script::Forward { url: ground.stack.receiver_url()?, lose_answers });
    ground.destination(&partner, name, &json!({})).await?;
    Ok(partner)
}

/// What the receiver decided about an event, in order: the decision, its reason, and whether it was there before.
async fn decisions(ground: &Ground, event: &Event) -> Result<Vec<(String, String, bool)>> {
    let lines = ground.lines(Function::Receiver).await?;
    let of_event = lines.iter().filter(|line| line["message"] == "decided" && line["event_id"] == *event.id);
    let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let decided = |line| (word(line, "decision"), word(line, "reason"), line["repeated"] == true);
    Ok(of_event.map(decided).collect())
}

async fn status(ground: &Ground, hold: &Hold) -> Result<String> {
    let rows = ground.driver.rows("ReservationsTableName").await?;
    let row = rows.iter().find(|row| text(row, "reservation_id").is_ok_and(|id| id == hold.reservation));
    Ok(text(row.context("the reservation is there")?, "status")?.to_owned())
}

fn decided(decision: &str, reason: &str, repeated: bool) -> (String, String, bool) {
    (decision.to_owned(), reason.to_owned(), repeated)
}

#[test]
fn rcv_2_an_answer_that_is_lost_after_the_commit_releases_once() -> Result<()> {
    play(async |ground| {
        let partner = catalog(ground, "lossy", Lose::First(1)).await?;
        let hold = hold("lossy", "res-lossy");
        ground.driver.hold(&hold).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;

        let event = hold.event();
        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!(record.attempts, 2);
        let seen = partner.requests("lossy");
        let endings: Vec<_> = seen.iter().map(|one| one.ending).collect();
        assert_eq!(endings, [Ending::Lost(200), Ending::Answered(200)]);
        assert!(partner.checks("lossy").changed.is_empty(), "I2");
        let released = [decided("released", "hold_expired", false), decided("released", "hold_expired", true)];
        let log = eventually("the receiver's log is there", async || {
            Ok(Some(decisions(ground, &event).await?).filter(|log| log.len() >= 2))
        });
        assert_eq!(log.await?, released, "I3");
        assert_eq!(status(ground, &hold).await?, "released");
        Ok(())
    })
}

#[test]
fn rcv_3_the_event_of_a_paid_hold_is_refused_and_done() -> Result<()> {
    play(async |ground| {
        let partner = catalog(ground, "sells", Lose::First(0)).await?;
        let hold = hold("sells", "res-paid");
        ground.driver.hold(&hold).await?;
        ground.driver.pay(&hold, Cancel::Nothing).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;

        let event = hold.event();
        ground.reaches(&event, State::Delivered).await?;
        assert_eq!(partner.checks("sells").statuses, [(200, 1)].into());
        let log = eventually("the receiver's log is there", async || {
            Ok(Some(decisions(ground, &event).await?).filter(|log| !log.is_empty()))
        });
        assert_eq!(log.await?, [decided("refused", "paid", false)], "I3");
        assert_eq!(status(ground, &hold).await?, "paid");
        Ok(())
    })
}

#[test]
fn emt_3_a_cancelled_event_never_leaves() -> Result<()> {
    play(async |ground| {
        let partner = catalog(ground, "cancels", Lose::First(0)).await?;
        let (cancelled, other) = (hold("cancels", "res-cancelled"), hold("cancels", "res-kept"));
        ground.driver.hold(&cancelled).await?;
        ground.driver.hold(&other).await?;
        ground.driver.pay(&cancelled, Cancel::Row).await?;
        assert!(ground.scheduled(&cancelled.event()).await?.is_empty());
        ground.stack.invoke(Function::Expiry, "{}").await?;

        // Both ended at the same time: when one has come, the other would have.
        ground.reaches(&other.event(), State::Delivered).await?;
        let seen = partner.requests("cancels");
        assert_eq!(seen.iter().map(|one| one.event.as_str()).collect::<Vec<_>>(), ["res-kept:1"]);
        let ends = u64::try_from(other.ends_at.millis())?;
        assert!(seen[0].arrived_ms >= ends, "EMT-1: not before the hold ends");
        assert_eq!(ground.record(&cancelled.event()).await?, None);
        assert_eq!(status(ground, &cancelled).await?, "paid");
        Ok(())
    })
}

#[test]
fn emt_4_a_row_that_cannot_be_sent_is_set_aside_with_its_reason() -> Result<()> {
    play(async |ground| {
        use aws_sdk_dynamodb::types::AttributeValue;
        let text_of = |text: &str| AttributeValue::S(text.to_owned());
        let table = ground.driver.output("ScheduleTableName")?;
        // "1700000000" sorts before every due time, and is none.
        let malformed = "1700000000#set-aside";
        let put = ground.dynamodb.put_item().table_name(table).item("shard", AttributeValue::N("3".to_owned()));
        put.item("due", text_of(malformed)).item("body", text_of("{}")).send().await?;
        let large = Event { payload: format!("\"{}\"", "x".repeat(262_144)), ..event("set-aside", "large:1") };
        ground.driver.schedule(now(), &large).await?;
        let good = catalog(ground, "beside", Lose::First(0)).await?;
        let hold = hold("beside", "res-beside");
        ground.driver.hold(&hold).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;

        ground.reaches(&hold.event(), State::Delivered).await?;
        assert_eq!(good.requests("beside").len(), 1, "its shard and tick are unharmed");
        let rows = ground.driver.rows("ScheduleTableName").await?;
        let large_due = RowKey::new(now(), DeliveryKey::parse("set-aside#large:1")?).sort_key();
        let (_, large_key) = large_due.split_once('#').context("a due key")?;
        for (ending, reason) in [("set-aside", "due must be"), (large_key, "at most 262144")] {
            let of_test = |row: &&lapse_aws::record_item::Item| {
                text(row, "due").is_ok_and(|due| {
                    due.split_once('#').is_some_and(|(_, rest)| rest.split('@').next() == Some(ending))
                })
            };
            let found: Vec<_> = rows.iter().filter(of_test).collect();
            assert_eq!(found.len(), 1, "{ending}: moved, not copied");
            assert_eq!(found[0].get("shard"), Some(&AttributeValue::N("-1".to_owned())), "{ending}");
            assert!(text(found[0], "reason")?.contains(reason), "{ending}: {}", text(found[0], "reason")?);
        }
        assert_eq!(ground.record(&large).await?, None);
        Ok(())
    })
}
