//! End to end: processes that are killed in the middle of their work. LED-4, DLQ-2, I1, I10.
//!
//! Owns: a stack of its own, because a killed process takes whatever else it worked on with it.
//! Must not: kill a process that is not of this stack.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lapse_local::Function;
use lapse_local::partner::{Ending, Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::{Ground, Shared, event, events};
use lapse_tests::patience::eventually;
use serde_json::json;

static STACK: LazyLock<Shared> = LazyLock::new(|| Shared::start("crash"));
static KILLING: Mutex<()> = Mutex::new(());

/// Runs a test while no other kills.
fn alone(test: impl AsyncFnOnce(&Ground) -> Result<()>) -> Result<()> {
    let _alone = KILLING.lock().unwrap_or_else(PoisonError::into_inner);
    STACK.play(test)
}

/// Kills all processes of a function, as the kernel does when memory runs out. Returns how many.
fn kill(ground: &Ground, function: Function) -> Result<usize> {
    let pids = ground.stack.processes(function)?;
    for pid in &pids {
        // One that has ended meanwhile is no failure.
        let kill = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status()?;
        ensure!(kill.code().is_some(), "kill was killed");
    }
    Ok(pids.len())
}

#[cfg(target_os = "linux")]
#[test]
fn led_4_a_worker_that_is_killed_in_mid_attempt_loses_nothing() -> Result<()> {
    alone(async |ground| {
        // Its message comes back soon; the lease of the invocation's deadline + 5 s still has to run out.
        ground.set_visibility("DeliveriesQueueUrl", 3).await?;
        let partner = Partner::start()?;
        partner.set("held", Script::Hang);
        ground.destination(&partner, "held", &json!({"timeout_ms": 20000})).await?;
        let event = event("held", "crashed:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        eventually("the request is at the partner", async || {
            Ok(partner.requests("held").iter().any(|one| one.ending == Ending::Open).then_some(()))
        })
        .await?;
        // Slow enough to see the record while it is tried again.
        partner.set("held", Script::Sequence(vec![Reply::status(200).after(Duration::from_secs(4))]));
        assert!(kill(ground, Function::Deliver)? > 0);

        let again = ground.until(&event, "tried again", |record| record.crashes > 0).await?;
        assert_eq!((again.state, again.crashes), (State::Sending, 1), "LED-4");
        assert!(again.unknown_outcome, "the partner may have acted");
        let record = ground.reaches(&event, State::Delivered).await?;
        assert_eq!((record.crashes, record.attempts, record.unknown_outcome), (0, 1, false));
        let seen = partner.requests("held");
        let endings: Vec<_> = seen.iter().map(|one| one.ending).collect();
        assert_eq!(endings, [Ending::Left, Ending::Answered(200)]);
        assert!(partner.checks("held").changed.is_empty(), "I2");
        ground.set_visibility("DeliveriesQueueUrl", 180).await
    })
}

#[cfg(target_os = "linux")]
#[test]
fn dlq_2_letters_outlive_a_triage_that_is_killed_again_and_again() -> Result<()> {
    alone(async |ground| {
        ground.set_visibility("FailuresQueueUrl", 3).await?;
        let partner = Partner::start()?;
        partner.set("refuses", Script::Sequence(vec![Reply::status(422)]));
        ground.destination(&partner, "refuses", &json!({})).await?;
        let events = events("refuses", "letter", 20);
        ground.stack.set_mapping_enabled(Function::Triage, false).await?;
        ground.driver.send(&events).await?;
        eventually("20 letters are in failures", async || {
            Ok((ground.driver.depth("FailuresQueueUrl").await? == events.len()).then_some(()))
        })
        .await?;

        ground.stack.set_mapping_enabled(Function::Triage, true).await?;
        let (until, mut killed) = (Instant::now() + Duration::from_secs(6), 0);
        while Instant::now() < until {
            killed += kill(ground, Function::Triage)?;
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        assert!(killed > 0, "nothing was killed");
        let letters = eventually("all letters are in dead-letters", async || {
            let letters = ground.letters(|letter| letter.body["destination"] == "refuses").await?;
            Ok(Some(letters).filter(|letters| letters.len() >= events.len()))
        });
        let letters = letters.await?;
        let ids: BTreeSet<_> = letters.iter().filter_map(|letter| letter.body["id"].as_str()).collect();
        assert_eq!(ids, events.iter().map(|event| event.id.as_str()).collect(), "I1");
        // Nothing here sends a letter twice: SQS itself moves each.
        assert_eq!(letters.len(), events.len());
        assert!(letters.iter().all(|letter| letter.moved_from.as_deref().is_some_and(|q| q.ends_with("-failures"))));
        assert_eq!(ground.driver.depth("FailuresQueueUrl").await?, 0);
        for event in &events {
            assert_eq!(ground.reaches(event, State::Dead).await?.epoch, 1);
        }
        assert_eq!(partner.requests("refuses").len(), events.len());
        Ok(())
    })
}
