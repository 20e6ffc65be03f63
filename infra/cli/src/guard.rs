//! `lapse guard`: whether a URL may be called, judged by the code that judges in `deliver`.
//!
//! Owns: reading a URL with the addresses that its name has, and telling the judgement.
//! Must not: judge, nor resolve names.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::guard::{AllowList, Refusal, Scheme, judge_address, judge_url};
use lapse_policy::reason::Reason;
use serde_json::{Map, Value, json};

use crate::columns::aligned;
use crate::commands::{answer_lines, show, usage};
use crate::jsonl::{self, BadLine};

const EXAMPLES: &str = "\
Examples:
  lapse guard https://hooks.example.com/x --resolved 93.184.216.34
  lapse guard https://10.9.8.7/ --allow-cidr 10.9.0.0/16
  lapse guard --jsonl < tests/data/guard.jsonl

Exit codes: 0 it may be called; 1 it may not, or with --jsonl: some line could not be answered; 2 wrong usage.";

/// The command's arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Flags {
    /// The URL.
    #[arg(required_unless_present = "jsonl")]
    url: Option<String>,
    /// An address that the URL's name resolves to; may be repeated. Without one, the form alone is judged.
    #[arg(long, value_name = "IP")]
    resolved: Vec<IpAddr>,
    /// Plain http will do.
    #[arg(long)]
    allow_http: bool,
    /// A range that may be called although it is not public, such as 10.9.0.0/16; may be repeated.
    #[arg(long = "allow-cidr", value_name = "RANGE")]
    ranges: Vec<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Answer vectors: one JSON object a line from standard input, one line for each.
    #[arg(long, exclusive = true)]
    jsonl: bool,
}

/// What is judged: both forms of the command build it.
struct Question<'a> {
    url: &'a str,
    scheme: Scheme,
    resolved: Vec<IpAddr>,
    allowed: AllowList,
}

impl Question<'_> {
    fn judge(&self) -> Result<(), Refusal> {
        judge_url(self.url, self.scheme, &self.allowed)?;
        // One answer that may not be called is enough (SEC-2).
        self.resolved.iter().try_for_each(|address| judge_address(*address, &self.allowed))
    }
}

/// Answers one line.
pub fn answer_line(line: &str) -> Result<String, BadLine> {
    jsonl::answer(line, |row| question(&row).map(|question| told(question.judge())))
}

fn question<'a>(row: &Fields<'a>) -> Result<Question<'a>, InvalidDestination> {
    let ranges = row.list("allow_cidrs", "strings", Value::as_str)?.unwrap_or_default();
    Ok(Question {
        url: row.required("url", "a string", Value::as_str)?,
        scheme: scheme(row.flag("allow_http")?),
        resolved: row.list("resolved", "IP addresses", |v| v.as_str()?.parse().ok())?.unwrap_or_default(),
        allowed: AllowList::parse(&ranges.join(","))
            .map_err(|error| row.invalid("allow_cidrs", &format!("cannot be read: {error}")))?,
    })
}

fn scheme(allow_http: bool) -> Scheme {
    if allow_http { Scheme::HttpToo } else { Scheme::Https }
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<ExitCode> {
    let Some(url) = flags.url else { return answer_lines(answer_line) };
    let allowed =
        AllowList::parse(&flags.ranges.join(",")).map_err(|error| usage(&format!("--allow-cidr: {error}")))?;
    let by_form_alone = flags.resolved.is_empty();
    let question = Question { url: &url, scheme: scheme(flags.allow_http), resolved: flags.resolved, allowed };
    let judgement = question.judge();
    show(flags.json, &Value::Object(told(judgement)), &lines(judgement, by_form_alone))?;
    Ok(if judgement.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn reason(refusal: Refusal) -> (Reason, &'static str) {
    match refusal {
        Refusal::Address(_) => (Reason::BlockedAddress, "SEC-2"),
        Refusal::NotAUrl | Refusal::Scheme | Refusal::Credentials => (Reason::InvalidUrl, "SEC-1"),
    }
}

/// A judgement as an object.
fn told(judgement: Result<(), Refusal>) -> Map<String, Value> {
    let mut answer = Map::from_iter([("allowed".to_owned(), json!(judgement.is_ok()))]);
    if let Err(refusal) = judgement {
        let (reason, rule) = reason(refusal);
        answer.insert("reason".to_owned(), json!(reason));
        answer.insert("detail".to_owned(), json!(refusal.to_string()));
        answer.insert("rule".to_owned(), json!(rule));
    }
    answer
}

/// A judgement for a person. The URL is not repeated: it may carry a credential (SEC-4).
fn lines(judgement: Result<(), Refusal>, by_form_alone: bool) -> Vec<String> {
    let (facts, words) = match judgement {
        Ok(()) if by_form_alone => (
            vec![("decision", "allowed by its form".to_owned())],
            "A name is judged again by every address that it has where the connection is made (SEC-2): give these with --resolved.",
        ),
        Ok(()) => (vec![("decision", "allowed".to_owned())], "The URL and each of the addresses may be called."),
        Err(refusal) => {
            let (reason, rule) = reason(refusal);
            let facts = [("decision", "refused".to_owned()), ("reason", reason.to_string()), ("rule", rule.to_owned())];
            (facts.into_iter().chain([("detail", refusal.to_string())]).collect(), reason.advice())
        }
    };
    let facts: Vec<_> = facts.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    let mut lines = aligned(&facts, 2);
    lines.extend([String::new(), words.to_owned()]);
    lines
}
