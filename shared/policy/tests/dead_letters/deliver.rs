//! What `deliver` does with a delivery's messages, one durable effect at a time: record, then letter, then acknowledge.

use std::time::Duration;

use lapse_policy::decision::Action;
use lapse_policy::ledger::{IllegalMove, Record, Standing, State, standing};
use lapse_policy::reason::Reason;

use crate::bodies::{Bodies, BodyId};
use crate::decision;
use crate::world::{Bounds, Mail, Queue, Step, World};

const MAX_AGE: Duration = Duration::from_hours(24);

/// A worker and the copies of one delivery that it has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) copies: Vec<BodyId>,
    /// The copy with the latest mark speaks for all.
    speaks: BodyId,
    stage: Stage,
}

/// How far it has come. What it holds is what it knows: the world may have moved on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// The record as it was read.
    Read(Option<Record>),
    /// Its claim is stored.
    Claimed(Record),
    /// The receiver has answered.
    Answered(Record, u16),
    /// Dead in that epoch, by its own write.
    Died(u32),
    /// Nothing is left but to acknowledge.
    Settled,
}

/// What a worker makes of what it read.
enum Judged {
    Acknowledge,
    Letter(u32),
    Back,
    Work(Record),
}

impl Job {
    /// A total order that equal jobs share, so that states that differ by the workers' names alone are one.
    pub(crate) fn order(&self) -> (BodyId, usize, u8, u64) {
        let (rank, version) = match &self.stage {
            Stage::Read(read) => (0, read.as_ref().map_or(0, |record| record.version)),
            Stage::Claimed(record) => (1, record.version),
            Stage::Answered(record, status) => (2, record.version * 1000 + u64::from(*status)),
            Stage::Died(epoch) => (3, u64::from(*epoch)),
            Stage::Settled => (4, 0),
        };
        (self.speaks, self.copies.len(), rank, version)
    }
}

/// By the record, as `functions/deliver/src/intent.rs` judges.
fn judge(read: Option<&Record>, body: &crate::bodies::Body, world: &World) -> Judged {
    let mark = body.mark();
    match (standing(read, mark, world.now()), read) {
        (Standing::Absent, _) | (_, None) => {
            let epoch = mark.and_then(|mark| mark.epoch).unwrap_or(1);
            Judged::Work(Record::first("", epoch, world.moment()))
        }
        (Standing::Delivered | Standing::LetterThere, _) => Judged::Acknowledge,
        (Standing::LetterMissing, Some(record)) => Judged::Letter(record.epoch),
        (Standing::Busy(_) | Standing::NotYet(_), _) => Judged::Back,
        (Standing::Redriven, Some(record)) => {
            Judged::Work(record.redriven(world.now().plus(MAX_AGE), world.moment()).expect("it is dead"))
        }
        (Standing::Due | Standing::Crashed, Some(record)) => Judged::Work(record.clone()),
    }
}

impl World {
    /// The steps of all workers.
    pub(crate) fn deliver(&self, bodies: &mut Bodies, next: &mut Vec<(Step, Self)>) {
        for (worker, job) in self.workers.iter().enumerate() {
            match job {
                // One idle worker is as good as another.
                None if worker == 0 || self.workers[worker - 1].is_some() => self.receive(worker, bodies, next),
                None => {}
                Some(job) => {
                    self.act(worker, job, bodies, next);
                    self.crash(worker, job, next);
                }
            }
        }
    }

    fn receive(&self, worker: usize, bodies: &Bodies, next: &mut Vec<(Step, Self)>) {
        let waiting = |(_, mail): &(usize, Mail)| mail.queue == Queue::Deliveries;
        for (index, mail) in self.distinct_mail().filter(waiting) {
            let delivery = bodies[mail.body].delivery;
            let mut begin = |mut world: Self, copies: Vec<BodyId>, step| {
                let speaks =
                    copies.iter().copied().reduce(|a, b| if bodies[b].epoch() > bodies[a].epoch() { b } else { a });
                let stage = Stage::Read(self.deliveries[delivery].record.clone());
                world.workers[worker] = speaks.map(|speaks| Job { copies, speaks, stage });
                next.push((step, world));
            };
            begin(self.without(index), vec![mail.body], Step::DeliverReceives);
            for (other, second) in self.mail.iter().enumerate().skip(index + 1) {
                let copy = second.queue == Queue::Deliveries && bodies[second.body].delivery == delivery;
                if copy && bodies[second.body].message.is_ok() {
                    let both = self.without(other).without(index);
                    begin(both, vec![mail.body, second.body], Step::DeliverReceivesTwoCopies);
                }
            }
        }
    }

    /// The same, with the job at another stage.
    fn at_stage(&self, worker: usize, job: &Job, stage: Stage) -> Self {
        let mut world = self.clone();
        world.workers[worker] = Some(Job { stage, ..job.clone() });
        world
    }

    /// Without the job: its messages are deleted.
    fn acknowledged(&self, worker: usize) -> Self {
        let mut world = self.clone();
        world.workers[worker] = None;
        world
    }

    /// Without the job: its messages are in the queue again.
    fn back(&self, worker: usize, job: &Job) -> Self {
        let idle = self.acknowledged(worker);
        job.copies.iter().fold(idle, |world, body| world.with(Queue::Deliveries, *body))
    }

