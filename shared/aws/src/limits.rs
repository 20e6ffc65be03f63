//! LIM-1, LIM-3, LIM-5, LIM-7: the limiter's clock items on the `limits` table.
//!
//! Owns: a [`Write`] as one conditional UpdateItem. Must not: choose writes; `lapse_policy::booking` does.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use lapse_policy::clock::{Clock, Clocks, Guard, Write};
use lapse_policy::names::DestinationName;
use lapse_policy::pause::Pause;
use lapse_policy::ports::{ClockAnswer, Limits, Unavailable};
use lapse_policy::timestamp::{Micros, Timestamp};

use crate::failure::unavailable;
use crate::record_item::{Item, number, read_number};

/// The sort key of the clock item; lanes have others.
const CLOCK: &str = "clock";

/// The limiter's store on DynamoDB.
#[derive(Debug, Clone)]
pub struct DynamoLimits {
    client: Client,
    table: String,
}

impl DynamoLimits {
    /// On a table.
    #[must_use]
    pub fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }
}

impl Limits for DynamoLimits {
    async fn write(&self, destination: &DestinationName, write: &Write) -> Result<ClockAnswer, Unavailable> {
        const OPERATION: &str = "UpdateItem limits";
        let expression = Expression::of(write);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("destination", AttributeValue::S(destination.to_string()))
            .key("lane", AttributeValue::S(CLOCK.to_owned()))
            .update_expression(expression.update())
            .condition_expression(expression.conditions.join(" AND "))
            .set_expression_attribute_names(Some(expression.names))
            .set_expression_attribute_values(Some(expression.values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await;
        match answer {
            Ok(answer) => clocks(answer.attributes()).map(ClockAnswer::Done).map_err(|a| unreadable(OPERATION, a)),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                    clocks(failed.item()).map(ClockAnswer::Refused).map_err(|a| unreadable(OPERATION, a))
                }
                _ => Err(unavailable(OPERATION, &error)),
            },
        }
    }

    async fn read(&self, destination: &DestinationName) -> Result<Clocks, Unavailable> {
        const OPERATION: &str = "GetItem limits";
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("destination", AttributeValue::S(destination.to_string()))
            .key("lane", AttributeValue::S(CLOCK.to_owned()))
            .consistent_read(true)
            .send()
            .await
            .map_err(|e| unavailable(OPERATION, &e))?;
        clocks(answer.item()).map_err(|attribute| unreadable(OPERATION, attribute))
    }
}

fn unreadable(operation: &'static str, attribute: &str) -> Unavailable {
    Unavailable { operation, cause: format!("the clock's attribute {attribute} cannot be read") }
}

fn clocks(item: Option<&Item>) -> Result<Clocks, &'static str> {
    let Some(item) = item else { return Ok(Clocks::default()) };
    let clock = |name| read_number(item, name).map(|n| n.map(Micros));
    let time = |name| read_number(item, name).map(|n| n.map(Timestamp::from_millis));
    Ok(Clocks {
        plan: clock("plan")?,
        gate: clock("gate")?,
        pause: Pause {
            until: time("paused_until")?,
            from: time("pause_from")?,
            shift: read_number(item, "shift")?.unwrap_or(0),
            streak: read_number(item, "streak")?.unwrap_or(0),
        },
    })
}

/// An update with its conditions, names and values. Several attributes are reserved words: all are aliased.
#[derive(Debug, Default)]
struct Expression {
    sets: Vec<String>,
    removes: Vec<String>,
    conditions: Vec<String>,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Expression {
    fn of(write: &Write) -> Self {
        let mut e = Self::default();
        match *write {
            Write::Busy { clock, add, least, most, guard } => {
                let name = e.name(clock_name(clock));
                let (add, least, most) = (e.value("add", add.0), e.value("least", least.0), e.value("most", most.0));
                e.sets.push(format!("{name} = {name} + {add}"));
                // Not BETWEEN: it is an error where the bounds are not in order, and here that only means "full".
                e.conditions.push(format!("{name} >= {least} AND {name} <= {most}"));
                e.guard(guard);
            }
            Write::Idle { clock, to, below, guard } => {
                e.idle(clock, to, below);
                e.guard(guard);
            }
            Write::BothIdle { plan, gate, shift, at } => {
                e.idle(Clock::Plan, plan.0, plan.1);
                e.idle(Clock::Gate, gate.0, gate.1);
                e.guard(Guard::Shift(shift));
                e.guard(Guard::NotPaused(at));
            }
            Write::Pause { from, to } => {
                e.swap("paused_until", millis(from.until), millis(to.until));
                e.swap("pause_from", millis(from.from), millis(to.from));
                e.swap("shift", nonzero(from.shift), nonzero(to.shift));
                e.swap("streak", nonzero(from.streak.into()), nonzero(to.streak.into()));
            }
        }
        e
    }

    fn update(&self) -> String {
        let part = |word: &str, parts: &[String]| {
            if parts.is_empty() { String::new() } else { format!("{word} {} ", parts.join(", ")) }
        };
        part("SET", &self.sets) + &part("REMOVE", &self.removes)
    }

    fn name(&mut self, attribute: &str) -> String {
        let alias = format!("#{attribute}");
        self.names.insert(alias.clone(), attribute.to_owned());
        alias
    }

    fn value(&mut self, name: &str, value: i64) -> String {
        let alias = format!(":{name}");
        self.values.insert(alias.clone(), number(value));
        alias
    }

    fn idle(&mut self, clock: Clock, to: Micros, below: Micros) {
        let attribute = clock_name(clock);
        let name = self.name(attribute);
        let (to, below) =
            (self.value(&format!("{attribute}_to"), to.0), self.value(&format!("{attribute}_now"), below.0));
        self.sets.push(format!("{name} = {to}"));
        self.conditions.push(format!("(attribute_not_exists({name}) OR {name} < {below})"));
    }

    fn guard(&mut self, guard: Guard) {
        match guard {
            Guard::Shift(shift) => self.is("shift", nonzero(shift)),
            Guard::NotPaused(at) => {
                let (name, at) = (self.name("paused_until"), self.value("at", at.millis()));
                self.conditions.push(format!("(attribute_not_exists({name}) OR {name} <= {at})"));
            }
        }
    }

    /// The attribute is this; `None` is absent, or the number 0 that stands for it.
    fn is(&mut self, attribute: &str, value: Option<i64>) {
        let name = self.name(attribute);
        let was = self.value(&format!("{attribute}_was"), value.unwrap_or(0));
        self.conditions.push(match value {
            Some(_) => format!("{name} = {was}"),
            None => format!("(attribute_not_exists({name}) OR {name} = {was})"),
        });
    }

    fn swap(&mut self, attribute: &str, from: Option<i64>, to: Option<i64>) {
        self.is(attribute, from);
        let name = self.name(attribute);
        match to {
            Some(to) => {
                let to = self.value(&format!("{attribute}_to"), to);
                self.sets.push(format!("{name} = {to}"));
            }
            None => self.removes.push(name),
        }
    }
}

const fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Plan => "plan",
        Clock::Gate => "gate",
    }
}

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::millis)
}

fn nonzero(n: i64) -> Option<i64> {
    (n != 0).then_some(n)
}
