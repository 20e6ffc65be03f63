//! Reading a JSON object's fields into checked values, with errors that name the field.
//!
//! Owns: [`Fields`] and [`InvalidDestination`]. Must not: know what the fields mean.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value};

/// A destination's row that does not parse: the field and what it accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct InvalidDestination {
    /// The field, with `.` between levels.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// One object's fields, with the name of the object that they are in.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    row: &'a Map<String, Value>,
    within: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of `row`, which is called `within` (empty at the top).
    #[must_use]
    pub fn of(row: &'a Map<String, Value>, within: &'static str) -> Self {
        Self { row, within }
    }

    /// The error that names `field`.
    #[must_use]
    pub fn invalid(&self, field: &str, problem: &str) -> InvalidDestination {
        let dot = if self.within.is_empty() { "" } else { "." };
        InvalidDestination { field: format!("{}{dot}{field}", self.within), problem: problem.to_owned() }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.row.get(name).filter(|value| !value.is_null())
    }

    /// Whether the field is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A field that may be absent.
    pub fn optional<T>(
        &self,
        name: &str,
        accepted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, InvalidDestination> {
        self.value(name)
            .map(|value| read(value).ok_or_else(|| self.invalid(name, &format!("must be {accepted}"))))
            .transpose()
    }

    /// A field that may not.
    pub fn required<T>(
        &self,
        name: &str,
        accepted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, InvalidDestination> {
        self.optional(name, accepted, read)?
            .ok_or_else(|| self.invalid(name, &format!("is missing; must be {accepted}")))
    }

    /// `true` or `false`; `false` when absent.
    pub fn flag(&self, name: &str) -> Result<bool, InvalidDestination> {
        Ok(self.optional(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// A whole number in a range.
    pub fn whole(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, InvalidDestination> {
        let accepted = format!("a whole number from {least} to {most}");
        self.optional(name, &accepted, |v| v.as_u64().filter(|n| (least..=most).contains(n)))
    }

    /// A whole number from 1.
    pub fn nonzero(&self, name: &str, most: u32) -> Result<Option<NonZeroU32>, InvalidDestination> {
        let number = self.whole(name, 1, u64::from(most))?;
        Ok(number.and_then(|n| u32::try_from(n).ok()).and_then(NonZeroU32::new))
    }

    /// A number in a range.
    pub fn number(&self, name: &str, least: f64, most: f64) -> Result<Option<f64>, InvalidDestination> {
        let accepted = format!("a number from {least} to {most}");
        self.optional(name, &accepted, |v| v.as_f64().filter(|n| (least..=most).contains(n)))
    }

    /// A span in whole milliseconds.
    pub fn millis(&self, name: &str, least: u64, most: u64) -> Result<Option<Duration>, InvalidDestination> {
        Ok(self.whole(name, least, most)?.map(Duration::from_millis))
    }

    /// An object.
    pub fn nested(&self, name: &'static str) -> Result<Option<Self>, InvalidDestination> {
        let row = self.optional(name, "an object", Value::as_object)?;
        Ok(row.map(|row| Self::of(row, name)))
    }

    /// A list, every entry of which is read.
    pub fn list<T>(
        &self,
        name: &str,
        accepted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, InvalidDestination> {
        self.optional(name, &format!("a list of {accepted}"), |value| value.as_array()?.iter().map(read).collect())
    }

    /// An object of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<(&'a str, &'a str)>, InvalidDestination> {
        let pairs = self.optional(name, "an object of strings", |value| {
            value.as_object()?.iter().map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect()
        })?;
        Ok(pairs.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_names_the_field_and_what_it_accepts() {
        let row = json!({"rate": {"limit": "many"}});
        let row = row.as_object().expect("an object");
        let rate = Fields::of(row, "").nested("rate").expect("an object").expect("given");
        let error = rate.nonzero("limit", 9).expect_err("a text");
        assert_eq!(error.to_string(), "rate.limit must be a whole number from 1 to 9");
        let error = rate.required("burst", "a number", Value::as_u64).expect_err("absent");
        assert_eq!(error.to_string(), "rate.burst is missing; must be a number");
    }
}