    /// Anything may stop after any effect. One that had none yet is as good as not received.
    fn crash(&self, worker: usize, job: &Job, next: &mut Vec<(Step, Self)>) {
        let effect = !matches!(job.stage, Stage::Read(_));
        if let (Some(crashes), true) = (self.left.crashes.checked_sub(1), effect) {
            let crashed = self.back(worker, job);
            next.push((Step::DeliverCrashes, Self { left: Bounds { crashes, ..self.left }, ..crashed }));
        }
    }

    fn act(&self, worker: usize, job: &Job, bodies: &mut Bodies, next: &mut Vec<(Step, Self)>) {
        match &job.stage {
            Stage::Read(_) if bodies[job.speaks].message.is_err() => {
                next.push((Step::MalformedSent, self.letter_sent(worker, job, None, bodies)));
            }
            Stage::Read(read) => match judge(read.as_ref(), &bodies[job.speaks], self) {
                Judged::Acknowledge => next.push((Step::Acknowledged, self.acknowledged(worker))),
                Judged::Back => next.push((Step::GivenBack, self.back(worker, job))),
                Judged::Letter(epoch) => {
                    next.push((Step::LetterSentAgain, self.letter_sent(worker, job, Some(epoch), bodies)));
                }
                Judged::Work(base) => self.work(worker, job, &base, bodies, next),
            },
            Stage::Claimed(record) => {
                let answered = |status| self.at_stage(worker, job, Stage::Answered(record.clone(), status));
                next.push((Step::Refused, answered(422)));
                let mut accepted = answered(200);
                accepted.deliveries[bodies[job.speaks].delivery].received = true;
                next.push((Step::Accepted, accepted));
            }
            Stage::Answered(record, status) => next.push(self.complete(worker, job, record, *status, bodies)),
            Stage::Died(epoch) => next.push((Step::LetterSent, self.letter_sent(worker, job, Some(*epoch), bodies))),
            Stage::Settled => next.push((Step::Acknowledged, self.acknowledged(worker))),
        }
    }

    fn letter_sent(&self, worker: usize, job: &Job, epoch: Option<u32>, bodies: &mut Bodies) -> Self {
        let letter = bodies.letter(job.speaks, epoch, self.now());
        self.at_stage(worker, job, Stage::Settled).with(Queue::Failures, letter)
    }

    /// What a delivery that may be worked on becomes: dead, sending, or waiting for a place.
    fn work(&self, worker: usize, job: &Job, base: &Record, bodies: &Bodies, next: &mut Vec<(Step, Self)>) {
        // No reply is lost here, so that tokens tell nothing (LED-3).
        let token = "";
        let (moment, delivery) = (self.moment(), bodies[job.speaks].delivery);
        let late = self.now() > base.deadline(moment.deadline);
        if base.is_poison() || late {
            let reason = if late { Reason::DeadlinePassed } else { Reason::Poison };
            let dead = base.dead(token, reason, None, moment);
            next.push(self.written(worker, job, delivery, dead, Step::DeathStored));
            return;
        }
        let claimed = base.claimed(token, self.next_instant(), moment);
        next.push(self.written(worker, job, delivery, claimed, Step::ClaimStored));
        if let Some(waits) = self.left.waits.checked_sub(1) {
            let waiting = base.waiting(token, self.next_instant(), None, moment);
            let world = Self { left: Bounds { waits, ..self.left }, ..self.clone() };
            next.push(world.written(worker, job, delivery, waiting, Step::WaitStored));
        }
    }

    /// A write of what it read, and what follows from it; one that comes too late gives the messages back.
    fn written(
        &self,
        worker: usize,
        job: &Job,
        delivery: usize,
        record: Result<Record, IllegalMove>,
        step: Step,
    ) -> (Step, Self) {
        let record = record.expect("a move that the record's standing allows");
        let mut world = self.clone();
        if !world.store(delivery, &record) {
            return (Step::WriteRefused, self.back(worker, job));
        }
        let world = match record.state {
            State::Sending => world.at_stage(worker, job, Stage::Claimed(record)),
            State::Dead => world.at_stage(worker, job, Stage::Died(record.epoch)),
            State::Waiting => world.back(worker, job),
            State::Delivered => world.acknowledged(worker),
        };
        (step, world)
    }

    fn complete(&self, worker: usize, job: &Job, record: &Record, status: u16, bodies: &Bodies) -> (Step, Self) {
        let (moment, delivery) = (self.moment(), bodies[job.speaks].delivery);
        let decided = decision(status, record.unknown_outcome, moment);
        let attempted = record.attempted(&decided, Some(status), None);
        match decided.action {
            Action::RetryAt(_) => panic!("{status} is not tried again"),
            Action::Dead(reason) => {
                let dead = attempted.dead("", reason, None, moment);
                self.written(worker, job, delivery, dead, Step::DeathStored)
            }
            // LED-6: over any state but Delivered, and where there is no record any more.
            Action::Acknowledge => {
                let stored = self.deliveries[delivery].record.clone();
                let base = match stored {
                    Some(stored) if stored.version == attempted.version => attempted,
                    Some(stored) => stored,
                    None => Record::first("", record.epoch, moment),
                };
                if base.state == State::Delivered {
                    return (Step::Acknowledged, self.acknowledged(worker));
                }
                self.written(worker, job, delivery, base.delivered(moment), Step::DeliveredStored)
            }
        }
    }
}
