//! `infra/contract.json` as `lapse check` uses it.
//!
//! Owns: the fields that are compared. Must not: compare them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The numbers and names of the template.
#[derive(Debug, Clone, Deserialize)]
pub struct Contract {
    /// By name.
    pub functions: BTreeMap<String, FunctionTerms>,
    /// The same for every function that has a queue.
    pub event_source: EventSource,
    /// By name.
    pub queues: BTreeMap<String, QueueTerms>,
    /// A queue's visibility timeout is at least so many timeouts of its function.
    pub visibility_per_timeout: u64,
    /// By name.
    pub tables: BTreeMap<String, TableTerms>,
    /// The names of outputs, and what each belongs to.
    pub outputs: BTreeMap<String, String>,
}

/// A function.
#[derive(Debug, Clone, Deserialize)]
pub struct FunctionTerms {
    /// Seconds.
    pub timeout: u64,
    /// Whether Lambda lets it write to the queue that it reads.
    pub recursive_loop: Option<String>,
    /// What feeds it.
    pub source: Option<Source>,
    /// Invocations at once.
    pub reserved_concurrency: Option<u64>,
    /// How Lambda tries again.
    pub asynchronous_invocation: Option<Asynchronous>,
    /// Set if it is not always there.
    pub condition: Option<String>,
}

/// A function's queue.
#[derive(Debug, Clone, Deserialize)]
pub struct Source {
    /// The queue's name.
    pub queue: String,
    /// Invocations at once.
    pub maximum_concurrency: u64,
}

/// Asynchronous invocations.
#[derive(Debug, Clone, Deserialize)]
pub struct Asynchronous {
    /// After the first.
    pub maximum_retry_attempts: u64,
    /// Seconds.
    pub maximum_event_age: u64,
}

/// Event source mappings.
#[derive(Debug, Clone, Deserialize)]
pub struct EventSource {
    /// Messages.
    pub batch_size: u64,
    /// Seconds.
    pub batching_window: u64,
}

/// A queue.
#[derive(Debug, Clone, Deserialize)]
pub struct QueueTerms {
    /// Seconds.
    pub retention: u64,
    /// Bytes.
    pub maximum_message_size: Option<u64>,
    /// The queue's name.
    pub dead_letter_queue: Option<String>,
    /// Receives before SQS moves a message.
    pub max_receive_count: Option<u64>,
    /// The queues that it takes letters from.
    #[serde(default)]
    pub redrive_sources: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, Deserialize)]
pub struct TableTerms {
    /// The name and the type.
    pub hash: (String, String),
    /// The name and the type.
    pub range: Option<(String, String)>,
    /// The attribute that rows expire by.
    pub ttl: Option<String>,
    /// Set if it is not always there.
    pub condition: Option<String>,
}

impl Contract {
    /// The one that this command was built with.
    pub fn built_in() -> Result<Self> {
        serde_json::from_str(include_str!("../../../contract.json")).context("infra/contract.json does not parse")
    }

    /// The output with the queue's URL, the table's name or the function's name.
    #[must_use]
    pub fn output_of(&self, name: &str, ends: &str) -> Option<&str> {
        let is_it = |(output, of): &(&String, &String)| output.ends_with(ends) && of.as_str() == name;
        self.outputs.iter().find(is_it).map(|(output, _)| output.as_str())
    }
}
