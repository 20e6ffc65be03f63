//! I8 and LED-2, LED-6: how records move, what they count, and how an epoch begins.
//!
//! Owns: every commit's check. Must not: ask the code whether a move is allowed: it says so itself.

use lapse_policy::booking::INLINE;
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;

use super::story::{Key, Story};
use super::{Broken, Checker, Found, Invariant};

/// A record was written.
pub(super) fn commit(checker: &mut Checker, key: &DeliveryKey, before: Option<&Record>, after: &Record) -> Found {
    let most = checker.rules.get(&key.destination).map_or(u32::MAX, |rules| rules.max_attempts);
    let key = Key::Delivery(key.clone());
    let story = checker.stories.entry(key.clone()).or_default();
    if completes(before, after)
        && let Some(asked) = &mut story.asked
    {
        asked.known = true;
    }
    let outcome = moves(before, after).and_then(|()| epochs(story, before, after)).and_then(|()| {
        counted(story, before, after);
        attempts(story, after, most)
    });
    let planned = before.and_then(|record| record.planned_at).zip(after.planned_at);
    // A full plan is looked at again after half of the time left (LIM-6): not sooner than after a second.
    let looks = after.next_at.is_some_and(|at| after.planned_at.is_none() && at > after.last_at.plus(INLINE));
    story.replans += u64::from(looks || planned.is_some_and(|(before, after)| before != after));
    story.record = Some(Box::new(after.clone()));
    outcome.map_err(|(invariant, what)| Broken(invariant, Some(key), what))
}

/// A record was taken away: what it counted is forgotten with it.
pub(super) fn expired(checker: &mut Checker, key: &DeliveryKey) {
    if let Some(story) = checker.stories.get_mut(&Key::Delivery(key.clone())) {
        story.record = None;
        (story.recorded, story.unrecorded, story.counts) = (0, 0, None);
    }
}

type Checked = Result<(), (Invariant, String)>;

fn moves(before: Option<&Record>, after: &Record) -> Checked {
    let version = before.map_or(0, |record| record.version);
    if after.version != version + 1 {
        return Err((Invariant::Moves, format!("version {version} was replaced by {}", after.version)));
    }
    match before.map(|record| record.state) {
        Some(State::Delivered) => Err((Invariant::Moves, format!("it was delivered and is {:?}", after.state))),
        Some(State::Dead) if after.state != State::Delivered && before.is_some_and(|b| b.epoch == after.epoch) => {
            Err((Invariant::Moves, format!("it was dead and is {:?} in the same epoch", after.state)))
        }
        Some(State::Dead | State::Sending | State::Waiting) | None => Ok(()),
    }
}

/// An epoch begins from Dead alone, and there are no more of them than letters that an operator moved.
fn epochs(story: &mut Story, before: Option<&Record>, after: &Record) -> Checked {
    let epoch = before.map_or(1, |record| record.epoch);
    if after.epoch != epoch {
        // An operator decided that it is sent again: what was asked for before does not bind.
        (story.recorded, story.unrecorded, story.counts, story.asked) = (0, 0, None, None);
    }
    let from_dead = before.is_none_or(|record| record.state == State::Dead);
    if after.epoch != epoch && !from_dead {
        return Err((Invariant::Attempts, format!("epoch {epoch} became {} without a death", after.epoch)));
    }
    if after.epoch > story.redrives + 1 {
        let what = format!("epoch {} after {} redrives", after.epoch, story.redrives);
        return Err((Invariant::Attempts, what));
    }
    Ok(())
}

/// Whether this write records the end of the last request: one that takes over from a crash counts that.
fn completes(before: Option<&Record>, after: &Record) -> bool {
    before.is_some_and(|record| record.state == State::Sending) && after.state != State::Sending && after.crashes == 0
}

fn counted(story: &mut Story, before: Option<&Record>, after: &Record) {
    if completes(before, after) {
        story.unrecorded = 0;
        story.recorded += u32::from(story.counts.take() == Some(true));
    }
}

fn attempts(story: &Story, after: &Record, most: u32) -> Checked {
    if after.attempts > most || story.recorded > most {
        let (counted, recorded) = (after.attempts, story.recorded);
        return Err((Invariant::Attempts, format!("{counted} attempts counted, {recorded} seen, {most} allowed")));
    }
    Ok(())
}
