//! LED-1 to LED-6, DLQ-3: any sequence of claims, crashes, late completions, lost replies and redrives, by workers
//! that know the record as it was when they read it, over a store that compares versions and swaps.

use std::time::Duration;

use lapse_policy::decision::Action;
use lapse_policy::ledger::{IllegalMove, Moment, POISON, Record, Standing, State, standing};
use lapse_policy::message::Mark;
use lapse_policy::ports::LedgerWrite;
use lapse_policy::reason::Reason;
use lapse_policy::timestamp::Timestamp;
use proptest::prelude::*;

use crate::{answered, at, decision};

const WORKERS: usize = 4;
const LEASE: Duration = Duration::from_secs(35);

/// Which mark the message that a worker received carries.
#[derive(Debug, Clone, Copy)]
enum Copy {
    Plain,
    /// The letter of the record's own epoch, as far as it is dead: a redrive.
    Redrive,
    /// A letter of so many epochs ago.
    Older(u32),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many ms pass.
    Pass(u64),
    /// A worker receives a copy and reads the record.
    Receive(usize, Copy),
    /// It writes what follows from what it read; perhaps the reply is lost.
    Claim(usize, Reply),
    /// The same, but there is no place for it yet: it lets the delivery wait.
    Wait(usize, Reply),
    /// Its request ends with this status, and it writes that.
    Complete(usize, u16),
    /// It gives its claim back: the gate was full.
    Undo(usize),
    /// It dies.
    Crash(usize),
    /// `triage` sees the letter.
    Triage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Arrives,
    Lost,
}

/// How a worker takes a record: it claims it, or lets it wait.
type Take = fn(&Record, &str, Timestamp, Moment) -> Result<Record, IllegalMove>;

#[derive(Debug, Clone, Default)]
struct Worker {
    /// The copy at hand and the record as it was read for it.
    read: Option<(Copy, Option<Mark>, Option<Record>)>,
    /// The claim that it won.
    claim: Option<Record>,
}

#[derive(Debug, Default)]
struct World {
    now_ms: u64,
    stored: Option<Record>,
    workers: [Worker; WORKERS],
    /// Counts tokens, so that no two are alike.
    tokens: u32,
    /// Messages that an operator moved and that began an epoch.
    redrives: u32,
}

fn steps() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKERS;
    let copy = prop_oneof![4 => Just(Copy::Plain), 3 => Just(Copy::Redrive), 1 => (1..3_u32).prop_map(Copy::Older)];
    let reply = || prop_oneof![3 => Just(Reply::Arrives), 1 => Just(Reply::Lost)];
    let status = prop_oneof![Just(200), Just(422), Just(429), Just(503)];
    let pass = prop_oneof![0..2000_u64, Just(30_000), Just(35_000), Just(90_000)];
    prop_oneof![
        3 => pass.prop_map(Step::Pass),
        6 => (worker(), copy).prop_map(|(w, copy)| Step::Receive(w, copy)),
        6 => (worker(), reply()).prop_map(|(w, reply)| Step::Claim(w, reply)),
        2 => (worker(), reply()).prop_map(|(w, reply)| Step::Wait(w, reply)),
        3 => (worker(), status).prop_map(|(w, status)| Step::Complete(w, status)),
        1 => worker().prop_map(Step::Undo),
        2 => worker().prop_map(Step::Crash),
        1 => Just(Step::Triage),
    ]
}

