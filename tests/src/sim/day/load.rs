//! The day's events: few destinations get much, there is a day and a night, and at noon everybody comes at once.
//!
//! Owns: how many events come when and for whom, and which destinations have trouble. Must not: look at what comes of it.

use std::f64::consts::TAU;
use std::rc::Rc;
use std::time::Duration;

use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Clock as _, Row};
use lapse_policy::schedule::{Origin, RowKey};
use lapse_policy::timestamp::Timestamp;
use serde_json::json;

use super::{DAY, Options};
use crate::fleet::chance::Dice;
use crate::fleet::moods::Mood;
use crate::fleet::receivers::Behaviour;
use crate::fleet::time::{START, Time};
use crate::fleet::{Fleet, Producer, name};

/// One of so many destinations has trouble: 2 %.
const TROUBLED: u32 = 50;
/// The share of events that are holds, planned 20 minutes ahead.
const HELD: u64 = 5;
const AHEAD: Duration = Duration::from_mins(20);
/// How much the rate swings around its mean.
const SWING: f64 = 0.6;
/// At noon, for a minute, this share of the day's events comes besides.
const NOON: f64 = 0.01;

/// What is the matter with a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its rate is below what it is offered at the day's height.
    Limited,
    /// It fails for an hour, or now and then.
    Failing,
}

/// The destinations and their shares.
#[derive(Debug)]
pub(super) struct Load {
    names: Rc<Vec<DestinationName>>,
    /// The sum of the shares up to each.
    shares: Rc<Vec<f64>>,
    kinds: Vec<Option<Kind>>,
    deliveries: u32,
    dice: Dice,
}

impl Load {
    /// Puts the rows of all destinations.
    pub(super) fn new(fleet: &Fleet, options: &Options) -> Self {
        let mut sum = 0.0;
        let share = |n: u32| 1.0 / f64::from(n + 1);
        let all: f64 = (0..options.destinations).map(share).sum();
        let (mut names, mut shares, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..options.destinations {
            let (name, mean) = (format!("d{n}"), f64::from(options.deliveries) * share(n) / all / DAY.as_secs_f64());
            kinds.push(put(fleet, &name, n, mean));
            names.push(crate::fleet::name(&name));
            sum += share(n) / all;
            shares.push(sum);
        }
        let (names, shares) = (Rc::new(names), Rc::new(shares));
        Self { names, shares, kinds, deliveries: options.deliveries, dice: Dice::new(options.seed ^ 0x6461_7900) }
    }

    /// Those with this trouble, or with none.
    pub(super) fn names(&self, kind: Option<Kind>) -> impl Iterator<Item = &DestinationName> {
        self.names.iter().zip(&self.kinds).filter(move |(_, of)| **of == kind).map(|(name, _)| name)
    }

    /// Starts the day's producer.
    pub(super) fn start(&self, fleet: &Fleet) {
        let (time, producer, schedule) = (fleet.time.clone(), fleet.producer(), fleet.world.schedule.clone());
        let (names, shares, dice) = (Rc::clone(&self.names), Rc::clone(&self.shares), self.dice.clone());
        let per_second = f64::from(self.deliveries) * (1.0 - NOON) / DAY.as_secs_f64();
        let at_noon = f64::from(self.deliveries) * NOON / 60.0;
        fleet.busy(async move {
            let mut owed = 0.0;
            for second in 0..DAY.as_secs() {
                time.sleep_until(START.plus(Duration::from_secs(second))).await;
                owed += per_second * shape(second) + if (43_200..43_260).contains(&second) { at_noon } else { 0.0 };
                while owed >= 1.0 {
                    owed -= 1.0;
                    let chance = f64::from(u32::try_from(dice.roll() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
                    let n = shares.partition_point(|share| *share < chance).min(names.len() - 1);
                    let Some(name) = names.get(n) else { continue };
                    if dice.roll() % HELD == 0 {
                        hold(&producer, &schedule, &time, name);
                    } else {
                        producer.put(name, None);
                    }
                }
            }
        });
    }
}

/// How a second's rate compares with the day's mean: least at four in the morning, most at four in the afternoon.
fn shape(second: u64) -> f64 {
    let hour = f64::from(u32::try_from(second).unwrap_or(0)) / 3600.0;
    1.0 - SWING * ((hour - 4.0) / 24.0 * TAU).cos()
}

fn hold(producer: &Producer, schedule: &crate::fleet::schedule::ScheduleTable, time: &Time, name: &DestinationName) {
    let due = time.now().plus(AHEAD);
    let (key, body) = producer.event(name, due, None);
    schedule.insert(&Row { key: RowKey::new(due, key), body, origin: Origin::New });
}

/// A destination with or without trouble; half of those without have a rate that they never come near.
fn put(fleet: &Fleet, destination: &str, n: u32, mean_per_second: f64) -> Option<Kind> {
    let roomy = if n.is_multiple_of(2) { json!({"rate": {"limit": 50}}) } else { json!({}) };
    if n % TROUBLED != 7 {
        fleet.destination(destination, &roomy, Behaviour::Accepts);
        return None;
    }
    match n / TROUBLED % 4 {
        0 | 1 => {
            // A little above its mean: it falls behind by day and catches up by night.
            let seconds = (1.0 / (mean_per_second * 1.15)).clamp(1.0, 3600.0);
            let per_seconds = Duration::from_secs_f64(seconds * 10.0).as_secs().max(1);
            fleet.destination(
                destination,
                &json!({"rate": {"limit": 10, "per_seconds": per_seconds}}),
                Behaviour::Accepts,
            );
            Some(Kind::Limited)
        }
        2 => {
            fleet.destination(destination, &roomy, Behaviour::Accepts);
            let (receivers, time, who) = (fleet.world.receivers.clone(), fleet.time.clone(), name(destination));
            fleet.busy(async move {
                let at = |hour| START.plus(Duration::from_hours(hour));
                let until = |at: Timestamp| time.sleep_until(at);
                until(at(10)).await;
                receivers.behave(&who, Behaviour::Answers(503, None));
                until(at(11)).await;
                receivers.behave(&who, Behaviour::Accepts);
            });
            Some(Kind::Failing)
        }
        _ => {
            fleet.destination(destination, &roomy, Behaviour::Minded(Mood::Flaky));
            Some(Kind::Failing)
        }
    }
}
