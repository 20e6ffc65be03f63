//! The settings of `triage`, read once.
//!
//! Owns: the names of its environment variables and what each accepts. Must not: read them anywhere else.

use std::time::Duration;

use lapse_aws::environment::{Environment, InvalidSetting};
use lapse_policy::triage::REDRIVE_AFTER;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The queue that is triaged.
    pub failures_queue_url: String,
    /// Where redriven letters go.
    pub deliveries_queue_url: String,
    /// The ledger.
    pub deliveries_table: String,
    /// A letter sent this much after its death was redriven (DLQ-2).
    pub redrive_after: Duration,
}

impl Config {
    /// Reads them; a missing or wrong one is named.
    pub fn read(environment: &Environment<'_>) -> Result<Self, InvalidSetting> {
        let queue = |name| environment.required(name, "the URL of an SQS queue");
        let seconds =
            environment.parsed("REDRIVE_AFTER_SECONDS", "a whole number of seconds", REDRIVE_AFTER.as_secs())?;
        Ok(Self {
            failures_queue_url: queue("FAILURES_QUEUE_URL")?,
            deliveries_queue_url: queue("DELIVERIES_QUEUE_URL")?,
            deliveries_table: environment.required("DELIVERIES_TABLE", "the name of a DynamoDB table")?,
            redrive_after: Duration::from_secs(seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 3] =
        [("FAILURES_QUEUE_URL", "f"), ("DELIVERIES_QUEUE_URL", "d"), ("DELIVERIES_TABLE", "t")];

    #[test]
    fn each_missing_variable_is_named() {
        let config = Config::read(&Environment::of(&ALL)).expect("complete");
        assert_eq!(config.redrive_after, REDRIVE_AFTER);
        for (missing, _) in ALL {
            let rest: Vec<_> = ALL.into_iter().filter(|(name, _)| *name != missing).collect();
            let error = Config::read(&Environment::of(&rest)).expect_err(missing);
            assert!(error.to_string().contains(missing), "{error}");
        }
        let mut wrong = ALL.to_vec();
        wrong.push(("REDRIVE_AFTER_SECONDS", "soon"));
        let error = Config::read(&Environment::of(&wrong)).expect_err("no number");
        assert!(error.to_string().contains("REDRIVE_AFTER_SECONDS"), "{error}");
    }
}
