//! I1, I10: from the moment it was accepted, an event has a copy somewhere until its receiver has decided.
//!
//! Owns: counting copies, and what may be left at the end. Must not: know why a copy is where it is.

use std::collections::HashMap;
use std::sync::Arc;

use lapse_policy::ledger::State;
use lapse_policy::names::DestinationName;

use super::story::{self, Key, Rules, Story};
use super::{Broken, Found, Invariant};
use crate::fleet::steps::{Place, Why};

/// A copy was stored.
pub(super) fn put(
    stories: &mut HashMap<Key, Story>,
    rules: &HashMap<DestinationName, Rules>,
    place: Place,
    body: &Arc<str>,
) -> Found {
    let (key, message) = story::read(body);
    let story = stories.entry(key.clone()).or_default();
    *story.copies.entry(place).or_default() += 1;
    story.most_copies = story.most_copies.max(u64::try_from(story.alive()).unwrap_or(0));
    let Some(message) = message else { return Ok(()) };
    let rules = rules.get(&message.key.destination);
    match &story.payload {
        Some(payload) if *payload != message.payload => {
            let what = format!("its payload was {payload} and is {}", message.payload);
            Err(Broken(Invariant::SameBytes, Some(key), what))
        }
        Some(_) => Ok(()),
        None => {
            story.deadline = Some(story::deadline(&message, rules));
            story.payload = Some(message.payload);
            story.before = rules.map(|rules| (rules.lane_waits, rules.pauses)).unwrap_or_default();
            Ok(())
        }
    }
}

/// A copy was taken away.
pub(super) fn gone(stories: &mut HashMap<Key, Story>, place: Place, body: &Arc<str>, why: Why) -> Found {
    let (key, _) = story::read(body);
    let story = stories.entry(key.clone()).or_default();
    *story.copies.entry(place).or_default() -= 1;
    match why {
        Why::Redriven => story.redrives += 1,
        Why::Cancelled => story.cancelled = true,
        Why::Done | Why::Moved | Why::Retention => {}
    }
    if story.alive() > 0 || story.delivered || story.cancelled {
        return Ok(());
    }
    let what = format!("its last copy was in {place:?} and is gone ({why:?}); its receiver has not decided");
    Err(Broken(Invariant::Kept, Some(key), what))
}

/// What is left when all is quiet: letters in `dead-letters`, rows set aside, and nothing on its way.
pub(super) fn at_the_end(stories: &HashMap<Key, Story>, quiet: bool) -> Found {
    let mut keys: Vec<_> = stories.keys().collect();
    keys.sort();
    for key in keys {
        let Some(story) = stories.get(key) else { continue };
        let lies = |place| story.copies.get(&place).is_some_and(|copies| *copies > 0);
        if !quiet || lies(Place::Deliveries) || lies(Place::Failures) || lies(Place::Schedule) {
            if lies(Place::Deliveries) || lies(Place::Failures) || lies(Place::Schedule) {
                let what = format!("it is still on its way: {:?}, {:?}", story.copies, story.record);
                return Err(Broken(Invariant::Ends, Some(key.clone()), what));
            }
            continue;
        }
        let ended = story.delivered || story.cancelled || lies(Place::DeadLetters) || lies(Place::Aside);
        let dead = story.record.as_ref().is_some_and(|record| record.state == State::Dead);
        if !ended || (dead && !lies(Place::DeadLetters)) {
            let what = format!("all is quiet, and it is nowhere: {:?}", story.record);
            return Err(Broken(Invariant::Kept, Some(key.clone()), what));
        }
    }
    if quiet { Ok(()) } else { Err(Broken(Invariant::Ends, None, "a function never ends".to_owned())) }
}
