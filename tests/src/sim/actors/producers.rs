//! Producers of a run: events for now and for later, holds that are paid or extended, repeats, and nonsense.
//!
//! Owns: what a seed lets them send. Must not: send what they could not: an accepted message is a promise.

use std::sync::Arc;
use std::time::Duration;

use lapse_policy::names::{DeliveryKey, DestinationName, EventId};
use lapse_policy::ports::{Clock as _, Row};
use lapse_policy::schedule::{Origin, RowKey};
use lapse_policy::timestamp::Timestamp;

use super::Stage;
use super::receivers::CATALOG;
use crate::fleet::name;

/// Bodies that are no messages.
const NONSENSE: [&str; 4] = ["hello", "{}", r#"{"v":2,"id":"x:1"}"#, "[1,"];

/// Lets them send so many events at most.
pub(super) fn start(stage: &Stage, destinations: &[DestinationName], events: u32) {
    // In some runs all come at once, and mostly for one destination.
    let crowd = stage.one_in(3).then(|| (stage.sometime(), stage.dice.below(destinations.len())));
    for n in 0..events {
        let at = crowd.map_or_else(|| stage.sometime(), |(at, _)| at);
        let anyone = stage.dice.below(destinations.len());
        let one = crowd.filter(|_| !stage.one_in(4)).map_or(anyone, |(_, one)| one);
        let destination = &destinations[one];
        match stage.dice.below(24) {
            0 => nonsense(stage, at),
            1 => plain(stage, at, &name("nobody"), n),
            _ if destination.as_str() == CATALOG => hold(stage, at, n),
            _ => plain(stage, at, destination, n),
        }
    }
}

fn nonsense(stage: &Stage, at: Timestamp) {
    let (here, body) = (stage.clone(), NONSENSE[stage.dice.below(NONSENSE.len())]);
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        here.world.shared.deliveries.put(body.into(), &name("nobody"));
    });
}

/// An event of a kind that means nothing here: for now or for later, once or more often.
fn plain(stage: &Stage, at: Timestamp, destination: &DestinationName, n: u32) {
    let (here, destination) = (stage.clone(), destination.clone());
    let later = [Duration::ZERO, Duration::ZERO, stage.span(1, 3600), stage.span(1, 600_000)][stage.dice.below(4)];
    let deadline = match stage.dice.below(4) {
        0 => Some(stage.span(1, 120)),
        1 => Some(stage.span(120, 7200)),
        _ => None,
    };
    let again: Vec<_> = (0..stage.dice.below(3)).filter(|_| stage.one_in(2)).map(|_| stage.span(0, 400)).collect();
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let now = here.time().now();
        let due = now.plus(later);
        let deadline = deadline.map(|after| format!(r#","deadline":"{}""#, due.plus(after))).unwrap_or_default();
        let body: Arc<str> = format!(
            r#"{{"v":1,"id":"e_{n}:1","destination":"{destination}","type":"t","occurred_at":"{due}"{deadline},"payload":{{"b" : {n}, "a":[ 1,2 ]}}}}"#
        )
        .into();
        let key = key(&destination, &format!("e_{n}:1"));
        send(&here, &key, due, &body, later.is_zero());
        for span in again {
            here.time().pass(span).await;
            // A repeat of what is planned for later has the same row; one of what is out is a message more.
            send(&here, &key, due, &body, later.is_zero());
        }
    });
}

/// A hold: its end is put into the schedule with it; it may be extended, and paid at any moment.
fn hold(stage: &Stage, at: Timestamp, n: u32) {
    let (here, reservation) = (stage.clone(), format!("res_{n}"));
    let lasts = stage.span(5, 1800);
    let extended = stage.one_in(4).then(|| stage.span(1, 2000));
    let paid = stage.one_in(2).then(|| stage.span(1, 2500));
    if let Some(after) = paid {
        let (here, reservation) = (stage.clone(), reservation.clone());
        stage.spawn(async move {
            here.time().sleep_until(at.plus(after)).await;
            here.catalog.pay(&reservation);
        });
    }
    stage.spawn(async move {
        here.time().sleep_until(at).await;
        let held = expires(&here, &reservation, lasts);
        if let Some(after) = extended {
            here.time().pass(after).await;
            let extended = expires(&here, &reservation, lasts);
            // EMT-3: what is still in the schedule is taken back; what is out is refused by its version.
            if let Some(key) = held.filter(|_| extended.is_some()) {
                here.world.shared.schedule.cancel(&key);
            }
        }
    });
}

/// Holds the slot at a new version, and puts the row of its end. The row's key, if it was to be had.
fn expires(stage: &Stage, reservation: &str, lasts: Duration) -> Option<RowKey> {
    let now = stage.time().now();
    let version = stage.catalog.hold(reservation)?;
    let (due, destination) = (now.plus(lasts), name(CATALOG));
    let id = format!("{reservation}:{version}");
    let body: Arc<str> = format!(
        r#"{{"v":1,"id":"{id}","destination":"{CATALOG}","type":"reservation.expired","occurred_at":"{due}","payload":{{"reservation_id":"{reservation}","event_version":{version},"resource":"studio-7","hold_expires_at":"{due}"}}}}"#
    )
    .into();
    let key = key(&destination, &id);
    send(stage, &key, due, &body, false);
    Some(RowKey::new(due, key))
}

fn key(destination: &DestinationName, id: &str) -> DeliveryKey {
    let id = EventId::parse(id).unwrap_or_else(|error| unreachable!("{id}: {error}"));
    DeliveryKey { destination: destination.clone(), id }
}

fn send(stage: &Stage, key: &DeliveryKey, due: Timestamp, body: &Arc<str>, now: bool) {
    if now {
        stage.world.shared.deliveries.put(Arc::clone(body), &key.destination);
    } else {
        let key = RowKey::new(due, key.clone());
        stage.world.shared.schedule.insert(&Row { key, body: Arc::clone(body), origin: Origin::New });
    }
}
