//! Conformance vectors: one JSON object in, one out, line by line.
//!
//! Owns: the frame that `explain`, `guard` and their like share, and what becomes of a line that is none.
//! Must not: know what the lines ask.

use std::io::{self, BufRead, Write};

use lapse_policy::config_fields::{Fields, InvalidDestination};
use serde_json::{Map, Value, json};

/// A line that cannot be answered: why, and its name if it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct BadLine {
    name: Option<Value>,
    problem: String,
}

impl BadLine {
    /// The line that is written in the place of an answer.
    #[must_use]
    pub fn line(&self) -> String {
        let mut answer = json!({ "error": self.problem });
        if let Some(name) = &self.name {
            answer["name"] = name.clone();
        }
        answer.to_string()
    }
}

/// Whether every line was answered: the exit code of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// All were.
    Clean,
    /// Some line was none, or asked for something that does not exist.
    Errors,
}

/// Reads a line as an object and answers it; `name` is copied through.
pub fn answer(
    line: &str,
    of: impl FnOnce(Fields<'_>) -> Result<Map<String, Value>, InvalidDestination>,
) -> Result<String, BadLine> {
    let no_object = |problem: String| BadLine { name: None, problem };
    // The parser tells where a line is wrong but never what it says: it may hold a secret (SEC-4).
    let row = match serde_json::from_str(line) {
        Ok(Value::Object(row)) => row,
        Ok(_) => return Err(no_object("no JSON object".to_owned())),
        Err(error) => return Err(no_object(format!("no JSON object: {error}"))),
    };
    let name = row.get("name").cloned();
    match of(Fields::of(&row, "")) {
        Ok(mut answer) => {
            answer.extend(name.map(|name| ("name".to_owned(), name)));
            Ok(Value::Object(answer).to_string())
        }
        Err(invalid) => Err(BadLine { name, problem: invalid.to_string() }),
    }
}

/// Answers every line of `input`, in order; a bad one does not end the run.
pub fn answer_all(
    mut input: impl BufRead,
    mut output: impl Write,
    answer_line: impl Fn(&str) -> Result<String, BadLine>,
) -> io::Result<Run> {
    let mut run = Run::Clean;
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        // A byte that is no UTF-8 is no JSON either: it is told so by the parser.
        let text = String::from_utf8_lossy(&line);
        let answer = answer_line(text.trim_end_matches(['\n', '\r'])).unwrap_or_else(|bad| {
            run = Run::Errors;
            bad.line()
        });
        writeln!(output, "{answer}")?;
        line.clear();
    }
    output.flush()?;
    Ok(run)
}
