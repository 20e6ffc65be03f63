//! The play itself: what is done to the stack, and watching it come to its end.
//!
//! Owns: the acts and the progress display. Must not: count results; `evidence` does, afterwards.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lapse_local::Stack;
use lapse_local::driver::{Cancel, Driver, Event};
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;

use super::cast::{CANCELLED, Cast, PAID_EARLY, PAID_LATE, TWICE};
use crate::commands::say;

/// Between two looks at the ledger.
const LOOK: Duration = Duration::from_millis(500);
/// Without a terminal, a line this often.
const LINE: Duration = Duration::from_secs(5);

/// The stack and who plays on it.
#[derive(Debug)]
pub struct Stage<'a> {
    driver: Driver,
    cast: &'a Cast,
}

impl<'a> Stage<'a> {
    /// A stage.
    #[must_use]
    pub fn new(stack: &Stack, cast: &'a Cast) -> Self {
        Self { driver: Driver::of(stack), cast }
    }

    /// Writes the destinations' rows and takes the holds.
    pub async fn take_holds(&self) -> Result<()> {
        for role in &self.cast.roles {
            self.driver.put_destination(role.name, &role.row).await?;
        }
        for hold in &self.cast.holds {
            self.driver.hold(hold).await?;
        }
        Ok(())
    }

    /// Payments before the holds end: some cancel their event, some forget to.
    pub async fn pay_early(&self) -> Result<()> {
        for (n, hold) in self.cast.holds.iter().take(CANCELLED + PAID_EARLY).enumerate() {
            let cancel = if n < CANCELLED { Cancel::Row } else { Cancel::Nothing };
            self.driver.pay(hold, cancel).await?;
        }
        Ok(())
    }

    /// Payments after the events have left the schedule.
    pub async fn pay_late(&self) -> Result<()> {
        for hold in self.cast.holds.iter().skip(CANCELLED + PAID_EARLY).take(PAID_LATE) {
            self.driver.pay(hold, Cancel::Nothing).await?;
        }
        Ok(())
    }

    /// A producer that publishes the same events once more.
    pub async fn publish_twice(&self) -> Result<()> {
        let twice = self.cast.holds.iter().skip(CANCELLED + PAID_EARLY + PAID_LATE).take(TWICE);
        let bodies: Vec<_> = twice.map(|hold| hold.event().body()).collect();
        // As late as the latest of them, so that none comes before its hold ends.
        self.driver.send_bodies(&bodies, 15).await
    }

    /// All partners' events at once.
    pub async fn send_to_partners(&self) -> Result<()> {
        for role in self.cast.roles.iter().filter(|role| role.name != super::cast::CATALOG) {
            self.driver.send(&role.events).await?;
        }
        Ok(())
    }

    /// Looks at the ledger until every delivery has come to its end and every letter has arrived. `false`: not in time.
    pub async fn watch(&self, screen: &Screen, patience: Duration) -> Result<bool> {
        let keys = self.cast.deliveries()?;
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let records = self.driver.records(&keys).await?;
            screen.show(self.cast, &records);
            let ended = |state| records.values().filter(|record| record.state == state).count();
            let (delivered, dead) = (ended(State::Delivered), ended(State::Dead));
            if delivered + dead == keys.len()
                && self.driver.depth("DeadLettersQueueUrl").await? >= dead
                && self.driver.depth("DeliveriesQueueUrl").await? == 0
            {
                return Ok(true);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(false)
    }
}

/// Bars on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub struct Screen {
    bars: HashMap<&'static str, ProgressBar>,
    many: MultiProgress,
    last_line: std::cell::Cell<Option<Instant>>,
}

impl Screen {
    /// One bar per destination.
    #[must_use]
    pub fn new(cast: &Cast) -> Self {
        let many = MultiProgress::new();
        let style = ProgressStyle::with_template("  {prefix:<18} {bar:28} {pos:>3}/{len:<3} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |role: &super::cast::Role| {
            let bar = ProgressBar::new(u64::try_from(role.events.len()).unwrap_or(u64::MAX));
            (role.name, many.add(bar.with_style(style.clone()).with_prefix(role.name)))
        };
        let bars = cast.roles.iter().map(bar).collect();
        Self { bars, many, last_line: std::cell::Cell::default() }
    }

    fn show(&self, cast: &Cast, records: &HashMap<DeliveryKey, Record>) {
        let mut parts = Vec::new();
        for role in &cast.roles {
            let of = |state| {
                let has = |event: &&Event| {
                    event.key().is_ok_and(|key| records.get(&key).is_some_and(|record| record.state == state))
                };
                role.events.iter().filter(has).count()
            };
            let (delivered, dead) = (of(State::Delivered), of(State::Dead));
            let (waiting, sending) = (of(State::Waiting), of(State::Sending));
            if let Some(bar) = self.bars.get(role.name) {
                bar.set_position(u64::try_from(delivered + dead).unwrap_or(u64::MAX));
                bar.set_message(format!("delivered {delivered}  waiting {waiting}  sending {sending}  dead {dead}"));
            }
            parts.push(format!("{} {}/{}", role.name, delivered + dead, role.events.len()));
        }
        if self.many.is_hidden() && self.last_line.get().is_none_or(|last| last.elapsed() >= LINE) {
            self.last_line.set(Some(Instant::now()));
            say(&format!("  {}", parts.join(", ")));
        }
    }

    /// Leaves the bars as they are.
    pub fn finish(&self) {
        for bar in self.bars.values() {
            bar.abandon();
        }
    }
}
