//! The receiver's settings, read once from the environment.
//!
//! Owns: which variables there are and what each accepts. Must not: be read after the start.

use lapse_aws::environment::{Environment, InvalidSetting};
use lapse_policy::secret::Secret;

/// More live secrets than a rotation ever needs are a mistake, and each costs an HMAC per request.
const MOST_SECRETS: usize = 4;
const TABLE: &str = "the name of the table of reservations";
const SECRETS: &str = "1 to 4 live secrets, comma separated, each whsec_ and the base64 of 24 to 64 bytes";

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The table `reservations`.
    pub table: String,
    /// The secrets that a signature may be made with; two while they are rotated.
    pub secrets: Vec<Secret>,
}

impl Config {
    /// Reads `RESERVATIONS_TABLE` and `RECEIVER_SECRETS`.
    pub fn read(environment: &Environment<'_>) -> Result<Self, InvalidSetting> {
        let table = environment.required("RESERVATIONS_TABLE", TABLE)?;
        environment.required("RECEIVER_SECRETS", SECRETS)?;
        let secrets = environment.read("RECEIVER_SECRETS", SECRETS, secrets)?.unwrap_or_default();
        Ok(Self { table, secrets })
    }
}

fn secrets(text: &str) -> Result<Vec<Secret>, String> {
    let secrets: Result<Vec<_>, _> = text.split(',').map(|one| Secret::parse(one.trim())).collect();
    let secrets = secrets.map_err(|e| e.to_string())?;
    if secrets.len() > MOST_SECRETS {
        return Err(format!("{} secrets", secrets.len()));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "whsec_bGFwc2UtbG9jYWwtc3RhY2stbm90LWEtc2VjcmV0";

    #[track_caller]
    fn check(label: &str, secrets: &str, expected: Result<usize, &str>) {
        let pairs = [("RESERVATIONS_TABLE", "reservations"), ("RECEIVER_SECRETS", secrets)];
        match (Config::read(&Environment::of(&pairs)), expected) {
            (Ok(config), Ok(count)) => assert_eq!(config.secrets.len(), count, "{label}"),
            (Err(error), Err(words)) => {
                let error = error.to_string();
                assert!(error.contains("RECEIVER_SECRETS") && error.contains(words), "{label}: {error}");
                assert!(!error.contains("bGFw"), "{label}: SEC-4: a secret is never shown: {error}");
            }
            (read, expected) => panic!("{label}: {read:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn sec_4_one_to_four_secrets_are_accepted() {
        check("one", ONE, Ok(1));
        check("two while rotating", &format!("{ONE},{ONE}"), Ok(2));
        check("with a space", &format!("{ONE}, {ONE}"), Ok(2));
        check("four", &[ONE; 4].join(","), Ok(4));
        check("five", &[ONE; 5].join(","), Err("5 secrets"));
        check("none", "", Err("is empty"));
        check("one is no secret", &format!("{ONE},bGFw"), Err("whsec_"));
        check("a trailing comma", &format!("{ONE},"), Err("whsec_"));
    }

    #[test]
    fn a_missing_table_is_named() {
        let error = Config::read(&Environment::of(&[("RECEIVER_SECRETS", ONE)])).expect_err("no table");
        assert!(error.to_string().contains("RESERVATIONS_TABLE is not set"), "{error}");
    }
}
