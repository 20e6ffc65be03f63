//! The settings of `deliver`, read once.
//!
//! Owns: the names of its environment variables and what each accepts. Must not: read them anywhere else.

use lapse_aws::environment::{Environment, InvalidSetting};
use lapse_policy::guard::AllowList;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The queue that is worked on.
    pub deliveries_queue_url: String,
    /// Where letters go.
    pub failures_queue_url: String,
    /// The ledger.
    pub deliveries_table: String,
    /// The limiter.
    pub limits_table: String,
    /// The destinations.
    pub destinations_table: String,
    /// The schedule.
    pub schedule_table: String,
    /// Ranges that may be called although they are not public (SEC-2).
    pub allow: AllowList,
}

impl Config {
    /// Reads them; a missing or wrong one is named.
    pub fn read(environment: &Environment<'_>) -> Result<Self, InvalidSetting> {
        let queue = |name| environment.required(name, "the URL of an SQS queue");
        let table = |name| environment.required(name, "the name of a DynamoDB table");
        let ranges = "address ranges separated by commas, such as 10.9.0.0/16";
        Ok(Self {
            deliveries_queue_url: queue("DELIVERIES_QUEUE_URL")?,
            failures_queue_url: queue("FAILURES_QUEUE_URL")?,
            deliveries_table: table("DELIVERIES_TABLE")?,
            limits_table: table("LIMITS_TABLE")?,
            destinations_table: table("DESTINATIONS_TABLE")?,
            schedule_table: table("SCHEDULE_TABLE")?,
            allow: environment
                .read("ALLOW_CIDRS", ranges, |text| AllowList::parse(text).map_err(|e| e.to_string()))?
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 6] = [
        ("DELIVERIES_QUEUE_URL", "u"),
        ("FAILURES_QUEUE_URL", "u"),
        ("DELIVERIES_TABLE", "t"),
        ("LIMITS_TABLE", "t"),
        ("DESTINATIONS_TABLE", "t"),
        ("SCHEDULE_TABLE", "t"),
    ];

    #[test]
    fn each_missing_variable_is_named() {
        assert!(Config::read(&Environment::of(&ALL)).is_ok());
        for (missing, _) in ALL {
            let rest: Vec<_> = ALL.into_iter().filter(|(name, _)| *name != missing).collect();
            let error = Config::read(&Environment::of(&rest)).expect_err(missing);
            assert!(error.to_string().contains(missing), "{error}");
        }
        let mut wrong = ALL.to_vec();
        wrong.push(("ALLOW_CIDRS", "10.9/16"));
        let error = Config::read(&Environment::of(&wrong)).expect_err("no range");
        assert!(error.to_string().contains("ALLOW_CIDRS"), "{error}");
    }
}
