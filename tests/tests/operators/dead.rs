//! `lapse dead` and `lapse delivery show`: at 3 a.m., why it is dead, what would help, and that a redrive began.

use anyhow::Result;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::{REDRIVE_AFTER_SECONDS, event, now};
use lapse_tests::patience::eventually;
use serde_json::json;

use crate::{lapse, play};

#[test]
fn dlq_2_a_death_is_listed_with_its_reason_and_gone_from_the_list_once_it_is_redriven() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("refusing", Script::Sequence(vec![Reply::status(404), Reply::status(200)]));
        ground.destination(&partner, "refusing", &json!({})).await?;
        let event = event("refusing", "refused:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.reaches(&event, State::Dead).await?;
        let letter = ground.letter_of(&event).await?;

        let list = ["dead", "list", "--destination", "refusing", "--json"];
        let object = eventually("the death is in the index", async || {
            let ran = lapse(ground, &list)?;
            Ok((!ran.out.is_empty()).then_some(ran))
        });
        let object = object.await?.object()?;
        assert_eq!(
            (&object["delivery"], &object["reason"]),
            (&json!("refusing#refused:1"), &json!("permanent_status"))
        );
        assert_eq!((&object["last_status"], &object["unknown_outcome"]), (&json!(404), &json!(false)));
        let other = lapse(ground, &["dead", "list", "--destination", "refusing", "--reason", "poison", "--json"])?;
        assert_eq!((other.code, other.out.as_str()), (0, ""));
        let summary = lapse(ground, &["dead", "summary", "--destination", "refusing"])?;
        assert!(summary.out.contains("permanent_status: Read the recorded answer"), "{summary:?}");
        assert!(summary.out.contains("1 dead deliveries with a record"), "{summary:?}");
        let shown = lapse(ground, &["delivery", "show", "refusing#refused:1"])?;
        assert!(shown.code == 0 && shown.out.contains("RUNBOOK.md has a section `permanent_status`"), "{shown:?}");

        let fresh_until = letter.died_at()?.plus(std::time::Duration::from_secs(REDRIVE_AFTER_SECONDS));
        eventually("the letter is old enough", async || Ok((now() > fresh_until).then_some(()))).await?;
        assert_eq!(ground.redrive(|letter| letter.is_of(&event)).await?, 1);
        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!(record.epoch, 2);
        assert_eq!(lapse(ground, &list)?.out, "", "its entry in the index stays, and the record says better");
        Ok(())
    })
}

#[test]
fn a_delivery_without_a_record_is_looked_for_in_the_schedule() -> Result<()> {
    play(async |ground| {
        let event = event("later", "later:1");
        ground.driver.schedule(now().plus(std::time::Duration::from_secs(7200)), &event).await?;
        let shown = lapse(ground, &["delivery", "show", "later", "later:1"])?;
        assert!(shown.code == 0 && shown.out.contains("it is in the schedule, due "), "{shown:?}");
        let nothing = lapse(ground, &["delivery", "show", "later", "never:1"])?;
        assert!(nothing.code == 1 && nothing.out.contains("has no record, and no row in the schedule"), "{nothing:?}");
        Ok(())
    })
}
