//! The settings of `expiry`, read once.
//!
//! Owns: the names of its environment variables and what each accepts. Must not: read them anywhere else.

use lapse_aws::environment::{Environment, InvalidSetting};

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The table of due events.
    pub schedule_table: String,
    /// Where events go.
    pub deliveries_queue_url: String,
}

impl Config {
    /// Reads them; a missing one is named.
    pub fn read(environment: &Environment<'_>) -> Result<Self, InvalidSetting> {
        Ok(Self {
            schedule_table: environment.required("SCHEDULE_TABLE", "the name of a DynamoDB table")?,
            deliveries_queue_url: environment.required("DELIVERIES_QUEUE_URL", "the URL of an SQS queue")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_variable_is_named() {
        let error = Config::read(&Environment::of(&[("SCHEDULE_TABLE", "t")])).expect_err("missing");
        assert!(error.to_string().contains("DELIVERIES_QUEUE_URL"), "{error}");
        let error = Config::read(&Environment::of(&[("DELIVERIES_QUEUE_URL", "u")])).expect_err("missing");
        assert!(error.to_string().contains("SCHEDULE_TABLE"), "{error}");
    }
}
