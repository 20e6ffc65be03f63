//! What a measurement came to: a table for a person, numbers for a program, and the targets that were missed.
//!
//! Owns: the form of both on standard output. Must not: measure or judge.

use std::io::Write as _;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::machine::Machine;

/// What a measurement came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// For a person.
    pub table: Table,
    /// For a program: the measurement's own members of the JSON object.
    pub numbers: Map<String, Value>,
    /// Targets that were missed, a sentence each.
    pub missed: Vec<String>,
}

impl Report {
    /// Prints the table, the machine, and what was missed.
    pub fn print(&self, name: &str, machine: &Machine) -> Result<()> {
        print("")?;
        for line in self.table.lines() {
            print(&line)?;
        }
        print("")?;
        print(&format!("{name} on {machine}"))?;
        for missed in &self.missed {
            print(&format!("MISSED {missed}"))?;
        }
        Ok(())
    }

    /// Prints one line of JSON.
    pub fn print_json(&self, name: &str, machine: &Machine) -> Result<()> {
        let mut object = Map::from_iter([
            ("perf".to_owned(), json!(name)),
            ("machine".to_owned(), serde_json::to_value(machine)?),
            ("missed".to_owned(), json!(self.missed)),
        ]);
        object.extend(self.numbers.clone());
        print(&Value::Object(object).to_string())
    }
}

/// Columns: the first is a name and stands left, the others are numbers and stand right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these heads.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    /// One row more.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| self.rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
        let widths: Vec<_> = (0..columns).map(width).collect();
        self.rows.iter().map(move |row| {
            let cell = |(i, (cell, width)): (usize, (&String, &usize))| {
                if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            };
            row.iter().zip(&widths).enumerate().map(cell).collect::<Vec<_>>().join("  ")
        })
    }
}

pub(super) fn print(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_its_numbers_on_the_right() {
        let mut table = Table::new(&["name", "count"]);
        table.push(vec!["a longer one".to_owned(), "7".to_owned()]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines, ["name          count", "a longer one      7"]);
    }
}
