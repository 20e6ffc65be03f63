//! A small world: queues as bags of messages, a record per delivery, workers that stop after every step, an operator.
//!
//! The workers do what `deliver` and `triage` do, in their order; every decision is the policy's own function.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use lapse_policy::ledger::{Moment, Record, State};
use lapse_policy::timestamp::Timestamp;

use crate::bodies::{Bodies, BodyId};
use crate::deliver::Job;
use crate::triage::Review;

const START: Timestamp = Timestamp::from_millis(1_764_504_000_000);
/// From one instant of the model to the next: a letter is no longer fresh, and a lease is over.
const INSTANT: Duration = Duration::from_secs(60);
/// The event's own deadline: what is first attempted after the next instant dies at once.
const DEADLINE: Duration = Duration::from_secs(100);

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Queue {
    Deliveries,
    Failures,
    /// In `dead-letters`, from `deliveries`.
    LostDeliveries,
    /// In `dead-letters`, from `failures`.
    DeadLetters,
}

/// A message in a queue that no one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mail {
    pub(crate) queue: Queue,
    pub(crate) body: BodyId,
    /// The instant at which it was sent to `failures`; no one looks at it elsewhere.
    sent: u32,
}

/// What is known of one event, and what an observer noted about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) record: Option<Record>,
    /// The receiver has answered 2xx.
    pub(crate) received: bool,
    /// Marks of messages that an operator moved: bit E for epoch E.
    redriven: u32,
    redrives: u32,
    /// Epochs that have begun beyond the first.
    begun: u32,
}

/// How much may still happen. Each bound keeps the walk finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) instants: u32,
    pub(crate) crashes: u32,
    pub(crate) copies: u32,
    pub(crate) redrives: u32,
    /// Messages that SQS moves from `deliveries` to `dead-letters` after too many receives.
    pub(crate) losses: u32,
    /// Records that DynamoDB deletes.
    pub(crate) deletions: u32,
    /// Claims that become a wait for a place instead.
    pub(crate) waits: u32,
}

/// One state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) instant: u32,
    pub(crate) left: Bounds,
    pub(crate) mail: Vec<Mail>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) workers: Vec<Option<Job>>,
    pub(crate) triage: Option<Review>,
}

/// What happened, for traces and to tell that everything does happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    AnInstantPasses,
    DeliverReceives,
    DeliverReceivesTwoCopies,
    ClaimStored,
    WaitStored,
    WriteRefused,
    DeathStored,
    Refused,
    Accepted,
    DeliveredStored,
    LetterSent,
    LetterSentAgain,
    MalformedSent,
    Acknowledged,
    GivenBack,
    DeliverCrashes,
    TriageReceives,
    DispositionWritten,
    SentOn,
    TriageAcknowledges,
    TriageCrashes,
    SqsMovesADelivery,
    SqsMovesALetter,
    SqsCopies,
    RedrivenToSource,
    RedrivenToDeliveries,
    RecordDeleted,
}

impl World {
    /// Events on `deliveries`, and so many workers.
    pub(crate) fn new(bodies: &[BodyId], workers: usize, left: Bounds) -> Self {
        let mail = bodies.iter().map(|body| Mail { queue: Queue::Deliveries, body: *body, sent: 0 }).collect();
        let untouched = Delivery { record: None, received: false, redriven: 0, redrives: 0, begun: 0 };
        let deliveries = vec![untouched; bodies.len()];
        Self { instant: 0, left, mail, deliveries, workers: vec![None; workers], triage: None }
    }

    pub(crate) fn deadline() -> Timestamp {
        START.plus(DEADLINE)
    }

    fn at(instant: u32) -> Timestamp {
        START.plus(INSTANT.saturating_mul(instant))
    }

    pub(crate) fn now(&self) -> Timestamp {
        Self::at(self.instant)
    }

