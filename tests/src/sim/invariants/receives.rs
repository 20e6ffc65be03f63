//! I9: where nothing but receivers fails, a message is received seldom.
//!
//! Owns: the bound. Must not: count where messages come back for the world's faults.

use std::sync::Arc;

use lapse_policy::timestamp::Timestamp;

use super::story;
use super::{Broken, Checker, Found, Invariant};
use crate::fleet::steps::Place;

/// A request may cost three: it wakes, waits for a planned time, and wakes a second early for that. One that is planned
/// and dies unsent costs them twice.
const A_REQUEST: u64 = 3;
/// Beside what I9 lists, a message comes back from an invocation whose time a hanging receiver used up (ACK-4): 20 s at
/// most. Pauses without end are looked at seldom (DST-2), and so is a full plan (LIM-6).
const PART_MS: u64 = 20_000;

/// A message of `deliveries` was handed out.
pub(super) fn received(checker: &mut Checker, at: Timestamp, place: Place, body: &Arc<str>) -> Found {
    if place != Place::Deliveries {
        return Ok(());
    }
    let (key, message) = story::read(body);
    let Some(message) = message else { return Ok(()) };
    let story = checker.stories.entry(key.clone()).or_default();
    story.receives += 1;
    let first = *story.first_received.get_or_insert(at);
    if !checker.tolerances.fair {
        return Ok(());
    }
    let (lane_waits, pauses) = checker
        .rules
        .get(&message.key.destination)
        .map(|rules| (rules.lane_waits - story.before.0, rules.pauses - story.before.1))
        .unwrap_or_default();
    let parts = u64::try_from(at.since(first).as_millis()).unwrap_or(u64::MAX) / PART_MS;
    let each = A_REQUEST * (2 + story.requests)
        + story.replans
        + 2 * pauses
        + lane_waits
        + parts
        + 4 * u64::from(story.redrives);
    if story.receives <= each * story.most_copies {
        return Ok(());
    }
    let what = format!(
        "{} receives of {} copies for {} requests, {} planned times more, {pauses} pauses, {lane_waits} looks at held lanes",
        story.receives, story.most_copies, story.requests, story.replans
    );
    Err(Broken(Invariant::FewReceives, Some(key), what))
}
