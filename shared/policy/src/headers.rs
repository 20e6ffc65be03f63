//! What a request carries beside the payload: our own headers' names, and the rules for a destination's.
//!
//! Owns: the names that a destination may not set, and the check of its own headers.
//! Must not: build requests.

use crate::config_fields::{Fields, InvalidDestination};

/// Ours: what the receiver relies on.
pub const OURS: &[&str] = &[
    "content-type",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "webhook-attempt",
    "idempotency-key",
    "user-agent",
];

/// Hop-by-hop and framing headers (RFC 9110 7.6.1, RFC 9112 6): the HTTP client's alone.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // The answer is read after decompression (SEC-3): which codings are offered is ours to say.
    "accept-encoding",
];

/// The most headers of its own that a destination may have.
const MAX_HEADERS: usize = 32;
/// The longest value of one.
const MAX_VALUE: usize = 1024;

/// A header of a destination's own. Its value may be a credential, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomHeader {
    /// In lower case.
    pub name: String,
    /// Visible ASCII and spaces.
    pub value: String,
}

impl std::fmt::Debug for CustomHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// Reads the field `headers` of a destination.
pub fn parse(row: &Fields<'_>) -> Result<Vec<CustomHeader>, InvalidDestination> {
    let headers = row.texts("headers")?;
    if headers.len() > MAX_HEADERS {
        return Err(row.invalid("headers", &format!("must have at most {MAX_HEADERS} entries")));
    }
    headers
        .into_iter()
        .map(|(name, value)| {
            check(name, value).map_err(|problem| row.invalid("headers", &format!("has {name:?}, which {problem}")))
        })
        .collect()
}

fn check(name: &str, value: &str) -> Result<CustomHeader, &'static str> {
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        Err("is no header name (RFC 9110 5.1)")
    } else if OURS.contains(&lower.as_str()) {
        Err("is one of our own headers")
    } else if FRAMING.contains(&lower.as_str()) {
        Err("is a hop-by-hop or framing header")
    } else if value.len() > MAX_VALUE || !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        Err("needs a value of at most 1024 visible ASCII characters and spaces")
    } else {
        Ok(CustomHeader { name: lower, value: value.to_owned() })
    }
}

fn is_token(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(name: &str, value: &str) {
        assert!(check(name, value).is_err(), "{name:?}: {value:?}");
    }

    #[test]
    fn a_destinations_own_headers() {
        let header = check("X-Team", "studio 7").expect("allowed");
        assert_eq!((header.name.as_str(), header.value.as_str()), ("x-team", "studio 7"));
        assert!(!format!("{header:?}").contains("studio"), "SEC-4: it may be a credential");
        assert!(check("Authorization", "Bearer x").is_ok());
    }

    #[test]
    fn ours_and_framing_headers_are_refused() {
        for name in OURS.iter().chain(FRAMING) {
            check_refused(name, "x");
            check_refused(&name.to_uppercase(), "x");
        }
    }

    #[test]
    fn what_could_split_a_header_is_refused() {
        check_refused("x-a", "1\r\nhost: evil");
        check_refused("x-a", "caf\u{e9}");
        check_refused("x-a", "\t");
        check_refused("x a", "1");
        check_refused("", "1");
        check_refused("x-a:", "1");
        check_refused("x-a", &"v".repeat(1025));
    }
}
