//! LAN-1: which lanes are tried, and that no more are held than there may be, whoever reads late, dies or has a clock
//! that is wrong.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use lapse_policy::lanes::{Lane, choose};
use lapse_policy::ledger::LEASE_MARGIN;
use lapse_policy::timestamp::Timestamp;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + ms)
}

fn most(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

/// Lanes by number, each held until so many ms after now.
fn held(lanes: &[(u32, i64)]) -> Vec<Lane> {
    lanes.iter().map(|(number, ms)| Lane { number: *number, owner: "theirs".to_owned(), until: at(*ms) }).collect()
}

#[track_caller]
fn check(label: &str, lanes: &[(u32, i64)], limit: u32, draw: f64, expected: &[u32]) {
    assert_eq!(choose(&held(lanes), most(limit), NOW, draw), expected, "{label}");
}

#[test]
fn lan_1_at_most_two_free_lanes_are_tried() {
    check("one lane", &[], 1, 0.5, &[0]);
    check("two lanes", &[], 2, 0.0, &[0, 1]);
    check("two lanes, the other way", &[], 2, 0.9, &[1, 0]);
    check("many", &[], 10, 0.0, &[0, 9]);
    check("many, by chance", &[], 10, 0.55, &[5, 4]);
    check("the last", &[], 10, 1.0, &[9, 8]);
    check("a draw out of range", &[], 10, f64::INFINITY, &[9, 8]);
    check("no draw", &[], 10, f64::NAN, &[0, 9]);
}

#[test]
fn lan_1_a_lane_is_free_when_its_lease_is_over() {
    check("held", &[(0, 5000)], 1, 0.0, &[]);
    check("to its last ms", &[(0, 0)], 1, 0.0, &[]);
    check("over", &[(0, -1)], 1, 0.0, &[0]);
    check("one of two", &[(1, 5000)], 2, 0.0, &[0]);
    check("the middle one", &[(0, 1), (2, 1)], 3, 1.0, &[1]);
    check("all", &[(0, 1), (1, 1), (2, 1)], 3, 0.3, &[]);
}

#[test]
fn lan_1_lanes_beyond_a_lowered_limit_count_while_they_are_held() {
    check("as many as there may be", &[(3, 1)], 1, 0.0, &[]);
    check("more", &[(0, 1), (2, 1), (3, 1)], 2, 0.0, &[]);
    check("one more may start", &[(3, 1)], 2, 0.0, &[0]);
    check("lanes below are held as well", &[(1, 1), (3, 1)], 3, 0.0, &[0]);
    check("their leases are over", &[(3, -1), (4, -1)], 2, 0.0, &[0, 1]);
}

#[test]
fn lan_1_every_free_lane_is_chosen_by_some_draw() {
    let mut chosen = [(false, false); 10];
    for step in 0..1000_u32 {
        let tried = choose(&[], most(10), NOW, f64::from(step) / 1000.0);
        let [first, second] = tried[..] else { panic!("two are free: {tried:?}") };
        assert_ne!(first, second);
        chosen[first as usize].0 = true;
        chosen[second as usize].1 = true;
    }
    assert!(chosen.iter().all(|(first, second)| *first && *second), "each is tried first, and second, by some");
}

/// How far a worker's clock may be from true time, in ms (LIM-5's D).
const SKEW_MS: i64 = 2000;
const WORKERS: usize = 8;
const INVOCATION_MS: i64 = 30_000;
/// The handler answers this much before its deadline (ACK-6).
const ANSWER_BEFORE_MS: i64 = 1000;

/// What a worker does next; acts that do not fit its state are skipped.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Reads the lanes; what it chooses, it tries later.
    Look { draw: f64 },
    /// Tries the next lane that it has chosen.
    Try,
    /// The same, and the reply is lost: it asks again.
    TryTwice,
    /// Gives its lane back.
    Release,
    /// Its give-back arrives only now, long after.
    ReleaseLate,
    /// Dies.
    Crash,
    /// An operator sets the limit.
    Limit(u32),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    wait_ms: i64,
    worker: usize,
    act: Act,
}

#[derive(Debug, Clone)]
struct Trace {
    limit: u32,
    skew: [i64; WORKERS],
    steps: Vec<Step>,
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0.0..=1.0).prop_map(|draw| Act::Look { draw }),
        5 => Just(Act::Try),
        1 => Just(Act::TryTwice),
        3 => Just(Act::Release),
        1 => Just(Act::ReleaseLate),
        1 => Just(Act::Crash),
        1 => (1..=6_u32).prop_map(Act::Limit),
    ]
}

fn traces() -> impl Strategy<Value = Trace> {
    let wait_ms = prop_oneof![6 => 0..20_i64, 2 => 0..3000_i64, 1 => 0..40_000_i64];
    let step = (wait_ms, 0..WORKERS, acts()).prop_map(|(wait_ms, worker, act)| Step { wait_ms, worker, act });
    let skew = prop::array::uniform8(prop_oneof![Just(-SKEW_MS), Just(SKEW_MS), -SKEW_MS..=SKEW_MS]);
    (1..=4_u32, skew, prop::collection::vec(step, 1..200)).prop_map(|(limit, skew, steps)| Trace { limit, skew, steps })
}