impl World {
    fn now(&self) -> Timestamp {
        at(self.now_ms)
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now(), deadline: at(1_800_000) }
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{}", self.tokens)
    }

    /// The store: absent, or version unchanged (LED-1).
    fn write(&mut self, write: &LedgerWrite) -> bool {
        let (record, held) = match write {
            LedgerWrite::Insert(record) => (record, self.stored.is_none()),
            LedgerWrite::Swap(record) => {
                (record, self.stored.as_ref().is_some_and(|s| s.version + 1 == record.version))
            }
        };
        if held {
            // `triage` alone writes its attribute; a swap leaves it as it is.
            let triaged_epoch = self.stored.as_ref().and_then(|s| s.triaged_epoch);
            self.stored = Some(Record { triaged_epoch, ..record.clone() });
        }
        held
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Pass(ms) => self.now_ms += ms,
            Step::Receive(worker, copy) => self.receive(worker, copy),
            Step::Claim(worker, reply) => self.claim(worker, reply, Record::claimed),
            Step::Wait(worker, reply) => {
                self.claim(worker, reply, |base, token, until, moment| base.waiting(token, until, None, moment));
            }
            Step::Complete(worker, status) => self.complete(worker, status),
            Step::Undo(worker) => {
                let Some(claim) = self.workers[worker].claim.take() else { return };
                let token = self.token();
                if let Ok(waiting) = claim.waiting(&token, self.now(), claim.planned_at, self.moment()) {
                    self.write(&LedgerWrite::Swap(waiting));
                }
            }
            Step::Crash(worker) => self.workers[worker] = Worker::default(),
            Step::Triage => {
                if let Some(dead) = self.stored.as_mut().filter(|s| s.state == State::Dead) {
                    dead.triaged_epoch = Some(dead.epoch);
                }
            }
        }
    }

    fn receive(&mut self, worker: usize, copy: Copy) {
        let epoch = self.stored.as_ref().map_or(1, |s| s.epoch);
        let mark = |epoch| Mark { epoch: Some(epoch), at: self.now() };
        let mark = match copy {
            Copy::Plain => None,
            Copy::Redrive => Some(mark(epoch)),
            Copy::Older(by) => Some(mark(epoch.saturating_sub(by))),
        };
        self.workers[worker] = Worker { read: Some((copy, mark, self.stored.clone())), claim: None };
    }

    /// What follows from what was read: the record is written as `take` makes it, or is poison.
    fn claim(&mut self, worker: usize, reply: Reply, take: Take) {
        let Some((copy, mark, read)) = self.workers[worker].read.take() else { return };
        let (token, now, moment) = (self.token(), self.now(), self.moment());
        let until = now.plus(LEASE);
        let wanted = match (standing(read.as_ref(), mark, now), &read) {
            (Standing::Absent, _) => {
                take(&Record::first(&token, 1, moment), &token, until, moment).map(LedgerWrite::Insert)
            }
            (Standing::Due | Standing::Crashed, Some(read)) if read.is_poison() => {
                read.dead(&token, Reason::Poison, None, moment).map(LedgerWrite::Swap)
            }
            (Standing::Due | Standing::Crashed, Some(read)) => take(read, &token, until, moment).map(LedgerWrite::Swap),
            (Standing::Redriven, Some(read)) => {
                let redriven = read.redriven(now.plus(Duration::from_hours(24)), moment);
                redriven.and_then(|r| take(&r, &token, until, moment)).map(LedgerWrite::Swap)
            }
            _ => return,
        };
        let wanted = wanted.expect("the standing allows it");
        let won = match (self.write(&wanted), reply) {
            (won, Reply::Arrives) => won,
            // LED-3: unknown; it is stored if the record carries this token.
            (_, Reply::Lost) => self.stored.as_ref().is_some_and(|s| s.token == token),
        };
        if won {
            let was_dead = read.as_ref().is_some_and(|r| r.state == State::Dead);
            self.redrives += u32::from(was_dead && matches!(copy, Copy::Redrive));
            let (LedgerWrite::Insert(record) | LedgerWrite::Swap(record)) = wanted;
            self.workers[worker].claim = Some(record).filter(|r| r.state == State::Sending);
        }
    }

    fn complete(&mut self, worker: usize, status: u16) {
        let Some(claim) = self.workers[worker].claim.take() else { return };
        let decision = decision(&answered(status), claim.unknown_outcome);
        let attempted = claim.attempted(&decision, Some(status), None);
        let (token, moment) = (claim.token.clone(), self.moment());
        let completed = match decision.action {
            Action::Acknowledge => attempted.delivered(moment),
            Action::RetryAt(_) => attempted.waiting(&token, self.now().plus(Duration::from_secs(2)), None, moment),
            Action::Dead(reason) => attempted.dead(&token, reason, None, moment),
        };
        let completed = completed.expect("it was sending");
        if !self.write(&LedgerWrite::Swap(completed)) && decision.action == Action::Acknowledge {
            // LED-6: a 2xx is a fact, whatever has become of the record.
            let stored = self.stored.clone().expect("it was claimed");
            if let Ok(delivered) = stored.delivered(moment) {
                assert!(self.write(&LedgerWrite::Swap(delivered)), "it was just read");
            }
        }
    }

    /// Workers whose claim is the stored record, under a lease that lasts.
    fn owners(&self) -> usize {
        let live = |claim: &Record| claim.lease.is_some_and(|lease| lease > self.now());
        self.workers.iter().filter(|w| w.claim.as_ref().is_some_and(live)).count()
    }
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut world = World::default();
    for step in steps {
        let before = world.stored.clone();
        let redrives = world.redrives;
        world.take(*step);
        let Some(after) = world.stored.clone() else { continue };
        let before_version = before.as_ref().map_or(0, |b| b.version);
        prop_assert!(world.owners() <= 1, "two live owners after {step:?}");
        prop_assert!(after.version >= before_version && after.version <= before_version + 1, "one write: {step:?}");
        prop_assert!(after.crashes <= POISON);
        prop_assert_eq!(after.lease.is_some(), after.state == State::Sending);
        prop_assert_eq!(after.reason.is_some(), after.state == State::Dead);
        prop_assert!(after.ttl >= world.moment().deadline.seconds());
        if let Some(before) = before {
            prop_assert!(before.state != State::Delivered || before == after, "left Delivered by {step:?}");
            let restarted = after.epoch - before.epoch;
            prop_assert_eq!(restarted, world.redrives - redrives, "an epoch without a redrive: {:?}", step);
            prop_assert!(restarted == 0 || before.state == State::Dead);
            let left_dead = before.state == State::Dead && after.state != State::Dead;
            prop_assert!(!left_dead || restarted == 1 || after.state == State::Delivered, "left Dead by {step:?}");
            prop_assert!(restarted == 1 || after.attempts >= before.attempts);
        }
    }
    Ok(())
}

