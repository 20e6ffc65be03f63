//! RET-1 to RET-9: the promises of the retry rules, over generated outcomes, policies, clocks and header bytes.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::FileFailurePersistence;

mod decision;
mod http_date;
mod retry_after;
mod retry_policy;

/// The usual number of cases, or `PROPTEST_CASES`; what fails is kept beside its file.
fn config() -> ProptestConfig {
    let beside = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { failure_persistence: Some(Box::new(beside)), ..ProptestConfig::default() }
}