#[derive(Debug, Clone, Default)]
struct Worker {
    /// The lanes to try, of an invocation that ends then by true time.
    chosen: Vec<u32>,
    ends: i64,
    /// The lane under which it may be sending.
    sending: Option<Lane>,
    /// A lane whose give-back is still under way.
    late: Option<Lane>,
}

#[derive(Debug)]
struct World {
    limit: u32,
    skew: [i64; WORKERS],
    now: i64,
    lanes: BTreeMap<u32, Lane>,
    workers: Vec<Worker>,
    owners: u32,
    /// Most that may be held now: the limit, or what was held when it was lowered.
    allowed: usize,
    taken: usize,
}

impl World {
    fn new(trace: &Trace) -> Self {
        Self {
            limit: trace.limit,
            skew: trace.skew,
            now: 0,
            lanes: BTreeMap::new(),
            workers: vec![Worker::default(); WORKERS],
            owners: 0,
            allowed: trace.limit as usize,
            taken: 0,
        }
    }

    fn clock(&self, worker: usize) -> Timestamp {
        at(self.now + self.skew[worker])
    }

    fn sending(&self) -> usize {
        self.workers.iter().filter(|worker| worker.sending.is_some()).count()
    }

    /// Workers whose invocation ends by their own clock stop sending.
    fn pass(&mut self, ms: i64) {
        self.now += ms;
        for worker in 0..WORKERS {
            // A fast clock stops it early; a slow one late, but Lambda ends it at its deadline.
            let stops = self.workers[worker].ends - (ANSWER_BEFORE_MS + self.skew[worker]).max(0);
            if self.now >= stops {
                self.workers[worker].sending = None;
                self.workers[worker].chosen.clear();
            }
        }
        // What was allowed beyond a lowered limit goes as it ends.
        self.allowed = self.allowed.min(self.sending()).max(self.limit as usize);
    }

    fn act(&mut self, worker: usize, act: Act) {
        match act {
            Act::Look { draw } if self.workers[worker].sending.is_none() => {
                let lanes: Vec<_> = self.lanes.values().cloned().collect();
                let chosen = choose(&lanes, most(self.limit), self.clock(worker), draw);
                assert!(chosen.len() <= 2);
                assert!(chosen.iter().all(|number| *number < self.limit));
                let ends = self.now + INVOCATION_MS;
                self.workers[worker] = Worker { chosen, ends, ..std::mem::take(&mut self.workers[worker]) };
            }
            Act::Try => self.attempt(worker, 1),
            Act::TryTwice => self.attempt(worker, 2),
            Act::Release => {
                if let Some(lane) = self.workers[worker].sending.take() {
                    self.release(&lane);
                }
            }
            Act::ReleaseLate => {
                if let Some(lane) = self.workers[worker].late.take() {
                    self.release(&lane);
                }
                self.workers[worker].late = self.workers[worker].sending.take();
            }
            Act::Crash => {
                self.workers[worker].sending = None;
                self.workers[worker].chosen.clear();
            }
            Act::Limit(limit) => {
                self.allowed = self.sending().max(limit as usize);
                // Whoever has read under another limit tries nothing any more: settings are cached, and the bound is
                // for those that agree on it.
                self.workers.iter_mut().for_each(|worker| worker.chosen.clear());
                self.limit = limit;
            }
            Act::Look { .. } => {}
        }
    }

    fn attempt(&mut self, worker: usize, times: u32) {
        let Some(number) = self.workers[worker].chosen.pop() else { return };
        self.owners += 1;
        let until = at(self.workers[worker].ends).plus(LEASE_MARGIN);
        let lane = Lane { number, owner: format!("owner-{}", self.owners), until };
        let now = self.clock(worker);
        for _ in 0..times {
            let free = self.lanes.get(&number).is_none_or(|stored| stored.yields_to(&lane.owner, now));
            if free {
                self.lanes.insert(number, lane.clone());
                self.workers[worker].sending = Some(lane.clone());
                self.workers[worker].chosen.clear();
            }
        }
        self.taken += usize::from(self.workers[worker].sending.is_some());
    }

    fn release(&mut self, lane: &Lane) {
        if self.lanes.get(&lane.number).is_some_and(|stored| stored.owner == lane.owner) {
            self.lanes.remove(&lane.number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lan_1_never_more_are_held_than_there_may_be(trace in traces()) {
        let mut world = World::new(&trace);
        for (index, step) in trace.steps.iter().enumerate() {
            world.pass(step.wait_ms);
            world.act(step.worker, step.act);
            let sending = world.sending();
            prop_assert!(sending <= world.allowed, "step {index}: {sending} of {}: {world:?}", world.allowed);
        }
        // LAN-1: whatever died without giving its lane back, all lanes are free again in the end.
        world.pass(INVOCATION_MS + 2 * SKEW_MS + 60_000);
        let lanes: Vec<_> = world.lanes.values().cloned().collect();
        for worker in 0..WORKERS {
            let chosen = choose(&lanes, most(world.limit), world.clock(worker), 0.0);
            prop_assert_eq!(chosen.len(), 2.min(world.limit as usize), "{:?}", lanes);
        }
    }
}
