//! Any headers as those of an answer: what they ask for is bounded, and garbage asks for nothing.
//!
//! Owns: what must hold of [`asked`] for one set of headers (RET-1). Must not: say which values are valid.

use std::time::Duration;

use lapse_policy::retry_after::asked;
use lapse_policy::timestamp::Timestamp;

use crate::header_lines::{self, Line};

const NOW: Timestamp = Timestamp::from_millis(1_796_040_000_000);
/// None of these is a wait or a date, or the name of one.
const GARBAGE: [Header<'static>; 6] = [
    ("Retry-After", b"soon"),
    ("retry-after", b"-1"),
    ("Retry-After", b"\xff"),
    ("X-Retry-After", b"99999"),
    ("Date", b"noon"),
    ("date", b"1"),
];

type Header<'a> = (&'a str, &'a [u8]);

/// Reads the bytes as lines `name: value`.
pub fn check(data: &[u8]) {
    let (lines, _) = header_lines::split(data);
    let headers: Vec<Header<'_>> = lines.into_iter().filter_map(named).collect();
    for now in [Timestamp::EPOCH, NOW, Timestamp::FAR_FUTURE] {
        let wait = ask(&headers, now);
        assert_eq!(ask(&headers, now), wait, "the same headers ask for another wait the second time");
        garbage_never_decides(&headers, now, wait);
        the_longest_of_each_alone(&headers, now, wait);
        each_alone_is_bounded(&headers, now);
    }
}

fn named((name, value): Line<'_>) -> Option<Header<'_>> {
    Some((std::str::from_utf8(name).ok()?, value))
}

fn ask(headers: &[Header<'_>], now: Timestamp) -> Option<Duration> {
    asked(headers.iter().copied(), now)
}

fn is_wait((name, _): &Header<'_>) -> bool {
    name.eq_ignore_ascii_case("retry-after")
}

fn garbage_never_decides(headers: &[Header<'_>], now: Timestamp, wait: Option<Duration>) {
    let before = [&GARBAGE, headers].concat();
    let after = [headers, &GARBAGE].concat();
    assert_eq!(ask(&before, now), wait, "garbage before the headers changed what they ask for");
    assert_eq!(ask(&after, now), wait, "garbage behind the headers changed what they ask for");
    let shouted: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_uppercase(), *value)).collect();
    let shouted: Vec<_> = shouted.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(ask(&shouted, now), wait, "a name's case changed what the headers ask for");
}

/// The order of the waits does not count, and no wait changes another.
fn the_longest_of_each_alone(headers: &[Header<'_>], now: Timestamp, wait: Option<Duration>) {
    let others: Vec<_> = headers.iter().copied().filter(|header| !is_wait(header)).collect();
    assert_eq!(ask(&others, now), None, "without a Retry-After nothing is asked for");
    let alone = |header: &Header<'_>| ask(&[others.as_slice(), &[*header]].concat(), now);
    let longest = headers.iter().filter(|header| is_wait(header)).filter_map(alone).max();
    assert_eq!(wait, longest, "together they ask for another wait than the longest of each alone");
}

/// A number asks for itself, or for a second more where it has a fraction; a date for at most all of time;
/// what has no digit for nothing.
fn each_alone_is_bounded(headers: &[Header<'_>], now: Timestamp) {
    for header in headers.iter().filter(|header| is_wait(header)) {
        let wait = ask(&[*header], now);
        let text = std::str::from_utf8(header.1).unwrap_or_default();
        let text = text.trim_matches([' ', '\t']);
        if let Ok(seconds) = text.parse::<u32>() {
            let expected = (!text.starts_with('+')).then(|| Duration::from_secs(seconds.into()));
            assert_eq!(wait, expected, "{text}");
        } else if !text.bytes().any(|byte| byte.is_ascii_digit()) {
            assert_eq!(wait, None, "{text}");
        } else if text.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            let all_of_time = Timestamp::FAR_FUTURE.since(now);
            assert!(wait.is_none_or(|wait| wait <= all_of_time), "{text}: {wait:?}");
        }
    }
}
