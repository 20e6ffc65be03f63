//! The AWS clients of a function: one HTTP client, one TLS provider, timeouts that fit an invocation.
//!
//! Owns: how the SDK is set up. Must not: be called more than once per process; clients are shared.

use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::{Builder, tls};

/// One operation with its retries (ACK-4 counts on it).
pub const OPERATION_TIMEOUT: Duration = Duration::from_millis(1500);
/// One try of an operation.
const TRY_TIMEOUT: Duration = Duration::from_millis(700);
/// A connection inside a region takes a few milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The configuration that every client is made from: region, credentials and endpoint by the usual AWS means.
pub async fn sdk_config() -> SdkConfig {
    let timeouts = TimeoutConfig::builder()
        .operation_timeout(OPERATION_TIMEOUT)
        .operation_attempt_timeout(TRY_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT)
        .build();
    let ring = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(Builder::new().tls_provider(ring).build_https())
        .timeout_config(timeouts)
        .load()
        .await
}
