//! The simulated stores and the adapters on real engines: whatever is asked of both, they answer the same.
//!
//! Owns: random runs of port calls, from committed seeds, against a pair of stores. Must not: know what the calls are
//! for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lapse_aws::destinations::DynamoDestinations;
use lapse_aws::lanes::DynamoLanes;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::schedule::DynamoSchedule;
use lapse_engines::each;
use lapse_policy::clock::{Clock as Which, Guard, Write};
use lapse_policy::lanes::Lane;
use lapse_policy::ledger::{Record, State};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::{
    Clock as _, Destinations as _, Lanes as _, Ledger, LedgerWrite, Limits as _, Parking as _, Row, Schedule as _,
    StoredRow,
};
use lapse_policy::schedule::{Origin, RowKey};
use lapse_policy::timestamp::{Micros, Timestamp};
use lapse_tests::fleet::chance::{Dice, Span, Way};
use lapse_tests::fleet::lanes::LanesTable;
use lapse_tests::fleet::name;
use lapse_tests::fleet::schedule::ScheduleTable;
use lapse_tests::fleet::steps::Eyes;
use lapse_tests::fleet::stores::{DestinationsTable, LedgerTable, LimitsTable};
use lapse_tests::fleet::time::{START, Time, at};
use lapse_tests::fleet::weather::{Part, Weather};
use lapse_triage::dispositions::DynamoDispositions;
use lapse_triage::triage::Dispositions;

/// A seed that ever found something is added here and stays.
const SEEDS: [u64; 4] = [1, 2, 3, 5];
const CALLS: usize = 120;

/// A simulated world to ask: its time is driven until the answer is there.
struct Simulated {
    time: Time,
}

impl Simulated {
    fn new() -> Self {
        Self { time: Time::default() }
    }

    fn way(&self, part: Part) -> Way {
        Way::new(self.time.clone(), Dice::new(7), Span(1, 3), part, Weather::fair(Dice::new(8)))
    }

    fn ask<T: 'static>(&self, question: impl Future<Output = T> + 'static) -> T {
        let answer = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&answer);
        self.time.spawn(async move { *slot.borrow_mut() = Some(question.await) });
        let until = self.time.now().plus(Duration::from_secs(60));
        assert!(self.time.drive(until, || answer.borrow().is_some()), "it answers");
        answer.take().expect("it answered")
    }
}

fn key(dice: &Dice) -> DeliveryKey {
    DeliveryKey::parse(&format!("catalog#res_{}:1", dice.below(4))).expect("valid")
}

fn some(dice: &Dice, ms: u64) -> Option<Timestamp> {
    (dice.below(2) == 0).then(|| at(dice.roll() % ms))
}

fn record(dice: &Dice, version: u64) -> Record {
    let states = [State::Sending, State::Waiting, State::Delivered, State::Dead];
    Record {
        version,
        state: states[dice.below(4)],
        attempts: 3,
        throttles: 0,
        crashes: 1,
        token: format!("t{}", dice.below(100)),
        lease: some(dice, 60_000),
        next_at: some(dice, 60_000),
        planned_at: some(dice, 60_000).map(Timestamp::micros),
        unknown_outcome: dice.below(2) == 0,
        reason: None,
        last_status: None,
        last_error: None,
        epoch: 1 + u32::try_from(dice.below(2)).expect("small"),
        redrive_until: some(dice, 60_000),
        triaged_epoch: None,
        first_at: START,
        last_at: START,
        ttl: 1_800_000_000,
    }
}