    /// The instant and the deadline that every write needs.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now(), deadline: Self::deadline() }
    }

    /// The next instant: the end of a lease, and of a wait for a place.
    pub(crate) fn next_instant(&self) -> Timestamp {
        Self::at(self.instant + 1)
    }

    /// Every state that one step leads to.
    pub(crate) fn successors(&self, bodies: &mut Bodies) -> Vec<(Step, Self)> {
        let mut next = Vec::new();
        self.outside(bodies, &mut next);
        self.deliver(bodies, &mut next);
        self.triage(bodies, &mut next);
        for (_, world) in &mut next {
            world.mail.sort_unstable();
            world.workers.sort_by_key(|job| job.as_ref().map(Job::order));
        }
        next
    }

    /// Time, SQS, DynamoDB's deletions and the operator.
    fn outside(&self, bodies: &Bodies, next: &mut Vec<(Step, Self)>) {
        if let Some(instants) = self.left.instants.checked_sub(1) {
            next.push((
                Step::AnInstantPasses,
                Self { instant: self.instant + 1, left: Bounds { instants, ..self.left }, ..self.clone() },
            ));
        }
        for (index, mail) in self.distinct_mail() {
            let to = |queue| self.without(index).with(queue, mail.body);
            match mail.queue {
                Queue::Deliveries => {
                    next.extend(self.left.losses.checked_sub(1).map(|losses| {
                        let left = Bounds { losses, ..self.left };
                        (Step::SqsMovesADelivery, Self { left, ..to(Queue::LostDeliveries) })
                    }));
                }
                Queue::Failures => next.push((Step::SqsMovesALetter, to(Queue::DeadLetters))),
                Queue::LostDeliveries => {
                    next.extend(to(Queue::Deliveries).redriven(bodies, mail.body, Step::RedrivenToSource));
                }
                Queue::DeadLetters => {
                    next.extend(to(Queue::Failures).redriven(bodies, mail.body, Step::RedrivenToSource));
                    next.extend(to(Queue::Deliveries).redriven(bodies, mail.body, Step::RedrivenToDeliveries));
                }
            }
            if let (Some(copies), Queue::Deliveries | Queue::Failures) = (self.left.copies.checked_sub(1), mail.queue) {
                let mut world = Self { left: Bounds { copies, ..self.left }, ..self.clone() };
                world.mail.push(mail);
                next.push((Step::SqsCopies, world));
            }
        }
        let deletions = self.left.deletions.checked_sub(1);
        for (index, delivery) in self.deliveries.iter().enumerate() {
            let kept = delivery.record.as_ref().is_none_or(|record| record.state == State::Sending);
            if let (Some(deletions), false) = (deletions, kept) {
                let mut world = Self { left: Bounds { deletions, ..self.left }, ..self.clone() };
                world.deliveries[index].record = None;
                next.push((Step::RecordDeleted, world));
            }
        }
    }

    fn redriven(mut self, bodies: &Bodies, body: BodyId, step: Step) -> Option<(Step, Self)> {
        self.left.redrives = self.left.redrives.checked_sub(1)?;
        let delivery = &mut self.deliveries[bodies[body].delivery];
        delivery.redrives += 1;
        delivery.redriven |= bodies[body].epoch().map_or(0, |epoch| 1 << epoch);
        Some((step, self))
    }

    /// Messages that no one holds, equal ones once: which of two equal copies moves makes no difference.
    pub(crate) fn distinct_mail(&self) -> impl Iterator<Item = (usize, Mail)> + '_ {
        let first = |(index, mail): &(usize, Mail)| *index == 0 || self.mail[*index - 1] != *mail;
        self.mail.iter().copied().enumerate().filter(first)
    }

    /// Without the message at an index.
    pub(crate) fn without(&self, index: usize) -> Self {
        let mut world = self.clone();
        world.mail.remove(index);
        world
    }

    /// With a message that is sent now.
    pub(crate) fn with(mut self, queue: Queue, body: BodyId) -> Self {
        let sent = if queue == Queue::Failures { self.instant } else { 0 };
        self.mail.push(Mail { queue, body, sent });
        self
    }

    /// With a message that its worker gave back: it was sent when it was.
    pub(crate) fn given_back(mut self, mail: Mail) -> Self {
        self.mail.push(mail);
        self
    }

    /// When a message on `failures` was sent.
    pub(crate) fn sent_at(mail: Mail) -> Timestamp {
        Self::at(mail.sent)
    }

    /// The store: absent, or version unchanged (LED-1). `triage` alone writes its attribute.
    pub(crate) fn store(&mut self, delivery: usize, record: &Record) -> bool {
        let delivery = &mut self.deliveries[delivery];
        let before = delivery.record.as_ref();
        if before.map_or(0, |stored| stored.version) + 1 != record.version {
            return false;
        }
        delivery.begun += before.map_or(0, |stored| record.epoch - stored.epoch);
        let triaged_epoch = before.and_then(|stored| stored.triaged_epoch);
        delivery.record = Some(Record { triaged_epoch, ..record.clone() });
        true
    }

    /// The bodies of a delivery's messages, in any queue or at work.
    fn messages<'a>(&'a self, bodies: &'a Bodies, delivery: usize) -> impl Iterator<Item = BodyId> + 'a {
        let held = self.workers.iter().flatten().flat_map(|job| job.copies.iter().copied());
        let reviewed = self.triage.iter().map(|review| review.mail.body);
        let all = self.mail.iter().map(|mail| mail.body).chain(held).chain(reviewed);
        all.filter(move |body| bodies[*body].delivery == delivery)
    }

    /// What must hold in every state.
    pub(crate) fn check(&self, bodies: &Bodies) -> Result<(), &'static str> {
        for (index, delivery) in self.deliveries.iter().enumerate() {
            if !delivery.received && self.messages(bodies, index).next().is_none() {
                return Err("an event that was not delivered is in no queue");
            }
            let Some(record) = &delivery.record else { continue };
            let letter = |body: BodyId| bodies[body].epoch() == Some(record.epoch);
            let triaged = record.state == State::Dead && record.triaged_epoch == Some(record.epoch);
            if triaged && !self.messages(bodies, index).any(letter) {
                return Err("the letter that `triage` has seen of a dead record is in no queue");
            }
            if delivery.begun > delivery.redrives {
                return Err("more epochs than redrives");
            }
        }
        Ok(())
    }

    /// What must hold of every step.
    pub(crate) fn check_step(&self, after: &Self) -> Result<(), &'static str> {
        for (old, new) in self.deliveries.iter().zip(&after.deliveries) {
            let (Some(old), Some(record)) = (&old.record, &new.record) else { continue };
            if old.state == State::Delivered && old != record {
                return Err("Delivered was left");
            }
            let moved = old.state == State::Dead && new.redriven & (1 << old.epoch) != 0;
            if record.epoch != old.epoch && !(moved && record.epoch == old.epoch + 1) {
                return Err("an epoch began without an operator who moved the letter of the one before");
            }
        }
        Ok(())
    }
}

/// Equal states hash alike; the parts of a record that tell states apart are enough.
impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.instant, self.left, &self.mail).hash(hasher);
        for Delivery { record, received, redriven, begun, .. } in &self.deliveries {
            let record = record.as_ref().map(|r| (r.version, r.state as u8, r.epoch, r.triaged_epoch));
            (record, received, redriven, begun).hash(hasher);
        }
        for job in &self.workers {
            job.as_ref().map(Job::order).hash(hasher);
        }
        self.triage.as_ref().map(Review::order).hash(hasher);
    }
}
