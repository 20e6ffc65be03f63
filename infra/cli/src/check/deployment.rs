//! A deployed stack as it was read: plain values.
//!
//! Owns: the values that are judged. Must not: read them, nor judge them. What is `None` was not read or is not set:
//! the text of every failed read is in [`Deployment::unread`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A deployed stack.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    /// By the name in the contract; absent if it was not read.
    pub queues: BTreeMap<String, Queue>,
    /// By the name in the contract; absent if it was not read.
    pub functions: BTreeMap<String, Function>,
    /// The mappings by the function's name in the contract; absent if they were not read.
    pub mappings: BTreeMap<String, Vec<Mapping>>,
    /// By the name in the contract; absent if it was not read.
    pub tables: BTreeMap<String, Table>,
    /// The rows of `destinations`; `None` if they were not read.
    pub destinations: Option<BTreeMap<String, Map<String, Value>>>,
    /// Seconds that the oldest due row of `schedule` is overdue; 0 if none is.
    pub overdue: Option<u64>,
    /// What the local emulator does not keep.
    pub dropped: Vec<String>,
    /// What could not be read, and the error.
    pub unread: Vec<(String, String)>,
}

/// A queue.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Its URL.
    pub url: String,
    /// Its ARN.
    pub arn: String,
    /// The attributes by the names of SQS.
    pub attributes: BTreeMap<String, String>,
    /// The age of its oldest message in seconds; `None` if `CloudWatch` has no data.
    pub oldest: Option<u64>,
}

/// A function.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// Seconds.
    pub timeout: u64,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// `Some(None)` if nothing is reserved.
    pub reserved: Option<Option<u64>>,
    /// `Allow` or `Terminate`.
    pub recursive_loop: Option<String>,
    /// Retry attempts and the event's age of asynchronous invocations.
    pub asynchronous: Option<(u64, u64)>,
}

/// An event source mapping.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    /// The ARN of its queue.
    pub source: String,
    /// `Enabled`, `Disabled` or between.
    pub state: String,
    /// Messages in a batch.
    pub batch_size: u64,
    /// Seconds.
    pub window: u64,
    /// Whether the function answers by message.
    pub reports_failures: bool,
    /// How many filters.
    pub filters: usize,
    /// The limit on invocations at once.
    pub maximum_concurrency: Option<u64>,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its name in DynamoDB.
    pub name: String,
    /// The names of its key's attributes.
    pub keys: Vec<String>,
    /// The attribute that rows expire by; `Some(None)` if they do not.
    pub ttl: Option<Option<String>>,
    /// Whether it can be restored to a point in time.
    pub restorable: Option<bool>,
}
