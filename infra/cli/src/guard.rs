//! `lapse guard --jsonl`: whether a URL may be called, judged by the code that judges in `deliver`.
//!
//! Owns: reading a URL with the addresses that its name has. Must not: judge, nor resolve names.

use std::net::IpAddr;

use lapse_policy::config_fields::{Fields, InvalidDestination};
use lapse_policy::guard::{AllowList, Refusal, Scheme, judge_address, judge_url};
use lapse_policy::reason::Reason;
use serde_json::{Map, Value, json};

use crate::jsonl::{self, BadLine};

/// Answers one line.
pub fn answer_line(line: &str) -> Result<String, BadLine> {
    jsonl::answer(line, |row| judged(&row).map(told))
}

fn judged(row: &Fields<'_>) -> Result<Result<(), Refusal>, InvalidDestination> {
    let url = row.required("url", "a string", Value::as_str)?;
    let scheme = if row.flag("allow_http")? { Scheme::HttpToo } else { Scheme::Https };
    let resolved: Vec<IpAddr> = row.list("resolved", "IP addresses", |v| v.as_str()?.parse().ok())?.unwrap_or_default();
    let ranges = row.list("allow_cidrs", "address ranges such as 10.9.0.0/16", range)?.unwrap_or_default();
    let allowed =
        AllowList::parse(&ranges.join(",")).map_err(|e| row.invalid("allow_cidrs", &format!("cannot be read: {e}")))?;
    // One answer that may not be called is enough (SEC-2).
    let all = |_| resolved.iter().try_for_each(|address| judge_address(*address, &allowed));
    Ok(judge_url(url, scheme, &allowed).and_then(all))
}

fn range(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| AllowList::parse(text).is_ok())
}

fn told(judgement: Result<(), Refusal>) -> Map<String, Value> {
    let mut answer = Map::from_iter([("allowed".to_owned(), json!(judgement.is_ok()))]);
    if let Err(refusal) = judgement {
        let reason = match refusal {
            Refusal::Address(_) => Reason::BlockedAddress,
            Refusal::NotAUrl | Refusal::Scheme | Refusal::Credentials => Reason::InvalidUrl,
        };
        answer.insert("reason".to_owned(), json!(reason));
        answer.insert("detail".to_owned(), json!(refusal.to_string()));
    }
    answer
}
