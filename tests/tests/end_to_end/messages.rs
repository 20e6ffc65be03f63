//! Copies of a message, and its bytes. LED-5, LED-9, I2.

use anyhow::Result;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::event;
use lapse_tests::patience::eventually;
use serde_json::json;

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
