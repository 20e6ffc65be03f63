//! What `triage` does with a message on `failures`: write the disposition, then hand over; or send on, then acknowledge.

use lapse_policy::ledger::State;
use lapse_policy::triage::{Disposition, REDRIVE_AFTER, Verdict, disposition, judge};

use crate::bodies::{Bodies, BodyId};
use crate::world::{Bounds, Mail, Queue, Step, World};

/// A message that it has received, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Review {
    pub(crate) mail: Mail,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// The record, as it was read, was dead in this epoch.
    Dispose(u32),
    /// It goes to `deliveries`.
    SendOn,
    /// It was sent to `deliveries`.
    Sent,
    /// The record, as it was read, was delivered.
    Void,
}

impl Review {
    /// What tells reviews apart.
    pub(crate) fn order(&self) -> (BodyId, u8) {
        let rank = match self.stage {
            Stage::Dispose(_) => 0,
            Stage::SendOn => 1,
            Stage::Sent => 2,
            Stage::Void => 3,
        };
        (self.mail.body, rank)
    }
}

impl World {
    /// The steps of `triage`.
    pub(crate) fn triage(&self, bodies: &Bodies, next: &mut Vec<(Step, Self)>) {
        let Some(review) = &self.triage else {
            let waiting = |(_, mail): &(usize, Mail)| mail.queue == Queue::Failures;
            for (index, mail) in self.distinct_mail().filter(waiting) {
                if let Some(stage) = self.review(mail, bodies) {
                    let world = Self { triage: Some(Review { mail, stage }), ..self.without(index) };
                    next.push((Step::TriageReceives, world));
                }
            }
            return;
        };
        let done = Self { triage: None, ..self.clone() };
        match review.stage {
            Stage::Dispose(epoch) => next.push((Step::DispositionWritten, done.disposed(review.mail, epoch, bodies))),
            Stage::Void | Stage::Sent => next.push((Step::TriageAcknowledges, done)),
            Stage::SendOn => {
                let sent = Self { triage: Some(Review { stage: Stage::Sent, ..review.clone() }), ..self.clone() };
                next.push((Step::SentOn, sent.with(Queue::Deliveries, review.mail.body)));
            }
        }
        if let (Some(crashes), Stage::Sent) = (self.left.crashes.checked_sub(1), review.stage) {
            let crashed = Self { triage: None, left: Bounds { crashes, ..self.left }, ..self.clone() };
            next.push((Step::TriageCrashes, crashed.given_back(review.mail)));
        }
    }

    /// By the policy's verdict; `None` hands the message over as it is: SQS may move it at any time.
    fn review(&self, mail: Mail, bodies: &Bodies) -> Option<Stage> {
        let body = &bodies[mail.body];
        match judge(&body.letter, Self::sent_at(mail), REDRIVE_AFTER) {
            Verdict::Unreadable => None,
            Verdict::Unmarked | Verdict::Redriven => Some(Stage::SendOn),
            Verdict::Fresh(epoch) => {
                let record = self.deliveries[body.delivery].record.as_ref().filter(|_| body.message.is_ok());
                match disposition(record, epoch) {
                    Disposition::Delivered => Some(Stage::Void),
                    Disposition::Write => epoch.map(Stage::Dispose),
                    Disposition::None => None,
                }
            }
        }
    }

    /// If the record is still dead in that epoch; the message is failed either way.
    fn disposed(mut self, mail: Mail, epoch: u32, bodies: &Bodies) -> Self {
        let record = self.deliveries[bodies[mail.body].delivery].record.as_mut();
        if let Some(record) = record.filter(|record| record.state == State::Dead && record.epoch == epoch) {
            record.triaged_epoch = Some(epoch);
        }
        self.given_back(mail)
    }
}
