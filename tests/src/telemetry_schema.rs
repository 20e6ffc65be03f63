//! OBS-1, OBS-2: the written schema of all that the functions print, and a checker of lines by it.
//!
//! Owns: the keywords that `infra/telemetry.schema.json` uses; another one is an error, so that nothing in it goes
//! unchecked. Must not: run anything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use lapse_local::Function;
use serde_json::{Map, Value};

/// The schema.
#[derive(Debug, Clone)]
pub struct Schema(Value);

/// Keywords that say something to a reader and nothing to the checker; `x-unit` is compared with the directive.
const NOTES: [&str; 2] = ["description", "x-unit"];

impl Schema {
    /// The one of the repository.
    pub fn of_repository() -> Result<Self> {
        let text = include_str!("../../infra/telemetry.schema.json");
        Ok(Self(serde_json::from_str(text).context("infra/telemetry.schema.json is no JSON")?))
    }

    /// The name of a function's definition.
    fn definition(&self, function: Function) -> Result<&Value> {
        self.at(&format!("#/$defs/{function}"))
    }

    fn at(&self, reference: &str) -> Result<&Value> {
        let pointer = reference.strip_prefix('#').context("a reference is into this file")?;
        self.0.pointer(pointer).with_context(|| format!("the schema has no {reference}"))
    }

    /// The forms of a function's lines by their message; metrics documents have none.
    pub fn forms(&self, function: Function) -> Result<BTreeMap<Option<String>, &Value>> {
        let forms = self.definition(function)?["anyOf"].as_array().context("a function has forms")?;
        let message = |form: &Value| form["properties"]["message"]["const"].as_str().map(str::to_owned);
        Ok(forms.iter().map(|form| (message(form), form)).collect())
    }

    /// All names that a query on a function's log may use.
    pub fn fields(&self, function: Function) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for form in self.forms(function)?.into_values() {
            names.extend(self.properties(form)?.into_keys());
        }
        Ok(names)
    }

    /// Checks a line; the answer is the message, or none for a metrics document.
    pub fn check(&self, function: Function, line: &Value) -> Result<Option<String>> {
        let message = line["message"].as_str().map(str::to_owned);
        let forms = self.forms(function)?;
        let form = forms.get(&message).with_context(|| format!("{function} has no form for {line}"))?;
        self.holds(form, line).with_context(|| format!("{function}: {line}"))?;
        if message.is_none() {
            let metrics = &line["_aws"]["CloudWatchMetrics"][0]["Metrics"];
            for metric in metrics.as_array().into_iter().flatten() {
                let name = metric["Name"].as_str().unwrap_or_default();
                let unit = &form["properties"][name]["x-unit"];
                ensure!(*unit == metric["Unit"], "{function}: {name} is in {}, and not in {unit}", metric["Unit"]);
            }
            let names = metrics.as_array().into_iter().flatten().filter_map(|metric| metric["Name"].as_str());
            let measured: BTreeSet<_> = names.collect();
            let numbers = line.as_object().into_iter().flatten().filter(|(_, value)| value.is_number());
            let silent: Vec<_> = numbers.filter(|(name, _)| !measured.contains(name.as_str())).collect();
            ensure!(silent.is_empty(), "{function}: no metrics are made of {silent:?}");
        }
        Ok(message)
    }

    /// The properties of a form, with those of what it refers to.
    fn properties<'a>(&'a self, form: &'a Value) -> Result<BTreeMap<String, &'a Value>> {
        let mut found = BTreeMap::new();
        for part in form["allOf"].as_array().into_iter().flatten() {
            found.extend(self.properties(self.at(part["$ref"].as_str().context("a part is a reference")?)?)?);
        }
        found.extend(form["properties"].as_object().into_iter().flatten().map(|(name, of)| (name.clone(), of)));
        Ok(found)
    }

    fn holds(&self, schema: &Value, value: &Value) -> Result<()> {
        for (keyword, wanted) in schema.as_object().context("a schema is an object")? {
            self.keyword(schema, keyword, wanted, value)?;
        }
        Ok(())
    }

    fn keyword(&self, schema: &Value, keyword: &str, wanted: &Value, value: &Value) -> Result<()> {
        let fields = || value.as_object().with_context(|| format!("{value} is no object"));
        match keyword {
            "$ref" => self.holds(self.at(wanted.as_str().unwrap_or_default())?, value)?,
            "allOf" => {
                for part in wanted.as_array().into_iter().flatten() {
                    self.holds(part, value)?;
                }
            }
            "type" => ensure!(is(wanted, value), "{value} is no {wanted}"),
            "const" => ensure!(value == wanted, "{value} is not {wanted}"),
            "enum" => ensure!(wanted.as_array().is_some_and(|all| all.contains(value)), "{value} is none of {wanted}"),
            "minimum" => ensure!(value.as_f64() >= wanted.as_f64(), "{value} is below {wanted}"),
            "maximum" => ensure!(value.as_f64() <= wanted.as_f64(), "{value} is above {wanted}"),
            "required" => {
                let fields = fields()?;
                let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing: Vec<_> = names.filter(|name| !fields.contains_key(*name)).collect();
                ensure!(missing.is_empty(), "{missing:?} is missing");
            }
            "properties" => self.each(fields()?, |name| wanted.get(name))?,
            "additionalProperties" => self.each(fields()?, |_| Some(wanted))?,
            "unevaluatedProperties" => {
                let known = self.properties(schema)?;
                let unknown: Vec<_> = fields()?.keys().filter(|name| !known.contains_key(*name)).collect();
                ensure!(unknown.is_empty(), "{unknown:?} is not in the schema");
            }
            "items" => {
                for item in value.as_array().with_context(|| format!("{value} is no list"))? {
                    self.holds(wanted, item)?;
                }
            }
            note if NOTES.contains(&note) => {}
            other => bail!("the checker does not know {other}"),
        }
        Ok(())
    }

    fn each<'a>(&self, fields: &Map<String, Value>, schema: impl Fn(&str) -> Option<&'a Value>) -> Result<()> {
        for (name, value) in fields {
            if let Some(schema) = schema(name) {
                self.holds(schema, value).with_context(|| name.clone())?;
            }
        }
        Ok(())
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        _ => false,
    }
}
