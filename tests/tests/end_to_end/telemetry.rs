//! OBS-1, OBS-2: what the functions print is what the schema says.
//!
//! Owns: lines of every function, of this and of all tests so far, against `infra/telemetry.schema.json`. Must not:
//! know a field by name.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use lapse_local::Function;
use lapse_local::partner::{Lose, Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::{event, now};
use lapse_tests::patience::eventually;
use lapse_tests::telemetry_schema::Schema;
use serde_json::{Value, json};

use crate::play;

#[test]
fn obs_1_every_line_that_is_printed_is_in_the_schema() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let forged = Script::Forward { url: ground.stack.receiver_url()?, lose_answers: Lose::First(0) };
        let scripts = [
            ("logs-well", Script::Accept),
            ("logs-waits", Script::Sequence(vec![Reply::status(429).retry_after(1), Reply::status(200)])),
            ("logs-reset", Script::Reset),
            // The reference receiver knows no such reservation, and says so in its log.
            ("logs-refused", forged),
        ];
        for (name, script) in scripts {
            partner.set(name, script);
            let more = json!({"rate": {"limit": 50, "per_seconds": 1}, "policy": {"max_attempts": 1}});
            ground.destination(&partner, name, &more).await?;
        }
        let [well, waits, reset, refused] =
            ["logs-well", "logs-waits", "logs-reset", "logs-refused"].map(|name| event(name, "logged:1"));
        let nowhere = event("logs-nowhere", "logged:1");
        ground.driver.schedule(now(), &well).await?;
        ground.stack.invoke(Function::Expiry, "{}").await?;
        ground.driver.send(&[waits.clone(), reset.clone(), refused.clone(), nowhere.clone()]).await?;
        ground.driver.send_bodies(&["no message".to_owned()], 0).await?;
        ground.delivered(&[well, waits]).await?;
        for event in [&reset, &refused, &nowhere] {
            ground.reaches(event, State::Dead).await?;
            ground.letter_of(event).await?;
        }

        let wanted = [
            (Function::Deliver, &["attempt", "delivery_dead", "malformed_message"][..]),
            (Function::Expiry, &[]),
            (Function::Triage, &["dead_letter"]),
            (Function::Receiver, &["refused"]),
        ];
        let schema = Schema::of_repository()?;
        for (function, messages) in wanted {
            // The receiver prints no metrics; the other functions' come with each batch.
            let metrics = (function != Function::Receiver).then_some(None);
            let wanted: BTreeSet<_> =
                messages.iter().map(|message| Some((*message).to_owned())).chain(metrics).collect();
            eventually(&format!("{function} logs {wanted:?}"), async || {
                let mut seen = BTreeSet::new();
                for line in ours(&ground.stack.logs(function).await?)? {
                    seen.insert(schema.check(function, &line)?);
                }
                Ok(wanted.is_subset(&seen).then_some(()))
            })
            .await?;
        }
        Ok(())
    })
}

/// The lines that our code prints: all objects but those of other crates, which only warn.
fn ours(lines: &[String]) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).with_context(|| format!("half a line: {line}"))?;
        if line.get("_aws").is_some() || line["target"].as_str().is_some_and(|target| target.starts_with("lapse")) {
            found.push(line);
        }
    }
    Ok(found)
}
