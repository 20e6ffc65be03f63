//! What bad input gets: a letter with its reason and the field's name, and its batch unharmed. DLQ-4, DST-1, CLS-9.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use lapse_local::Function;
use lapse_local::driver::Event;
use lapse_local::partner::{Partner, Script};
use lapse_policy::ledger::State;
use lapse_policy::message::MAX_MESSAGE_BYTES;
use lapse_policy::reason::Reason;
use lapse_tests::ground::{binary, event, events, row};
use lapse_tests::letters::Letter;
use lapse_tests::patience::eventually;
use serde_json::{Value, json};

use crate::play;

#[test]
fn dlq_4_malformed_bodies_are_letters_and_their_batch_is_delivered() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("beside-bad", Script::Accept);
        ground.destination(&partner, "beside-bad", &json!({})).await?;
        let good = events("beside-bad", "good", 9);
        let changed = |id: &str, from: &str, to: &str| event("beside-bad", id).body().replace(from, to);
        let payload = format!("\"{}\"", "x".repeat(MAX_MESSAGE_BYTES));
        let large = Event { payload, ..event("beside-bad", "mf-5:1") };
        let bad = [
            ("no JSON", "mf-1 is no JSON".to_owned(), "mf-1", "body"),
            ("version 2", changed("mf-2:1", r#""v":1"#, r#""v":2"#), "mf-2", "v: is 2"),
            ("a dot in the id", changed("mf-3.1", "", ""), "mf-3.1", "id: must be"),
            ("no payload", changed("mf-4:1", r#""payload":"#, r#""burden":"#), "mf-4", "payload: is missing"),
            ("too large", large.body(), "mf-5", "body: is 262"),
        ];
        let bodies: Vec<_> =
            bad.iter().map(|(_, body, _, _)| body.clone()).chain(good.iter().map(Event::body)).collect();
        ensure!(bodies[4].len() > MAX_MESSAGE_BYTES, "the large one is");
        ground.driver.send_bodies(&bodies, 0).await?;

        ground.delivered(&good).await?;
        assert_eq!(partner.checks("beside-bad").statuses, [(200, 9)].into());
        for (label, body, mark, field) in &bad {
            let letter = ground.letter(label, |letter| letter.text.contains(mark)).await?;
            assert_eq!(letter.body["dead"]["reason"], "malformed_message", "{label}");
            let error = letter.body["dead"]["error"].as_str().unwrap_or_default();
            assert!(error.starts_with(field), "{label}: {error}");
            assert!(letter.moved_from.as_deref().is_some_and(|from| from.ends_with("-failures")), "{label}");
            if serde_json::from_str::<Value>(body).is_err() {
                assert_eq!(letter.body["malformed"], **body, "{label}: wrapped");
            }
        }
        // It comes back: nothing here understands it yet. Twice, because a redrive may be repeated.
        let first = |letter: &Letter| letter.text.contains("mf-1");
        for _ in 0..2 {
            let before = ground.letter("no JSON", first).await?;
            assert_eq!(ground.redrive(first).await?, 1);
            let after = ground.letter("no JSON, again", first).await?;
            assert!(after.died_at()? > before.died_at()?, "a new death: {}", after.text);
            assert_eq!(after.body["malformed"], before.body["malformed"], "not wrapped twice");
        }
        Ok(())
    })
}

#[test]
fn dst_1_what_cannot_be_sent_to_is_a_letter_until_its_row_is_mended() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let cases = [
            ("not-there", None, Reason::UnknownDestination, "destination: "),
            ("off", Some(json!({"disabled": true})), Reason::DisabledDestination, "disabled: "),
            ("bad-rate", Some(json!({"rate": {"limit": 0}})), Reason::InvalidDestination, "rate.limit "),
            ("bad-url", Some(json!({"url": 7})), Reason::InvalidDestination, "url "),
        ];
        let events: Vec<_> = cases.iter().map(|(name, ..)| event(name, "early:1")).collect();
        for (name, change, ..) in &cases {
            partner.set(name, Script::Accept);
            if let Some(change) = change {
                ground.driver.put_destination_unchecked(name, &row(&partner.url(name), change)).await?;
            }
        }
        ground.driver.send(&events).await?;
        for ((name, _, reason, field), event) in cases.iter().zip(&events) {
            let record = ground.reaches(event, State::Dead).await?;
            assert_eq!(record.reason, Some(*reason), "{name}");
            let error = record.last_error.unwrap_or_default();
            assert!(error.starts_with(field), "{name}: {error}");
            assert_eq!(record.attempts, 0, "{name}");
            ground.letter_of(event).await?;
        }
        for (name, ..) in &cases {
            assert!(partner.requests(name).is_empty(), "{name}");
            ground.destination(&partner, name, &json!({})).await?;
        }
        assert_eq!(ground.redrive(|letter| events.iter().any(|event| letter.is_of(event))).await?, events.len());
        for event in &events {
            let record = ground.reaches(event, State::Delivered).await?;
            assert_eq!((record.epoch, record.attempts), (2, 1), "{}: DLQ-3", event.destination);
        }
        Ok(())
    })
}

#[test]
fn cls_9_an_address_that_may_not_be_called_is_a_letter() -> Result<()> {
    play(async |ground| {
        let cases = [
            ("metadata", "http://169.254.169.254/latest/", Reason::BlockedAddress),
            ("private", "http://10.0.0.1/", Reason::BlockedAddress),
        ];
        for (name, url, _) in cases {
            ground.driver.put_destination_unchecked(name, &row(url, &json!({}))).await?;
        }
        let events: Vec<_> = cases.iter().map(|(name, ..)| event(name, "blocked:1")).collect();
        ground.driver.send(&events).await?;
        for ((name, _, reason), event) in cases.iter().zip(&events) {
            let record = ground.reaches(event, State::Dead).await?;
            assert_eq!((record.reason, record.unknown_outcome), (Some(*reason), false), "{name}");
            ground.letter_of(event).await?;
        }
        Ok(())
    })
}

#[test]
fn a_function_without_its_environment_refuses_to_start_and_names_what_is_missing() -> Result<()> {
    // The stack has built them.
    play(async |_| {
        let first = [(Function::Deliver, "DELIVERIES_QUEUE_URL"), (Function::Triage, "FAILURES_QUEUE_URL")].into_iter();
        for (function, missing) in first.chain([(Function::Expiry, "SCHEDULE_TABLE")]) {
            let path = binary(function.name())?;
            let output =
                Command::new(&path).env_clear().output().with_context(|| format!("cannot run {}", path.display()))?;
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(!output.status.success(), "{function}: {said}");
            assert!(said.contains(missing), "{function}: {said}");
        }
        Ok(())
    })
}

#[test]
fn ack_2_a_body_that_is_sent_twice_and_is_wrong_does_not_harm_its_copies() -> Result<()> {
    play(async |ground| {
        let bodies: Vec<_> = (0..3).map(|_| "mf-6 thrice".to_owned()).collect();
        ground.driver.send_bodies(&bodies, 0).await?;
        let all = eventually("three letters", async || {
            let letters = ground.letters(|letter| letter.text.contains("mf-6")).await?;
            Ok(Some(letters).filter(|letters| letters.len() >= 3))
        });
        assert_eq!(all.await?.len(), 3);
        Ok(())
    })
}
