//! SEC-4: what a request carries beside the payload: our own headers' names, and the rules for a destination's.
//!
//! Owns: the names that a destination may not set, and the check of its own headers: what exists as a
//! [`CustomHeader`] cannot change how a request is framed, routed or signed. Must not: build requests.

use std::collections::BTreeSet;

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
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    // The payload goes out as it is (I2): a receiver that undid a coding would find none.
    "content-encoding",
    // The answer is read after decompression (SEC-3): which codings are offered is ours to say.
    "accept-encoding",
];

/// Families of names, of which none is free: what may yet be ours, and what is between us and a proxy.
const FAMILIES: &[&str] = &["webhook-", "proxy-"];

/// The most headers of its own that a destination may have.
const MAX_HEADERS: usize = 32;
/// The longest name of one.
const MAX_NAME: usize = 128;
/// The longest value of one.
const MAX_VALUE: usize = 1024;
/// All names and values together. Common servers refuse a head of more than 8 KiB, and ours takes less than 1 KiB.
const MAX_TOTAL: usize = 6 * 1024;

/// A header of a destination's own. Its value may be a credential, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomHeader {
    name: String,
    value: String,
}

impl CustomHeader {
    /// The name, in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value: visible ASCII and spaces.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl std::fmt::Debug for CustomHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// Reads the field `headers` of a destination.
pub fn parse(row: &Fields<'_>) -> Result<Vec<CustomHeader>, InvalidDestination> {
    let given = row.texts("headers")?;
    if given.len() > MAX_HEADERS {
        return Err(row.invalid("headers", &format!("must have at most {MAX_HEADERS} entries")));
    }
    if given.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_TOTAL {
        return Err(row.invalid("headers", &format!("must have at most {MAX_TOTAL} bytes of names and values")));
    }
    let mut names = BTreeSet::new();
    let mut headers = Vec::new();
    for (name, value) in given {
        let header =
            check(name, value).map_err(|problem| row.invalid("headers", &format!("has {name:?}, which {problem}")))?;
        if !names.insert(header.name.clone()) {
            // Keys that differ in case are one header, and neither value is the right one.
            return Err(row.invalid("headers", &format!("has {name:?} twice")));
        }
        headers.push(header);
    }
    Ok(headers)
}

fn check(name: &str, value: &str) -> Result<CustomHeader, &'static str> {
    let lower = name.to_ascii_lowercase();
    if !is_token(name) {
        Err("is no header name (RFC 9110 5.1)")
    } else if OURS.contains(&lower.as_str()) {
        Err("is one of our own headers")
    } else if FRAMING.contains(&lower.as_str()) {
        Err("is a hop-by-hop or framing header")
    } else if FAMILIES.iter().any(|family| lower.starts_with(family)) {
        Err("begins as our own or a proxy's headers do")
    } else if value.len() > MAX_VALUE || !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        Err("needs a value of at most 1024 visible ASCII characters and spaces")
    } else {
        Ok(CustomHeader { name: lower, value: value.to_owned() })
    }
}

fn is_token(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value, json};

    fn read(headers: Value) -> Result<Vec<CustomHeader>, InvalidDestination> {
        let row = Map::from_iter([("headers".to_owned(), headers)]);
        parse(&Fields::of(&row, ""))
    }

    #[track_caller]
    fn check_refused(label: &str, name: &str, value: &str) {
        let error = read(json!({name: value})).expect_err(label);
        assert_eq!(error.field, "headers", "{label}");
        assert!(error.problem.contains(&format!("{name:?}")), "{label}: it is named: {error}");
        assert!(value.is_empty() || !error.problem.contains(value), "{label}: SEC-4: no value is shown: {error}");
    }

    #[test]
    fn a_destinations_own_headers() {
        let headers = read(json!({"Authorization": "Bearer x=", "X-Team": "studio 7", "x_1!": ""})).expect("allowed");
        let pairs: Vec<_> = headers.iter().map(|header| (header.name(), header.value())).collect();
        assert_eq!(pairs, [("authorization", "Bearer x="), ("x-team", "studio 7"), ("x_1!", "")]);
        assert!(!format!("{headers:?}").contains("Bearer"), "SEC-4: it may be a credential");
        assert_eq!(read(json!({})), Ok(Vec::new()));
    }

    #[test]
    fn sec_4_no_header_of_a_destination_overrides_ours_or_those_of_framing() {
        // Each by its name, so that a name which leaves the lists above is missed here.
        for name in [
            "content-type",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "webhook-attempt",
            "webhook-anything",
            "idempotency-key",
            "user-agent",
            "accept-encoding",
            "connection",
            "content-encoding",
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
        ] {
            check_refused(name, name, "secret");
            check_refused("in capitals", &name.to_uppercase(), "secret");
        }
        for near in ["content-language", "x-webhook-id", "hosts", "te2", "accept", "forwarded"] {
            assert!(read(json!({near: "x"})).is_ok(), "{near}");
        }
    }

    #[test]
    fn sec_4_what_could_split_a_request_is_refused() {
        for (label, name) in [
            ("a space", "x a"),
            ("none", ""),
            ("a colon", "x-a:"),
            ("a pseudo-header", ":authority"),
            ("a line", "x-a\r\nhost"),
            ("a null", "x\0a"),
            ("not ASCII", "x-\u{e9}"),
            ("full-width letters of a name of ours", "\u{ff48}ost"),
        ] {
            check_refused(label, name, "secret");
        }
        for (label, value) in [
            ("CR and LF", "1\r\nhost: evil"),
            ("LF alone", "1\nhost: evil"),
            ("CR alone", "1\rhost: evil"),
            ("a null", "1\0"),
            ("a tab", "\t"),
            ("delete", "\u{7f}"),
            ("Latin-1", "caf\u{e9}"),
            ("a letter whose last byte is LF", "\u{10a}"),
        ] {
            check_refused(label, "x-a", value);
        }
    }

    #[test]
    fn the_headers_of_a_destination_are_bounded() {
        let name = "n".repeat(MAX_NAME);
        assert!(read(json!({&name: "v".repeat(MAX_VALUE)})).is_ok());
        check_refused("a longer name", &format!("{name}n"), "secret");
        check_refused("a longer value", "x", &"v".repeat(MAX_VALUE + 1));
        let many = |count: usize, length: usize| -> Value {
            (0..count).map(|n| (format!("x-{n:02}"), Value::from("v".repeat(length)))).collect::<Map<_, _>>().into()
        };
        assert_eq!(read(many(MAX_HEADERS, 1)).expect("allowed").len(), MAX_HEADERS);
        let refused = |headers| read(headers).expect_err("too much").problem;
        assert_eq!(refused(many(MAX_HEADERS + 1, 1)), "must have at most 32 entries");
        // 6 x (4 + 1020) is the most, and one byte more is more.
        assert!(read(many(6, 1020)).is_ok());
        assert_eq!(refused(many(6, 1021)), "must have at most 6144 bytes of names and values");
    }

    #[test]
    fn a_header_that_is_given_twice_has_no_right_value() {
        let error = read(json!({"X-Team": "studio", "x-team": "theatre"})).expect_err("twice");
        assert_eq!(error.to_string(), "headers has \"x-team\" twice");
    }
}