#[tokio::test]
async fn led_1_both_ledgers_store_refuse_and_read_the_same() {
    for engine in each() {
        let mut stored = 0;
        for seed in SEEDS {
            let (here, dice) = (Simulated::new(), Dice::new(seed));
            let simulated = LedgerTable::new(here.way(Part::Ledger), Eyes::default());
            let table = engine.table("deliveries").await;
            let real = DynamoLedger::new(engine.client(), table.clone());
            let dispositions = DynamoDispositions::new(engine.client(), table);
            for call in 0..CALLS {
                let label = format!("seed {seed}, call {call}");
                let key = key(&dice);
                match dice.below(4) {
                    0 => {
                        let keys: Vec<_> = (0..4).map(|n| DeliveryKey::parse(&format!("catalog#res_{n}:1"))).collect();
                        let keys: Vec<_> = keys.into_iter().map(|key| key.expect("valid")).collect();
                        let (store, asked) = (simulated.clone(), keys.clone());
                        let answer = here.ask(async move { store.read(&asked).await });
                        assert_eq!(answer, real.read(&keys).await, "{label}");
                    }
                    1 => {
                        let record = record(&dice, 1);
                        let (store, of, what) = (simulated.clone(), key.clone(), record.clone());
                        let answer = here.ask(async move { Dispositions::write(&store, &of, &what).await });
                        assert_eq!(answer, dispositions.write(&key, &record).await, "{label}");
                    }
                    _ => {
                        let known = simulated.record(&key).map_or(0, |record| record.version);
                        let version = if dice.below(4) == 0 { 1 + dice.roll() % 4 } else { known + 1 };
                        let record = record(&dice, version);
                        let insert = version == 1;
                        let write = if insert { LedgerWrite::Insert(record) } else { LedgerWrite::Swap(record) };
                        let writes = vec![(key, write)];
                        let (store, asked) = (simulated.clone(), writes.clone());
                        let answer = here.ask(async move { Ledger::write(&store, &asked).await });
                        stored += u32::from(answer == Ok(vec![lapse_policy::ports::Written::Stored]));
                        assert_eq!(answer, real.write(&writes).await, "{label}");
                    }
                }
            }
        }
        assert!(stored > 50, "too few writes were stored: {stored}");
    }
}

fn write(dice: &Dice) -> Write {
    let clock = if dice.below(2) == 0 { Which::Plan } else { Which::Gate };
    let micros = |dice: &Dice| START.micros().plus(Micros(i64::try_from(dice.roll() % 4).expect("small") * 500_000));
    let guard = if dice.below(2) == 0 {
        Guard::Shift(i64::try_from(dice.below(2)).expect("small") * 1000)
    } else {
        Guard::NotPaused(at(dice.roll() % 3000))
    };
    match dice.below(4) {
        0 => Write::Busy { clock, add: Micros(500_000), least: micros(dice), most: micros(dice), guard },
        1 => Write::Idle { clock, to: micros(dice), below: micros(dice), guard },
        2 => Write::BothIdle {
            plan: (micros(dice), micros(dice)),
            gate: (micros(dice), micros(dice)),
            shift: 0,
            at: at(dice.roll() % 3000),
        },
        _ => {
            let from = lapse_policy::pause::Pause::default();
            Write::Pause { from, to: from.raised(at(1000), START) }
        }
    }
}

#[tokio::test]
async fn lim_1_both_limiters_book_refuse_and_pause_the_same() {
    for engine in each() {
        for seed in SEEDS {
            let (here, dice) = (Simulated::new(), Dice::new(seed));
            let simulated = LimitsTable::new(here.way(Part::Limits), Eyes::default());
            let real = DynamoLimits::new(engine.client(), engine.table("limits").await);
            for call in 0..CALLS {
                let (to, write) = (name(["catalog", "partner"][dice.below(2)]), write(&dice));
                let (store, asked) = (simulated.clone(), to.clone());
                let answer = here.ask(async move { store.write(&asked, &write).await });
                assert_eq!(answer, real.write(&to, &write).await, "seed {seed}, call {call}: {write:?}");
                let (store, asked) = (simulated.clone(), to.clone());
                assert_eq!(here.ask(async move { store.read(&asked).await }), real.read(&to).await, "seed {seed}");
            }
        }
    }
}

