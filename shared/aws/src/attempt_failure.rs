//! CLS-5, CLS-6, CLS-9: which [`Failure`] an error of the HTTP client is.
//!
//! Owns: the one reading of the client's errors, by their types alone. Must not: look into texts, nor decide what a
//! failure means (that is `lapse_policy::classifier`).

use std::error::Error;
use std::io;

use lapse_policy::classifier::Failure;
use lapse_policy::guard::Refusal;
use rustls::pki_types::InvalidDnsNameError;

use crate::excerpt::causes;
use crate::guarded_resolver::Unresolved;
use crate::request_body::Begun;

/// What a refusal of the guard is.
pub(crate) fn of_refusal(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::NotAUrl | Refusal::Scheme | Refusal::Credentials => Failure::InvalidUrl,
        Refusal::Address(_) => Failure::Blocked,
    }
}

/// What it is that the attempt's time ran out before a head came.
pub(crate) fn of_timeout(begun: &Begun) -> Failure {
    if begun.is_set() { Failure::NoAnswer } else { Failure::ConnectTimeout }
}

/// What an error of the client is.
pub(crate) fn of_error(error: &reqwest::Error, begun: &Begun) -> Failure {
    if let Some(unresolved) = find::<Unresolved>(error) {
        return match unresolved {
            Unresolved::Blocked(refusal) => of_refusal(*refusal),
            Unresolved::Empty | Unresolved::Lookup(_) => Failure::Dns,
        };
    }
    if begun.is_set() {
        return Failure::NoAnswer;
    }
    if error.is_builder() {
        return Failure::InvalidUrl;
    }
    if error.is_timeout() {
        return Failure::ConnectTimeout;
    }
    if find::<rustls::Error>(error).is_some() || find::<InvalidDnsNameError>(error).is_some() {
        return Failure::Tls;
    }
    if causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| is_refusal(cause.kind())) {
        return Failure::Refused;
    }
    Failure::Reset
}

fn is_refusal(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    )
}

fn find<T: Error + 'static>(error: &reqwest::Error) -> Option<&T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}
