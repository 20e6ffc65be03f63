//! What changes in a destination's row: from flags and files to fields, checked, and shown without secrets (SEC-4).
//!
//! Owns: fields from the command line, the differences, and what a row looks like to a person. Must not: read or write.

use std::time::Duration;

use anyhow::{Context, Result};
use lapse_policy::destination::Destination;
use lapse_policy::names::DestinationName;
use serde_json::{Map, Value, json};

use super::rows::{Row, differing};
use super::secrets::{fingerprint, generate};
use super::{LimitFlags, PutFlags};
use crate::commands::{read_input, usage};

/// The timeout of `deliver` (infra/contract.json): an attempt has to fit it (ACK-4).
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Fields of `put`, and a secret that was made for it.
#[derive(Debug)]
pub(super) struct Fields {
    /// What is set; null removes.
    pub change: Map<String, Value>,
    /// Shown once.
    pub made: Option<String>,
}

/// One field's difference, for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Its name.
    pub field: String,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
}

/// The fields that `put` was given.
pub(super) fn of_put(flags: &PutFlags) -> Result<Fields> {
    let mut change = match &flags.file {
        None => Map::new(),
        Some(path) => {
            let text = read_input(path).with_context(|| format!("cannot read --file {}", path.display()))?;
            // The parser's own words could show a part of a secret (SEC-4).
            match serde_json::from_slice(&text) {
                Ok(Value::Object(object)) => object,
                Ok(_) => return Err(usage("--file must hold one JSON object")),
                Err(error) => {
                    return Err(usage(&format!(
                        "--file is no JSON at line {}, column {}",
                        error.line(),
                        error.column()
                    )));
                }
            }
        }
    };
    if change.remove("destination").is_some() {
        return Err(usage("--file: destination is given by NAME; leave it out"));
    }
    let mut set = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            change.insert(field.to_owned(), value);
        }
    };
    set("url", flags.url.as_ref().map(|url| json!(url)));
    set("rate", flags.rate.as_deref().map(|rate| of_rate(rate, flags.burst)).transpose()?);
    set("max_in_flight", flags.max_in_flight.map(|n| json!(n)));
    set("timeout_ms", flags.timeout_ms.map(|n| json!(n)));
    set("max_age", flags.max_age.map(|n| json!(n)));
    set("allow_http", flags.allow_http.map(|flag| json!(flag)));
    set("disabled", flags.disabled.map(|flag| json!(flag)));
    if !flags.headers.is_empty() {
        set("headers", Some(of_headers(&flags.headers)?));
    }
    let made = if flags.generate_secret { Some(generate()?) } else { None };
    let secrets: Vec<_> = flags.secret.iter().chain(&made).collect();
    if !secrets.is_empty() {
        set("secrets", Some(json!(secrets)));
    }
    if change.is_empty() {
        return Err(usage("give at least one field, such as --url, or --file"));
    }
    Ok(Fields { change, made })
}

/// The fields that `limit` was given.
pub(super) fn of_limit(flags: &LimitFlags) -> Result<Map<String, Value>> {
    let mut change = Map::new();
    if flags.none {
        change.insert("rate".to_owned(), Value::Null);
        change.insert("max_in_flight".to_owned(), Value::Null);
    }
    if let Some(rate) = &flags.rate {
        change.insert("rate".to_owned(), of_rate(rate, flags.burst)?);
    }
    if let Some(most) = flags.max_in_flight {
        change.insert("max_in_flight".to_owned(), json!(most));
    }
    Ok(change)
}

fn of_rate(text: &str, burst: Option<u32>) -> Result<Value> {
    let wrong = || usage(&format!("--rate {text:?} must be requests per second, or requests/seconds: 50, 50/60"));
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (limit, per_seconds) = match text.split_once('/') {
        Some((limit, seconds)) => (number(limit)?, number(seconds)?),
        None => (number(text)?, 1),
    };
    let mut rate = json!({"limit": limit, "per_seconds": per_seconds});
    if let Some(burst) = burst {
        rate["burst"] = json!(burst);
    }
    Ok(rate)
}

fn of_headers(headers: &[String]) -> Result<Value> {
    let pair = |header: &String| match header.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), json!(value.trim()))),
        None => Err(usage("--header must be \"Name: value\"")),
    };
    headers.iter().map(pair).collect::<Result<Map<_, _>>>().map(Value::Object)
}

/// The row after a change.
#[must_use]
pub(super) fn applied(before: Option<&Row>, change: &Map<String, Value>) -> Row {
    let mut after = before.cloned().unwrap_or_default();
    for (field, value) in change {
        if value.is_null() {
            after.remove(field);
        } else {
            after.insert(field.clone(), value.clone());
        }
    }
    after
}

/// Whether a row is one that `deliver` can use; the error names the field.
pub(super) fn check(name: &DestinationName, row: &Row) -> Result<()> {
    Destination::parse(name, row).and_then(|destination| destination.fits(FUNCTION_TIMEOUT))?;
    Ok(())
}

/// The differences, by field.
#[must_use]
pub(super) fn differences(before: Option<&Row>, after: &Row) -> Vec<Difference> {
    let nothing = Row::new();
    let before = before.unwrap_or(&nothing);
    let word =
        |row: &Row, field: &str| row.get(field).map_or("none".to_owned(), |value| masked(field, value).to_string());
    let difference = |field: String| Difference { from: word(before, &field), to: word(after, &field), field };
    differing(before, after).into_iter().map(difference).collect()
}

/// A row without its secrets and without the values of its headers, which may be secrets too.
#[must_use]
pub(super) fn shown(row: &Row) -> Map<String, Value> {
    row.iter().map(|(field, value)| (field.clone(), masked(field, value))).collect()
}

fn masked(field: &str, value: &Value) -> Value {
    match (field, value) {
        ("secrets", Value::Array(secrets)) => secrets.iter().map(|s| json!(fingerprint(s))).collect(),
        ("secrets", _) => json!("not a list"),
        ("headers", Value::Object(headers)) => headers.keys().map(|name| (name.clone(), json!("..."))).collect(),
        _ => value.clone(),
    }
}

/// One line of the list.
#[must_use]
pub(super) fn line(name: &str, row: &Row) -> [String; 5] {
    let parsed = DestinationName::parse(name).ok().map(|name| Destination::parse(&name, row));
    let url = row.get("url").and_then(Value::as_str).unwrap_or("").to_owned();
    let (rate, lanes, state) = match parsed {
        Some(Ok(destination)) => (
            destination.rate.map_or("none".to_owned(), |rate| match rate.per_seconds.get() {
                1 => format!("{}/s, burst {}", rate.limit, rate.burst),
                seconds => format!("{}/{seconds} s, burst {}", rate.limit, rate.burst),
            }),
            destination.max_in_flight.map_or("any".to_owned(), |most| most.to_string()),
            if destination.disabled { "disabled".to_owned() } else { "on".to_owned() },
        ),
        Some(Err(error)) => (String::new(), String::new(), format!("invalid: {}", error.field)),
        None => (String::new(), String::new(), "invalid: destination".to_owned()),
    };
    [name.to_owned(), rate, lanes, state, url]
}
