//! The part of a destination that decides.
//!
//! Owns: reading it from a vector's `destination`, and from a row of `destinations` in a file.
//! Must not: check a field itself; `lapse_policy` does. What decides nothing here, such as the URL, is not read.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use lapse_policy::classifier::StatusLists;
use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::decision::Rules;
use lapse_policy::destination::{LONGEST_MAX_AGE, MAX_AGE, MAX_TIMEOUT, TIMEOUT, retry, statuses};
use lapse_policy::retry_policy::RetryPolicy;
use lapse_policy::timestamp::millis;
use serde_json::{Map, Number, Value};

use crate::commands::{read_input, usage};

/// What a destination says about outcomes and retries.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its own reading of statuses.
    pub statuses: StatusLists,
    /// Whether a 202 is not yet a decision.
    pub require_decision: bool,
    /// Its schedule of retries.
    pub retry: RetryPolicy,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// The age at which an event without a deadline ends.
    pub max_age: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            statuses: StatusLists::default(),
            require_decision: false,
            retry: RetryPolicy::default(),
            timeout: TIMEOUT,
            max_age: MAX_AGE,
        }
    }
}

impl Policy {
    /// Reads an object in which the schedule of retries has the name `schedule`.
    pub fn of(fields: &Fields<'_>, schedule: &'static str) -> Result<Self, InvalidDestination> {
        let default = Self::default();
        let most_ms = u64::try_from(millis(MAX_TIMEOUT)).unwrap_or(u64::MAX);
        let max_age = fields.whole("max_age", 1, LONGEST_MAX_AGE.as_secs())?;
        Ok(Self {
            statuses: fields.nested("statuses")?.map_or(Ok(default.statuses), |lists| statuses(&lists))?,
            require_decision: fields.flag("require_decision")?,
            retry: fields.nested(schedule)?.map_or(Ok(default.retry), |policy| retry(&policy))?,
            timeout: fields.millis("timeout_ms", 1, most_ms)?.unwrap_or(default.timeout),
            max_age: max_age.map_or(default.max_age, Duration::from_secs),
        })
    }

    /// Reads the row that `--destination` names.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |problem: &str| usage(&format!("--destination {}: {problem}", path.display()));
        let text = read_input(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        let row: Map<String, Value> = serde_json::from_slice(&text)
            .map_err(|_| wrong("must be one JSON object, a row of the table destinations"))?;
        // `aws dynamodb get-item` wraps the row and gives each value its type.
        let row = row.get("Item").and_then(Value::as_object).unwrap_or(&row);
        let row = untyped_row(row).unwrap_or_else(|| row.clone());
        Self::of(&Fields::of(&row, ""), "policy").map_err(|invalid| wrong(&invalid.to_string()))
    }

    /// Its part in a decision.
    #[must_use]
    pub fn rules(&self) -> Rules<'_> {
        Rules {
            statuses: &self.statuses,
            require_decision: self.require_decision,
            retry: &self.retry,
            timeout: self.timeout,
        }
    }
}

/// The row without DynamoDB's types, if every value in it has one.
fn untyped_row(row: &Map<String, Value>) -> Option<Map<String, Value>> {
    row.iter().map(|(name, value)| Some((name.clone(), untyped(value)?))).collect()
}

fn untyped(value: &Value) -> Option<Value> {
    let typed = value.as_object().filter(|object| object.len() == 1)?;
    let (kind, inner) = typed.iter().next()?;
    match kind.as_str() {
        "S" | "BOOL" | "SS" => Some(inner.clone()),
        "N" => number(inner),
        "NS" => inner.as_array()?.iter().map(number).collect(),
        "L" => inner.as_array()?.iter().map(untyped).collect(),
        "M" => untyped_row(inner.as_object()?).map(Value::Object),
        "NULL" | "B" | "BS" => Some(Value::Null),
        _ => None,
    }
}

fn number(digits: &Value) -> Option<Value> {
    digits.as_str()?.parse::<Number>().ok().map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_read_with_and_without_dynamodbs_types() {
        let plain = json!({"url": "https://a.example/", "policy": {"jitter": 0.5, "schedule_s": [1, 2]},
            "statuses": {"transient": [404]}, "require_decision": true, "secrets": ["s"], "note": null});
        let typed = json!({"url": {"S": "https://a.example/"},
            "policy": {"M": {"jitter": {"N": "0.5"}, "schedule_s": {"L": [{"N": "1"}, {"N": "2"}]}}},
            "statuses": {"M": {"transient": {"NS": ["404"]}}}, "require_decision": {"BOOL": true},
            "secrets": {"SS": ["s"]}, "note": {"NULL": true}});
        let untyped = |row: &Value| untyped_row(row.as_object().expect("an object"));
        assert_eq!(untyped(&typed).map(Value::Object), Some(plain.clone()));
        assert_eq!(untyped(&plain), None, "plain JSON has no types");
    }
}
