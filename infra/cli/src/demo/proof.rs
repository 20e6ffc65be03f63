//! What must be true of the play, line by line.
//!
//! Owns: the expectations. Must not: be lenient: a line that does not hold fails the demo.

use std::fmt;

use serde_json::{Value, json};

use super::cast::{CANCELLED, CATALOG, HOLDS, LIMITED, LOST_ANSWERS, PAID_EARLY, PAID_LATE, TWICE};
use super::evidence::Evidence;

/// The most that a process of `deliver` may use.
const MOST_KIB: u64 = 64 * 1024;
/// Receives per delivery of a limited destination: one to plan, one to send, and a tenth for bad luck.
const MOST_RECEIVES: f64 = 2.1;

/// One line.
#[derive(Debug)]
pub struct Line {
    holds: bool,
    text: String,
}

/// All lines.
#[derive(Debug)]
pub struct Proof {
    /// In the order in which they are printed.
    pub lines: Vec<Line>,
    lost: usize,
    released_twice: usize,
    early: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.holds { "ok    " } else { "FAILED" }, self.text)
    }
}

/// Compares what was seen with what must be.
#[must_use]
pub fn of(evidence: &Evidence) -> Proof {
    let released = evidence.released.len();
    let released_twice = evidence.released.values().filter(|count| **count > 1).count();
    let refused = evidence.refused.len();
    let dead: usize = evidence.parts.iter().flat_map(|part| part.dead.values()).sum();
    let ended: usize = evidence.parts.iter().map(|part| part.delivered).sum::<usize>() + dead.min(evidence.letters);
    let lost = evidence.parts.iter().map(|part| part.events).sum::<usize>().saturating_sub(ended);
    let early = evidence.parts.iter().map(|part| part.checks.early.len()).sum();
    let mut lines = Vec::new();
    let mut line = |holds, text| lines.push(Line { holds, text });

    let to_refuse = PAID_EARLY + PAID_LATE;
    line(
        (released, refused, released_twice, lost) == (HOLDS - CANCELLED - to_refuse, to_refuse, 0, 0),
        format!(
            "{HOLDS} holds: {released} released once, {refused} refused because paid, {CANCELLED} cancelled, \
             {released_twice} released twice, {lost} lost"
        ),
    );
    let absorbed = evidence.repeats + usize::try_from(evidence.sum("duplicates")).unwrap_or(usize::MAX);
    line(
        absorbed >= LOST_ANSWERS + TWICE,
        format!(
            "{LOST_ANSWERS} lost answers and {TWICE} repeated events: {absorbed} repeats absorbed, no second decision"
        ),
    );
    if let Some(limited) = evidence.part(LIMITED) {
        let receives = receives(evidence);
        line(
            limited.throttled == 0 && limited.delivered == limited.events && receives <= MOST_RECEIVES,
            format!(
                "{} events for 5/s: {} delivered, {} answered 429, {receives:.2} receives a delivery",
                limited.events, limited.delivered, limited.throttled
            ),
        );
    }
    line(dead == evidence.letters, format!("{dead} dead deliveries, {} letters in dead-letters", evidence.letters));
    line(
        early == 0 && evidence.after_deadline == 0,
        format!("{early} retries earlier than asked, {} requests after a deadline", evidence.after_deadline),
    );
    let changed: usize = evidence.parts.iter().map(|part| part.checks.changed.len()).sum();
    line(changed == 0, format!("{changed} events changed their body or id between attempts"));
    let differ: Vec<_> = evidence
        .parts
        .iter()
        .filter(|part| usize::try_from(part.recorded_requests).ok() != Some(part.checks.requests))
        .map(|part| format!("{} ({} against {})", part.name, part.recorded_requests, part.checks.requests))
        .collect();
    let counts = if differ.is_empty() { "agree".to_owned() } else { format!("differ: {}", differ.join(", ")) };
    line(differ.is_empty(), format!("the ledger's requests and those that the destinations counted {counts}"));
    if let Some(kib) = evidence.deliver_peak_kib {
        line(kib < MOST_KIB, format!("deliver's largest process used {} MiB at most", kib.div_ceil(1024)));
    }
    Proof { lines, lost, released_twice, early }
}

/// Receives per delivery of the limited destination.
fn receives(evidence: &Evidence) -> f64 {
    let part = evidence.part(LIMITED);
    let received = part.and_then(|part| part.counts.get("received")).copied().unwrap_or(0);
    let events = part.map_or(1, |part| part.events);
    f64::from(u32::try_from(received).unwrap_or(u32::MAX)) / f64::from(u32::try_from(events).unwrap_or(1).max(1))
}

impl Proof {
    /// Whether every line does.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.lines.iter().all(|line| line.holds)
    }

    /// One object for a machine.
    #[must_use]
    pub fn json(&self, evidence: &Evidence) -> Value {
        let dead: usize = evidence.parts.iter().flat_map(|part| part.dead.values()).sum();
        let catalog_requests = evidence.part(CATALOG).map(|part| part.checks.requests);
        json!({
            "holds": HOLDS,
            "released": evidence.released.len(),
            "refused": evidence.refused.len(),
            "cancelled": CANCELLED,
            "released_twice": self.released_twice,
            "lost": self.lost,
            "dead": dead,
            "early_retries": self.early,
            "sent_after_deadline": evidence.after_deadline,
            "limit_breaches": evidence.parts.iter().map(|part| part.throttled).sum::<usize>(),
            "duplicates_absorbed": evidence.repeats + usize::try_from(evidence.sum("duplicates")).unwrap_or(0),
            "receives_per_delivery": receives(evidence),
            "catalog_requests": catalog_requests,
            "deliver_peak_kib": evidence.deliver_peak_kib,
            "duration_s": evidence.took.as_secs_f64(),
            "proof_holds": self.holds(),
        })
    }
}
