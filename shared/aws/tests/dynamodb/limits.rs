//! LIM-1, LIM-3, LIM-5, LIM-7, LIM-9: one conditional write at a time, at each side of every bound that it compares.
//!
//! Owns: [`Pair`], the adapter beside the model of `Write::apply`. Must not: compute places.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::record_item::{Item, number};
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::names::DestinationName;
use lapse_policy::pause::Pause;
use lapse_policy::ports::{ClockAnswer, Limits as _};
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::engine;

/// 16 digits of µs.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_000);

pub(crate) fn name(text: &str) -> DestinationName {
    DestinationName::parse(text).unwrap()
}

/// The adapter, and what its table must hold.
pub(crate) struct Pair {
    client: Client,
    table: String,
    store: DynamoLimits,
    model: HashMap<DestinationName, Clocks>,
}

impl Pair {
    pub(crate) async fn new() -> Self {
        let (client, table) = (engine::client(), engine::table("limits").await);
        let store = DynamoLimits::new(client.clone(), table.clone());
        Self { client, table, store, model: HashMap::new() }
    }

    pub(crate) fn item(&self, destination: &DestinationName) -> Clocks {
        self.model.get(destination).copied().unwrap_or_default()
    }

    /// Writes to both; the answers and the items afterwards are the same. Whether it was done.
    pub(crate) async fn write(&mut self, label: &str, destination: &DestinationName, write: &Write) -> bool {
        let item = self.item(destination);
        let after = write.apply(&item);
        let expected = after.map_or(ClockAnswer::Refused(item), ClockAnswer::Done);
        let answer = self.store.write(destination, write).await;
        assert_eq!(answer, Ok(expected), "{label}: {write:?} on {item:?}");
        if let Some(after) = after {
            self.model.insert(destination.clone(), after);
        }
        let stored = self.store.read(destination).await;
        assert_eq!(stored, Ok(self.item(destination)), "{label}: read after {write:?} on {item:?}");
        after.is_some()
    }

    /// One write on a new item like this: the model says what must come of it.
    async fn check(&mut self, item: Clocks, write: Write) -> bool {
        let destination = name(&format!("d{}", self.model.len()));
        self.put(&destination, attributes(&item)).await;
        self.model.insert(destination.clone(), item);
        self.write("boundary", &destination, &write).await
    }

    async fn put(&self, destination: &DestinationName, attributes: Vec<(&str, AttributeValue)>) {
        let mut put = self.client.put_item().table_name(&self.table);
        for (name, value) in key(destination).into_iter().chain(attributes) {
            put = put.item(name, value);
        }
        put.send().await.unwrap();
    }

    /// The item as it is stored.
    async fn raw(&self, destination: &DestinationName) -> Option<Item> {
        let mut get = self.client.get_item().table_name(&self.table).consistent_read(true);
        for (name, value) in key(destination) {
            get = get.key(name, value);
        }
        get.send().await.unwrap().item
    }
}