#[tokio::test]
async fn lan_1_both_stores_of_lanes_take_and_give_back_the_same() {
    for engine in each() {
        for seed in SEEDS {
            let (here, dice) = (Simulated::new(), Dice::new(seed));
            let simulated = LanesTable::new(here.way(Part::Lanes), Eyes::default());
            let real = DynamoLanes::new(engine.client(), engine.table("limits").await);
            let to = name("catalog");
            for call in 0..CALLS {
                let (owner, now) = (format!("o{}", dice.below(3)), at(dice.roll() % 10_000));
                let number = u32::try_from(dice.below(3)).expect("small");
                let lane = Lane { number, owner, until: now.plus(Duration::from_millis(dice.roll() % 4000)) };
                let (store, of, asked) = (simulated.clone(), to.clone(), lane.clone());
                if dice.below(3) == 0 {
                    let answer = here.ask(async move { store.release(&of, &asked).await });
                    assert_eq!(answer, real.release(&to, &lane).await, "seed {seed}, call {call}");
                } else {
                    let answer = here.ask(async move { store.take(&of, &asked, now).await });
                    assert_eq!(answer, real.take(&to, &lane, now).await, "seed {seed}, call {call}: {lane:?}");
                }
                let store = simulated.clone();
                let of = to.clone();
                let sorted = |mut lanes: Vec<Lane>| {
                    lanes.sort_by_key(|lane| lane.number);
                    lanes
                };
                let answer = here.ask(async move { store.read(&of).await }).map(sorted);
                assert_eq!(answer, real.read(&to).await.map(sorted), "seed {seed}, call {call}");
            }
        }
    }
}

#[tokio::test]
async fn emt_1_both_schedules_keep_find_and_drop_the_same_rows() {
    for engine in each() {
        for seed in SEEDS {
            let (here, dice) = (Simulated::new(), Dice::new(seed));
            let simulated = ScheduleTable::new(here.way(Part::Schedule), Eyes::default());
            let real = DynamoSchedule::new(engine.client(), engine.table("schedule").await);
            for call in 0..CALLS {
                let due = RowKey::new(at(dice.roll() % 4 * 1000), key(&dice));
                let (shard, until) = (due.shard(), RowKey::new(at(dice.roll() % 5 * 1000), key(&dice)).sort_key());
                match dice.below(3) {
                    0 => {
                        let origin = [Origin::New, Origin::Resumed][dice.below(2)];
                        let rows = vec![Row { key: due, body: Arc::from(format!("b{call}")), origin }];
                        let (store, asked) = (simulated.clone(), rows.clone());
                        assert_eq!(here.ask(async move { store.put(&asked).await }), real.put(&rows).await);
                    }
                    1 => {
                        let gone = vec![due.sort_key()];
                        let (store, asked) = (simulated.clone(), gone.clone());
                        let answer = here.ask(async move { store.delete(shard, &asked).await });
                        assert_eq!(answer, real.delete(shard, &gone).await);
                    }
                    _ => {
                        let row = StoredRow { due: due.sort_key(), body: Some("x".into()), origin: Origin::New };
                        let (store, asked) = (simulated.clone(), row.clone());
                        let answer = here.ask(async move { store.set_aside(shard, &asked, "why").await });
                        assert_eq!(answer, real.set_aside(shard, &row, "why").await);
                    }
                }
                let (store, asked) = (simulated.clone(), until.clone());
                let answer = here.ask(async move { store.due(shard, &asked, None).await });
                assert_eq!(answer, real.due(shard, &until, None).await, "seed {seed}, call {call}");
            }
        }
    }
}

#[tokio::test]
async fn dst_1_both_tables_of_destinations_have_no_row_that_nobody_put() {
    for engine in each() {
        let here = Simulated::new();
        let simulated = DestinationsTable::new(here.way(Part::Destinations));
        let real = DynamoDestinations::new(engine.client(), engine.table("destinations").await);
        let nobody = name("nobody");
        let asked = nobody.clone();
        assert_eq!(here.ask(async move { simulated.read(&asked).await }), real.read(&nobody).await);
    }
}
