//! `lapse destination test`: one signed request, and what would be done after its answer.
//!
//! Owns: the ping. Must not: write anything, nor count against the limit; the sender, the guard and the rules are those
//! that `deliver` has.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use lapse_aws::http_sender::HttpSender;
use lapse_aws::system::{SystemChance, SystemClock};
use lapse_policy::classifier::{Class, Outcome};
use lapse_policy::decision::{self, Action, decide};
use lapse_policy::destination::Destination;
use lapse_policy::guard::AllowList;
use lapse_policy::names::EventId;
use lapse_policy::ports::{Attempt, Chance as _, Clock as _, Sender as _};
use lapse_policy::timestamp::millis;
use serde_json::json;

use super::TestFlags;
use super::rows::Rows;
use crate::columns::aligned;
use crate::commands::{show, usage};
use crate::deployed::Deployed;

/// Sends it.
pub(super) async fn run(flags: &TestFlags) -> Result<ExitCode> {
    let name = flags.of.parse()?;
    let allowed = AllowList::parse(&flags.ranges.join(",")).map_err(|e| usage(&format!("--allow-cidr: {e}")))?;
    let stack = Deployed::find(&flags.of.stack).await?;
    let Some(row) = Rows::of(&stack)?.read(&name).await? else { bail!("there is no destination {name}") };
    let destination = Arc::new(Destination::parse(&name, &row).context("its row is invalid")?);
    let started = SystemClock.now();
    let id = EventId::parse(&format!("lapse-ping-{}:1", started.millis())).context("the ping's id")?;
    let payload = json!({"type": "lapse.ping", "id": id.as_str(), "sent_at": started}).to_string();
    let attempt = Attempt {
        destination: Arc::clone(&destination),
        id: id.clone(),
        payload: payload.into(),
        number: 1,
        at: started,
    };
    let sent = HttpSender::new(allowed).context("cannot set the sender up")?.send(&attempt).await;
    let now = SystemClock.now();
    let decision = decide(
        &sent.outcome,
        destination.rules(),
        decision::Attempt {
            attempts: 0,
            streak: 0,
            unknown_before: false,
            deadline: now.plus(destination.max_age),
            now,
            draw: SystemChance.draw(),
        },
    );
    let status = match &sent.outcome {
        Outcome::Answered(answer) => answer.status.to_string(),
        Outcome::Failed(failure) => format!("none: {failure:?}"),
    };
    let next = match decision.action {
        Action::Acknowledge => "it is delivered".to_owned(),
        Action::RetryAt(at) => format!("it is tried again in {} s", (millis(at.since(now)) + 999) / 1000),
        Action::Dead(reason) => format!("it is dead: {reason}"),
    };
    let took = millis(now.since(started));
    let delivered = decision.class == Class::Delivered;
    let object = json!({
        "destination": name.as_str(), "event_id": id.as_str(), "status": status, "took_ms": took,
        "class": decision.class, "rule": decision.rule, "next": next, "excerpt": sent.excerpt,
    });
    let facts = [
        ("event id", id.to_string()),
        ("status", status),
        ("took", format!("{took} ms")),
        ("class", format!("{} ({})", object["class"].as_str().unwrap_or("?"), decision.rule)),
        ("of an event", next),
        ("answer", sent.excerpt.unwrap_or_default()),
    ];
    let facts: Vec<_> = facts.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    show(flags.of.stack.json, &object, &aligned(&facts, 2))?;
    Ok(if delivered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
