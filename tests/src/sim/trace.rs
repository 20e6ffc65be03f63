//! A run as a person reads it: one line a step.
//!
//! Owns: the words. Must not: decide what is shown beyond its filter.

use std::io::Write as _;

use lapse_policy::clock::Write;
use lapse_policy::timestamp::{Timestamp, millis};

use super::invariants::story;
use crate::fleet::steps::{Step, Watcher};
use crate::fleet::time::START;

/// Which steps are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All.
    All,
    /// Those of one event, by its id, and what operators and misfortune do.
    Event(String),
}

/// Prints steps as they come, on standard output.
#[derive(Debug)]
pub struct Tracer {
    filter: Filter,
    numbers: Vec<u64>,
}

impl Tracer {
    /// One that shows these.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self { filter, numbers: Vec::new() }
    }

    fn shows(&mut self, step: &Step) -> bool {
        let Filter::Event(id) = &self.filter else { return true };
        let of_body = |body: &str| match story::read(body).0 {
            story::Key::Delivery(key) => key.id.as_str() == id,
            story::Key::Malformed(body) => body == *id,
        };
        match step {
            Step::Put(_, body) | Step::Gone(_, body, _) | Step::Received(_, body, _) | Step::Hidden(_, body, _) => {
                of_body(body)
            }
            Step::Commit(key, ..) | Step::Expired(key) => key.id.as_str() == id,
            Step::Started(number, attempt) => {
                let shown = attempt.id.as_str() == id;
                if shown {
                    self.numbers.push(*number);
                }
                shown
            }
            Step::Heard(number, ..) | Step::Orphaned(number) => self.numbers.contains(number),
            Step::Acted(_, of) | Step::Told(of, ..) => of.as_str() == id,
            Step::Released(reservation, version, _) => *id == format!("{reservation}:{version}"),
            Step::Paid(reservation) => id.split(':').next() == Some(reservation),
            Step::Configured(..) | Step::Resumed(_) | Step::Did(_) | Step::Went(..) => true,
            Step::Clock(..) | Step::LaneHeld(_) | Step::Lane(..) | Step::Invoked(..) | Step::Returned(..) => false,
        }
    }
}

impl Watcher for Tracer {
    fn see(&mut self, at: Timestamp, step: &Step) {
        if self.shows(step) {
            // Whoever reads may have gone: `--trace | head`.
            let _ = writeln!(std::io::stdout().lock(), "{}", line(at, step));
        }
    }
}

/// A step as one line.
#[must_use]
pub fn line(at: Timestamp, step: &Step) -> String {
    let ms = millis(at.since(START));
    let (s, ms) = (ms / 1000, ms % 1000);
    format!("{:>4}:{:02}:{:02}.{ms:03}  {}", s / 3600, s / 60 % 60, s % 60, words(step))
}

fn words(step: &Step) -> String {
    let of = |body: &str| story::read(body).0;
    match step {
        Step::Put(place, body) => format!("put        {} into {place:?}", of(body)),
        Step::Gone(place, body, why) => format!("gone       {} from {place:?}: {why:?}", of(body)),
        Step::Received(place, body, n) => format!("received   {} from {place:?}, the {n}. time", of(body)),
        Step::Hidden(_, body, seconds) => format!("hidden     {} for {seconds} s", of(body)),
        Step::Commit(key, _, record) => {
            let mut line = format!(
                "record     {key} v{} {:?} epoch {} attempts {} throttles {} crashes {}",
                record.version, record.state, record.epoch, record.attempts, record.throttles, record.crashes
            );
            for (name, at) in [("until", record.next_at), ("lease", record.lease)] {
                line.extend(at.map(|at| format!(" {name} {}", short(at))));
            }
            line.extend(record.reason.map(|reason| format!(" {reason}")));
            line
        }
        Step::Expired(key) => format!("ttl        {key} is taken away"),
        Step::Clock(name, write, clocks) => {
            let [before, after] = **clocks;
            let what = match write {
                Write::Busy { clock, .. } | Write::Idle { clock, .. } => format!("{clock:?}"),
                Write::BothIdle { .. } => "both".to_owned(),
                Write::Pause { .. } => "pause".to_owned(),
            };
            let ahead = |of: Option<lapse_policy::timestamp::Micros>| of.map(|micros| short(micros.timestamp()));
            let until = after.pause.until.map(short);
            format!(
                "clock      {name} {what}: gate {:?} -> {:?}, paused until {until:?}",
                ahead(before.gate),
                ahead(after.gate)
            )
        }
        Step::LaneHeld(name) => format!("lanes      some of {name} are held"),
        Step::Lane(name, number, step) => format!("lane       {number} of {name}: {step:?}"),
        Step::Started(number, attempt) => {
            format!("request    {number}: {}#{} attempt {}", attempt.destination.name, attempt.id, attempt.number)
        }
        Step::Heard(number, status, asked) => {
            let status = status.map_or("no answer".to_owned(), |status| status.to_string());
            let asked = asked.map(|ms| format!(", asks for {ms} ms")).unwrap_or_default();
            format!("heard      {number}: {status}{asked}")
        }
        Step::Orphaned(number) => format!("orphaned   {number}: its sender died"),
        Step::Acted(name, id) => format!("acted      {name} on {id}"),
        Step::Told(id, status, stored) => format!("told       {id}: {status}, decision stored: {stored}"),
        Step::Released(reservation, version, paid) => format!("released   {reservation}:{version}, paid: {paid}"),
        Step::Paid(reservation) => format!("paid       {reservation}"),
        Step::Invoked(name, messages) => format!("invoked    {name} with {messages}"),
        Step::Returned(name, ended) => format!("returned   {name}: {ended:?}"),
        Step::Configured(name, None) => format!("configured {name}: none"),
        Step::Configured(name, Some(row)) => {
            let rate = row.rate.map(|rate| format!("{}/{} s, burst {}", rate.limit, rate.per_seconds, rate.burst));
            format!("configured {name}: rate {rate:?}, lanes {:?}, timeout {:?}", row.max_in_flight, row.timeout)
        }
        Step::Resumed(name) => format!("resumed    {name}"),
        Step::Did(what) => format!("did        {what}"),
        Step::Went(fault, what) => format!("went wrong {fault:?}: {what}"),
    }
}

fn short(at: Timestamp) -> String {
    if at >= Timestamp::FAR_FUTURE {
        return "for ever".to_owned();
    }
    let ms = at.millis() - START.millis();
    format!("{:.3} s", f64::from(i32::try_from(ms).unwrap_or(i32::MAX)) / 1000.0)
}
