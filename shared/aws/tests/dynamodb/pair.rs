//! LIM-1: one conditional write on the adapter and on the model of `Write::apply`, compared in answer and in what is stored.
//!
//! Owns: [`Pair`]. Must not: choose writes, or compute places.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::record_item::{Item, number};
use lapse_engines::Engine;
use lapse_policy::clock::{Clocks, Write};
use lapse_policy::names::DestinationName;
use lapse_policy::pause::Pause;
use lapse_policy::ports::{ClockAnswer, Limits as _};
use lapse_policy::timestamp::Timestamp;

/// 16 digits of µs.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_000);

pub(crate) fn name(text: &str) -> DestinationName {
    DestinationName::parse(text).unwrap()
}

/// The adapter, and what its table must hold.
pub(crate) struct Pair {
    client: Client,
    table: String,
    pub(crate) store: DynamoLimits,
    model: HashMap<DestinationName, Clocks>,
}

impl Pair {
    pub(crate) async fn new(engine: &Engine) -> Self {
        let (client, table) = (engine.client(), engine.table("limits").await);
        let store = DynamoLimits::new(client.clone(), table.clone());
        Self { client, table, store, model: HashMap::new() }
    }

    pub(crate) fn item(&self, destination: &DestinationName) -> Clocks {
        self.model.get(destination).copied().unwrap_or_default()
    }

    /// Writes to both: the answers and the stored attributes are the same. Whether it was done.
    pub(crate) async fn write(&mut self, label: &str, destination: &DestinationName, write: &Write) -> bool {
        let item = self.item(destination);
        let done = self.answer(label, destination, write).await;
        let expected = self.model.get(destination).map(|clocks| {
            let named = |(name, value): (&str, _)| (name.to_owned(), value);
            key(destination).into_iter().chain(attributes(clocks)).map(named).collect::<Item>()
        });
        assert_eq!(self.raw(destination).await, expected, "{label}: stored after {write:?} on {item:?}");
        done
    }

    /// Writes to both: the answers are the same, and so is what the adapter reads then. Whether it was done.
    pub(crate) async fn answer(&mut self, label: &str, destination: &DestinationName, write: &Write) -> bool {
        let item = self.item(destination);
        let after = write.apply(&item);
        let expected = after.map_or(ClockAnswer::Refused(item), ClockAnswer::Done);
        let answer = self.store.write(destination, write).await;
        assert_eq!(answer, Ok(expected), "{label}: {write:?} on {item:?}");
        if let Some(after) = after {
            self.model.insert(destination.clone(), after);
        }
        let read = self.store.read(destination).await;
        assert_eq!(read, Ok(self.item(destination)), "{label}: read after {write:?} on {item:?}");
        after.is_some()
    }

    /// One write on a new item like this: the model says what must come of it.
    pub(crate) async fn check(&mut self, item: Clocks, write: Write) -> bool {
        let destination = name(&format!("d{}", self.model.len()));
        self.start(&destination, item).await;
        self.write("boundary", &destination, &write).await
    }

    /// Puts an item to begin with.
    pub(crate) async fn start(&mut self, destination: &DestinationName, item: Clocks) {
        self.put(destination, attributes(&item)).await;
        self.model.insert(destination.clone(), item);
    }

    /// Puts attributes that the model need not know.
    pub(crate) async fn put(&self, destination: &DestinationName, attributes: Vec<(&str, AttributeValue)>) {
        let mut put = self.client.put_item().table_name(&self.table);
        for (name, value) in key(destination).into_iter().chain(attributes) {
            put = put.item(name, value);
        }
        put.send().await.unwrap();
    }

    /// The item as it is stored.
    pub(crate) async fn raw(&self, destination: &DestinationName) -> Option<Item> {
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
