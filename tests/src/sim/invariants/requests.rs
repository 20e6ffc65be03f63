//! I2, I5, I6, I7, I8, LED-4, LED-5: each request as it starts, and what its sender heard.
//!
//! Owns: who is under way. Must not: know the network; a request whose sender died counts until its timeout.

use lapse_policy::ledger::{POISON, State};
use lapse_policy::names::{DeliveryKey, DestinationName};
use lapse_policy::ports::Attempt;
use lapse_policy::timestamp::Timestamp;

use super::story::{Ask, Key};
use super::{Broken, Checker, Found, Invariant};

/// A request's sender looks at its clock, and at its place, this much before it starts at most.
const SLACK_MS: i64 = 20;

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Request {
    key: Key,
    destination: DestinationName,
    until: Timestamp,
    orphaned: bool,
}

/// A request was started.
pub(super) fn started(checker: &mut Checker, at: Timestamp, number: u64, attempt: &Attempt) -> Found {
    let name = attempt.destination.name.clone();
    let key = Key::Delivery(DeliveryKey { destination: name.clone(), id: attempt.id.clone() });
    let until = at.plus(attempt.destination.timeout);
    // Whose sender died may be under way until its timeout.
    checker.requests.retain(|_, request| !request.orphaned || request.until > at);
    in_flight(checker, at, &name, attempt)?;
    let skew = checker.tolerances.skew_ms;
    let story = checker.stories.entry(key.clone()).or_default();
    story.under_way.retain(|_, until| *until > at);
    let broken = |invariant, what: String| Err(Broken(invariant, Some(key.clone()), what));
    if story.payload.as_ref() != Some(&attempt.payload) {
        return broken(Invariant::SameBytes, format!("{:?} was accepted, {} is sent", story.payload, attempt.payload));
    }
    if let Some((other, _)) = story.under_way.first_key_value() {
        return broken(Invariant::OneAtATime, format!("request {other} is still under way"));
    }
    let record = story.record.as_deref();
    if record.is_some_and(|record| record.state == State::Delivered) {
        return broken(Invariant::Moves, "it is sent although its record says delivered".to_owned());
    }
    let deadline = record.and_then(|record| record.redrive_until).or(story.deadline).unwrap_or(Timestamp::FAR_FUTURE);
    if attempt.at > deadline || at.millis() - skew - SLACK_MS > deadline.millis() {
        return broken(Invariant::BeforeDeadline, format!("its deadline was {deadline}"));
    }
    if let Some(ask) = story.asked.filter(|ask| ask.known)
        && at.millis() + 2 * skew + SLACK_MS < ask.until.millis()
    {
        return broken(Invariant::NotEarlier, format!("its receiver asked to wait until {}", ask.until));
    }
    if story.unrecorded >= POISON {
        return broken(Invariant::Attempts, format!("{} requests in a row were never recorded", story.unrecorded));
    }
    story.unrecorded += 1;
    story.requests += 1;
    story.asked = None;
    story.under_way.insert(number, until);
    checker.requests.insert(number, Request { key, destination: name, until, orphaned: false });
    Ok(())
}

fn in_flight(checker: &Checker, at: Timestamp, name: &DestinationName, attempt: &Attempt) -> Found {
    let Some(lanes) = attempt.destination.max_in_flight else { return Ok(()) };
    let believed = checker.rules.get(name).and_then(|rules| rules.lanes).filter(|(_, until)| *until > at);
    let most = believed.map_or(lanes.get(), |(most, _)| most.max(lanes.get()));
    // Who never heard of lanes yet does not count.
    if checker.rules.get(name).is_none_or(|rules| rules.max_in_flight.is_none()) {
        return Ok(());
    }
    let under_way = checker.requests.values().filter(|request| request.destination == *name).count();
    if under_way < usize::try_from(most).unwrap_or(usize::MAX) {
        return Ok(());
    }
    Err(Broken(Invariant::InFlight, None, format!("{name}: {under_way} requests are under way, {most} may be")))
}

/// A sender learned how its request ended.
pub(super) fn heard(checker: &mut Checker, at: Timestamp, number: u64, status: Option<u16>, asked: Option<i64>) {
    let Some(request) = checker.requests.remove(&number) else { return };
    let rules = checker.rules.entry(request.destination).or_default();
    let Some(story) = checker.stories.get_mut(&request.key) else { return };
    story.under_way.remove(&number);
    let delivers = status.is_some_and(|status| rules.delivers(status));
    story.delivered |= delivers;
    let listed = status.is_some_and(|s| {
        let lists = &rules.statuses;
        lists.transient.contains(&s) || lists.permanent.contains(&s) || lists.delivered.contains(&s)
    });
    let throttled = !listed && (status == Some(429) || (status == Some(503) && asked.is_some()));
    story.counts = Some(!throttled && !delivers);
    if let Some(ms) = asked.filter(|_| !delivers) {
        story.asked = Some(Ask { until: Timestamp::from_millis(at.millis().saturating_add(ms)), known: false });
    }
}

/// A request's sender died.
pub(super) fn orphaned(checker: &mut Checker, number: u64) {
    if let Some(request) = checker.requests.get_mut(&number) {
        request.orphaned = true;
    }
}

/// An operator lifted a pause: what was asked for does not hold any more.
pub(super) fn resumed(checker: &mut Checker, name: &DestinationName) {
    for (key, story) in &mut checker.stories {
        if matches!(key, Key::Delivery(key) if key.destination == *name) {
            story.asked = None;
        }
    }
}