fn config() -> ProptestConfig {
    let beside = proptest::test_runner::FileFailurePersistence::WithSource("regressions");
    let usual = ProptestConfig::default();
    ProptestConfig { failure_persistence: Some(Box::new(beside)), cases: usual.cases * 4, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn led_1_no_sequence_has_two_owners_leaves_delivered_or_starts_an_epoch_by_itself(
        steps in prop::collection::vec(steps(), 1..80),
    ) {
        check(&steps)?;
    }
}

/// The stored state, epoch, crashes and attempts after a sequence.
#[track_caller]
fn check_end(label: &str, steps: &[Step], expected: (State, u32, u32, u32)) {
    let mut world = World::default();
    for step in steps {
        world.take(*step);
    }
    let end = world.stored.expect(label);
    assert_eq!((end.state, end.epoch, end.crashes, end.attempts), expected, "{label}");
}

#[test]
fn led_6_a_late_run_cannot_overwrite_its_successor_but_a_2xx_can() {
    use Step::{Claim, Complete, Pass, Receive};
    let overtaken = [
        Receive(0, Copy::Plain),
        Claim(0, Reply::Arrives),
        Pass(35_000),
        Receive(1, Copy::Plain),
        Claim(1, Reply::Arrives),
    ];
    let with = |more: &[Step]| [&overtaken[..], more].concat();
    check_end("the successor holds it", &with(&[]), (State::Sending, 1, 1, 0));
    check_end("a late 503", &with(&[Complete(0, 503)]), (State::Sending, 1, 1, 0));
    check_end("a late 422", &with(&[Complete(0, 422)]), (State::Sending, 1, 1, 0));
    check_end("a late 2xx", &with(&[Complete(0, 200)]), (State::Delivered, 1, 0, 0));
    check_end("the successor's after it", &with(&[Complete(0, 200), Complete(1, 503)]), (State::Delivered, 1, 0, 0));
    check_end("a late 2xx over a death", &with(&[Complete(1, 422), Complete(0, 200)]), (State::Delivered, 1, 0, 1));
}

#[test]
fn led_3_a_lost_reply_is_told_from_a_lost_race_by_the_token() {
    use Step::{Claim, Complete, Receive};
    let both = [Receive(0, Copy::Plain), Receive(1, Copy::Plain), Claim(0, Reply::Lost), Claim(1, Reply::Lost)];
    let with = |more: &[Step]| [&both[..], more].concat();
    check_end("the loser has no claim", &with(&[Complete(1, 422)]), (State::Sending, 1, 0, 0));
    check_end("the winner has", &with(&[Complete(0, 422)]), (State::Dead, 1, 0, 1));
}

#[test]
fn dlq_3_one_letter_redriven_twice_starts_one_epoch() {
    use Step::{Claim, Complete, Receive};
    let steps = [
        Receive(0, Copy::Plain),
        Claim(0, Reply::Arrives),
        Complete(0, 422),
        Receive(1, Copy::Redrive),
        Receive(2, Copy::Redrive),
        Claim(1, Reply::Arrives),
        Claim(2, Reply::Arrives),
    ];
    check_end("two copies at once", &steps, (State::Sending, 2, 0, 0));
    let again = [&steps[..], &[Complete(1, 422), Receive(3, Copy::Older(1)), Claim(3, Reply::Arrives)]].concat();
    check_end("its third copy", &again, (State::Dead, 2, 0, 1));
}

#[test]
fn led_4_crashes_lead_to_poison_and_a_redrive_to_another_try() {
    use Step::{Claim, Crash, Pass, Receive};
    let round = |copy| [Receive(0, copy), Claim(0, Reply::Arrives), Crash(0), Pass(35_000)];
    let crashes = [round(Copy::Plain); 4].concat();
    check_end("the fourth finds the third crash", &crashes, (State::Dead, 1, 3, 0));
    let redriven = [&crashes[..], &round(Copy::Redrive)[..2]].concat();
    check_end("redriven", &redriven, (State::Sending, 2, 0, 0));
}
