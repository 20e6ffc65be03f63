//! An SDK error as the ports tell it: the operation and every cause.
//!
//! Owns: that conversion. Must not: judge by texts; adapters match on error types first.

use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use lapse_policy::ports::Unavailable;

/// The error of an operation that could not be carried out, or whose outcome is not known.
pub fn unavailable<E, R>(operation: &'static str, error: &SdkError<E, R>) -> Unavailable
where
    E: std::error::Error + 'static,
    R: std::fmt::Debug,
{
    Unavailable { operation, cause: DisplayErrorContext(error).to_string() }
}