fn key(destination: &DestinationName) -> [(&'static str, AttributeValue); 2] {
    [("destination", AttributeValue::S(destination.to_string())), ("lane", AttributeValue::S("clock".to_owned()))]
}

/// The attributes of DESIGN 4; what is absent or 0 is not there.
fn attributes(item: &Clocks) -> Vec<(&'static str, AttributeValue)> {
    let Pause { until, from, shift, streak } = item.pause;
    let present = [
        ("plan", item.plan.map(|c| c.0)),
        ("gate", item.gate.map(|c| c.0)),
        ("paused_until", until.map(Timestamp::millis)),
        ("pause_from", from.map(Timestamp::millis)),
        ("shift", Some(shift).filter(|n| *n != 0)),
        ("streak", Some(i64::from(streak)).filter(|n| *n != 0)),
    ];
    present.into_iter().filter_map(|(name, value)| Some((name, number(value?)))).collect()
}

fn at(us: i64) -> Micros {
    NOW.micros().plus(Micros(us))
}

fn after(ms: i64) -> Timestamp {
    Timestamp::from_millis(NOW.millis() + ms)
}

/// Guards with the pause that they meet: the first of each holds.
fn guards() -> Vec<(Pause, Guard)> {
    let shift = |stored, known| (Pause { shift: stored, ..Pause::default() }, Guard::Shift(known));
    let until = |until| (Pause { until, ..Pause::default() }, Guard::NotPaused(NOW));
    vec![
        shift(0, 0),
        shift(0, 1),
        shift(5, 5),
        shift(5, 0),
        shift(5, 4),
        shift(-5, -5),
        shift(-5, 5),
        until(None),
        until(Some(after(-1))),
        until(Some(NOW)),
        until(Some(after(1))),
        until(Some(Timestamp::FAR_FUTURE)),
    ]
}

fn with(clock: Clock, value: Option<Micros>, pause: Pause) -> Clocks {
    match clock {
        Clock::Plan => Clocks { plan: value, pause, ..Clocks::default() },
        Clock::Gate => Clocks { gate: value, pause, ..Clocks::default() },
    }
}

#[tokio::test]
async fn lim_1_the_busy_branch_compares_each_bound_exactly() {
    let mut pair = Pair::new().await;
    let mut done = 0;
    for clock in [Clock::Plan, Clock::Gate] {
        for value in [None, Some(at(-1)), Some(at(0)), Some(at(1_000_000)), Some(at(1_000_001))] {
            for (pause, guard) in guards() {
                let write = Write::Busy { clock, add: Micros(20_409), least: at(0), most: at(1_000_000), guard };
                done += u32::from(pair.check(with(clock, value, pause), write).await);
            }
        }
        let guard = Guard::Shift(0);
        let crossed = Write::Busy { clock, add: Micros(1), least: at(1), most: at(0), guard };
        assert!(!pair.check(with(clock, Some(at(0)), Pause::default()), crossed).await, "no room is no error");
    }
    assert_eq!(done, 2 * 2 * 6, "both clocks, both bounds, and six guards that hold");
}

#[tokio::test]
async fn lim_1_the_idle_branch_takes_an_absent_clock_or_one_before_now() {
    let mut pair = Pair::new().await;
    let mut done = 0;
    for clock in [Clock::Plan, Clock::Gate] {
        for value in [None, Some(at(-1)), Some(at(0)), Some(at(1))] {
            for (pause, guard) in guards() {
                let write = Write::Idle { clock, to: at(20_409), below: at(0), guard };
                done += u32::from(pair.check(with(clock, value, pause), write).await);
            }
        }
    }
    assert_eq!(done, 2 * 2 * 6, "both clocks, absent and before, and six guards that hold");
}

#[tokio::test]
async fn lim_3_one_write_moves_both_clocks_only_where_both_are_idle() {
    let mut pair = Pair::new().await;
    let mut done = 0;
    let values = [None, Some(at(-1)), Some(at(0))];
    for plan in values {
        for gate in values {
            for (shift, known, until) in
                [(0, 0, None), (7, 7, Some(NOW)), (7, 7, Some(after(1))), (7, 0, None), (0, -7, None)]
            {
                let pause = Pause { shift, until, ..Pause::default() };
                let (to_plan, to_gate) = ((at(100), at(0)), (at(200), at(0)));
                let write = Write::BothIdle { plan: to_plan, gate: to_gate, shift: known, at: NOW };
                done += u32::from(pair.check(Clocks { plan, gate, pause }, write).await);
            }
        }
    }
    assert_eq!(done, 2 * 2 * 2, "each clock absent or before, and two guards that hold");
}

#[tokio::test]
async fn lim_7_a_pause_is_swapped_as_a_whole() {
    let mut pair = Pair::new().await;
    let free = Pause::default();
    let full = Pause { until: Some(after(9000)), from: Some(NOW), shift: 9000, streak: 2 };
    let stopped = Pause { until: Some(Timestamp::FAR_FUTURE), from: None, shift: -1, streak: u32::MAX };
    for from in [free, full, stopped] {
        for to in [free, full, stopped] {
            let item = Clocks { plan: Some(at(5)), gate: Some(at(6)), pause: from };
            assert!(pair.check(item, Write::Pause { from, to }).await, "{from:?} to {to:?}");
        }
    }
    for item in [free, full] {
        let others = [
            Pause { until: Some(after(9001)), ..item },
            Pause { from: Some(after(-1)), ..item },
            Pause { shift: item.shift - 1, ..item },
            Pause { streak: item.streak + 1, ..item },
            Pause { until: None, from: None, shift: 3, streak: 0 },
        ];
        for from in others {
            let stored = Clocks { pause: item, ..Clocks::default() };
            assert!(!pair.check(stored, Write::Pause { from, to: stopped }).await, "{from:?} on {item:?}");
        }
    }
    let absent = [Pause { until: None, ..full }, Pause { from: None, ..full }, Pause { shift: 0, ..full }];
    for from in absent.into_iter().chain([Pause { streak: 0, ..full }]) {
        let stored = Clocks { pause: full, ..Clocks::default() };
        assert!(!pair.check(stored, Write::Pause { from, to: free }).await, "{from:?} is not what is there");
    }
}

#[tokio::test]
async fn lim_7_a_lifted_pause_leaves_no_attribute_behind() {
    let mut pair = Pair::new().await;
    let destination = name("catalog");
    let hour = Pause::default().raised(NOW.plus(Duration::from_hours(1)), NOW);
    for (from, to) in [(Pause::default(), hour), (hour, Pause::default())] {
        assert!(pair.write("set and lifted", &destination, &Write::Pause { from, to }).await);
    }
    let mut left: Vec<_> = pair.raw(&destination).await.unwrap().into_keys().collect();
    left.sort();
    assert_eq!(left, ["destination", "lane"]);
}

#[tokio::test]
async fn lim_1_a_refused_write_on_an_absent_item_creates_nothing() {
    let mut pair = Pair::new().await;
    let gone = Pause { until: Some(NOW), ..Pause::default() };
    let refused = [
        Write::Busy { clock: Clock::Plan, add: Micros(1), least: at(-1), most: at(1), guard: Guard::Shift(0) },
        Write::Busy { clock: Clock::Gate, add: Micros(1), least: at(-1), most: at(1), guard: Guard::NotPaused(NOW) },
        Write::Idle { clock: Clock::Plan, to: at(1), below: at(0), guard: Guard::Shift(1) },
        Write::BothIdle { plan: (at(1), at(0)), gate: (at(1), at(0)), shift: 1, at: NOW },
        Write::Pause { from: gone, to: Pause::default() },
    ];
    for write in refused {
        let destination = name("nobody");
        assert!(!pair.write("absent", &destination, &write).await, "{write:?}");
        assert_eq!(pair.raw(&destination).await, None, "{write:?}");
    }
}

#[tokio::test]
async fn lim_9_an_absent_item_reads_as_never_limited() {
    let pair = Pair::new().await;
    assert_eq!(pair.store.read(&name("nobody")).await, Ok(Clocks::default()));
}

#[tokio::test]
async fn lim_7_zeros_that_are_stored_are_no_pause() {
    let mut pair = Pair::new().await;
    let destination = name("catalog");
    pair.put(&destination, vec![("shift", number(0)), ("streak", number(0))]).await;
    let idle = Write::Idle { clock: Clock::Plan, to: at(1), below: at(0), guard: Guard::Shift(0) };
    assert!(pair.write("booked", &destination, &idle).await);
    let from = Pause::default();
    assert!(pair.write("paused", &destination, &Write::Pause { from, to: from.raised(after(1), NOW) }).await);
}

#[tokio::test]
async fn lim_8_an_item_that_cannot_be_read_is_an_error_that_names_the_attribute() {
    let pair = Pair::new().await;
    for attribute in ["plan", "gate", "paused_until", "pause_from", "shift", "streak"] {
        let destination = name(attribute);
        let soon = AttributeValue::S("soon".to_owned());
        pair.put(&destination, vec![(attribute, soon)]).await;
        let error = pair.store.read(&destination).await.unwrap_err();
        assert_eq!(error.cause, format!("the clock's attribute {attribute} cannot be read"));
        // A write whose condition does not hold tells it just the same.
        let write = Write::Pause { from: Pause { streak: 9, ..Pause::default() }, to: Pause::default() };
        let refused = pair.store.write(&destination, &write).await.unwrap_err();
        assert_eq!(refused.cause, error.cause);
    }
}

#[tokio::test]
async fn lim_8_a_store_without_its_table_is_unavailable() {
    let store = DynamoLimits::new(engine::client(), "no-such-table".to_owned());
    let write = Write::Idle { clock: Clock::Gate, to: at(1), below: at(0), guard: Guard::NotPaused(NOW) };
    assert_eq!(store.write(&name("catalog"), &write).await.unwrap_err().operation, "UpdateItem limits");
    assert_eq!(store.read(&name("catalog")).await.unwrap_err().operation, "GetItem limits");
}
