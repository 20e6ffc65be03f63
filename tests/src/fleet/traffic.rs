//! What one receiver saw, and what can be asked of it.
//!
//! Owns: windows, counts and lateness. Must not: assert; scenarios do.

use std::collections::BTreeSet;
use std::time::Duration;

use lapse_policy::names::EventId;
use lapse_policy::timestamp::{Micros, Timestamp, millis};

/// A request that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The event.
    pub id: EventId,
    /// When the event was to be sent.
    pub due: Timestamp,
    /// When the request was started, in true time.
    pub started: Timestamp,
    /// When it arrived.
    pub arrived: Timestamp,
    /// What was answered, if anything.
    pub status: Option<u16>,
    /// How many secrets signed it.
    pub signatures: usize,
}

/// Requests that are under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnderWay {
    now: usize,
    /// The most at any one time.
    pub most: usize,
}

impl UnderWay {
    /// One more.
    pub fn enter(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    /// One less.
    pub fn leave(&mut self) {
        self.now = self.now.saturating_sub(1);
    }
}

/// All that one receiver saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The requests, in the order of their arrival.
    pub requests: Vec<Request>,
    /// How many were under way at once.
    pub under_way: UnderWay,
}

impl Traffic {
    /// How many were answered with this status.
    #[must_use]
    pub fn answered(&self, status: u16) -> usize {
        self.requests.iter().filter(|request| request.status == Some(status)).count()
    }

    /// How many different events were answered with 200.
    #[must_use]
    pub fn delivered(&self) -> usize {
        self.deliveries().count()
    }

    /// When the last event was delivered.
    #[must_use]
    pub fn last_delivered(&self) -> Option<Timestamp> {
        self.deliveries().last().map(|request| request.started)
    }

    /// The part of it that was started between two instants, the second one not included.
    #[must_use]
    pub fn between(&self, from: Timestamp, until: Timestamp) -> Self {
        let started = |request: &&Request| (from..until).contains(&request.started);
        Self { requests: self.requests.iter().filter(started).cloned().collect(), under_way: self.under_way }
    }

    /// The most requests that arrived within any span.
    #[must_use]
    pub fn most_within(&self, span: Duration) -> usize {
        let arrivals: Vec<_> = self.requests.iter().map(|request| request.arrived).collect();
        let mut first = 0;
        let counts = arrivals.iter().enumerate().map(|(last, at)| {
            while arrivals[first].plus(span) <= *at {
                first += 1;
            }
            last - first + 1
        });
        counts.max().unwrap_or(0)
    }

    /// By how much the densest of all windows is denser than a request each `step`: the most of `n x step` less the
    /// window's length, for `n` requests that were started in it. LIM-5 bounds it by `burst x step` and its slack.
    #[must_use]
    pub fn densest(&self, step: Micros) -> Micros {
        let mut starts: Vec<_> = self.requests.iter().map(|request| request.started).collect();
        starts.sort_unstable();
        let (mut least, mut most) = (Micros(i64::MAX), Micros(0));
        for (index, at) in starts.into_iter().enumerate() {
            least = least.min(step.times(index).minus(at.micros()));
            most = most.max(step.times(index + 1).minus(at.micros()).minus(least));
        }
        most
    }

    /// The fewest requests that were started in any of the spans that follow each other from one instant to another.
    #[must_use]
    pub fn fewest_each(&self, span: Duration, from: Timestamp, until: Timestamp) -> usize {
        let spans = std::iter::successors(Some(from), |at| Some(at.plus(span))).take_while(|at| at.plus(span) <= until);
        spans.map(|at| self.between(at, at.plus(span)).requests.len()).min().unwrap_or(0)
    }

    /// How late the delivered events were sent, at these percentiles.
    #[must_use]
    pub fn lateness<const N: usize>(&self, percentiles: [usize; N]) -> [Duration; N] {
        percentiles_of(self.late().collect(), percentiles)
    }

    /// How late each delivered event was sent.
    pub fn late(&self) -> impl Iterator<Item = Duration> {
        self.deliveries().map(|request| request.started.since(request.due))
    }

    /// The first successful request of each event.
    fn deliveries(&self) -> impl Iterator<Item = &Request> {
        let mut seen = BTreeSet::new();
        self.requests.iter().filter(move |request| request.status == Some(200) && seen.insert(&request.id))
    }
}

/// Spans at these percentiles; none is no span at all.
#[must_use]
pub fn percentiles_of<const N: usize>(mut spans: Vec<Duration>, percentiles: [usize; N]) -> [Duration; N] {
    spans.sort_unstable();
    let last = spans.len().saturating_sub(1);
    percentiles.map(|p| spans.get((spans.len() * p / 100).min(last)).copied().unwrap_or_default())
}

/// A span in seconds, for a report.
#[must_use]
pub fn seconds(span: Duration) -> f64 {
    f64::from(i32::try_from(millis(span)).unwrap_or(i32::MAX)) / 1000.0
}
