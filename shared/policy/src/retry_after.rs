//! RET-1: what a `Retry-After` header asks for.
//!
//! Owns: the one parser of the header's value. It is total: any bytes give a wait or nothing.
//! Must not: read a clock; a date is read against the answer's own `Date`, else against `now`.
//! Source of the forms: RFC 9110 10.2.3 (delay-seconds, HTTP-date) and 5.6.7 (the three dates).

use std::time::{Duration, SystemTime};

use crate::timestamp::Timestamp;

/// A wait of more than this is never scheduled (RET-8); also the longest wait that is told apart.
pub const LONGEST_ASK: Duration = Duration::from_hours(168);

/// The longest valid ask among an answer's headers, or `None` if none is valid (RET-1).
#[expect(clippy::needless_pass_by_value, reason = "an iterator is passed as one")]
pub fn asked<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, now: Timestamp) -> Option<Duration> {
    let named = |name: &'static str| {
        headers
            .clone()
            .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
    };
    let reference = named("date").find_map(http_date).unwrap_or(now);
    named("retry-after").filter_map(|value| wait(value, reference)).max()
}

fn wait(value: &str, reference: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    seconds(value).or_else(|| http_date(value).map(|at| at.since(reference)))
}

/// ASCII digits, perhaps `.` and digits; a fraction is rounded up, too many digits saturate.
fn seconds(value: &str) -> Option<Duration> {
    let (whole, fraction) = value.split_once('.').map_or((value, None), |(w, f)| (w, Some(f)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !fraction.is_none_or(digits) {
        return None;
    }
    let up = fraction.is_some_and(|f| f.bytes().any(|b| b != b'0'));
    let whole = whole.bytes().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(Duration::from_secs(whole.saturating_add(u64::from(up))))
}

fn http_date(value: &str) -> Option<Timestamp> {
    let value = value.trim_matches([' ', '\t']);
    // The parser would take any byte between the day and the time of an RFC 850 date, and any white space around one.
    let hour = value.split_once(':').and_then(|(start, _)| start.rsplit_once(' ')).map(|(_, hour)| hour.len());
    if hour != Some(2) || value.trim().len() != value.len() {
        return None;
    }
    let at = httpdate::parse_http_date(value).ok()?;
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::EPOCH.plus(since_epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-03-01T12:00:00Z";

    #[track_caller]
    fn check(label: &str, headers: &[(&str, &[u8])], expected: Option<u64>) {
        let now = Timestamp::parse(NOW).expect("a valid instant");
        let answer = asked(headers.iter().copied(), now);
        assert_eq!(answer, expected.map(Duration::from_secs), "{label}");
    }

    #[test]
    fn ret_1_seconds() {
        check("whole", &[("Retry-After", b"12")], Some(12));
        check("zero", &[("Retry-After", b"0")], Some(0));
        check("trimmed", &[("Retry-After", b" \t9 ")], Some(9));
        check("fraction goes up", &[("Retry-After", b"6.2")], Some(7));
        check("zero fraction does not", &[("Retry-After", b"6.00")], Some(6));
        check("name in any case", &[("rEtRy-aFtEr", b"3")], Some(3));
        check("leading zeros", &[("Retry-After", b"0012")], Some(12));
        check("saturates", &[("Retry-After", b"99999999999999999999999")], Some(u64::MAX));
    }

    #[test]
    fn ret_1_dates_are_read_against_the_answers_own_clock() {
        let date: &[u8] = b"Sun, 01 Mar 2026 12:00:30 GMT";
        check("against now", &[("Retry-After", date)], Some(30));
        let skewed: &[u8] = b"Sun, 01 Mar 2026 11:59:00 GMT";
        check("against Date", &[("Date", skewed), ("Retry-After", date)], Some(90));
        check("bad Date: now", &[("Date", b"noon"), ("Retry-After", date)], Some(30));
        check("rfc 850", &[("Retry-After", b"Sunday, 01-Mar-26 12:00:30 GMT")], Some(30));
        check("asctime", &[("Retry-After", b"Sun Mar  1 12:00:30 2026")], Some(30));
        check("past asks 0", &[("Retry-After", b"Sun, 01 Mar 2026 11:00:00 GMT")], Some(0));
    }

    #[test]
    fn ret_1_the_longest_valid_one_of_several() {
        check("two", &[("Retry-After", b"5"), ("Retry-After", b"20")], Some(20));
        check("garbage beside", &[("Retry-After", b"soon"), ("Retry-After", b"2")], Some(2));
    }

    #[test]
    fn ret_1_garbage_is_ignored() {
        for garbage in [
            "",
            " ",
            "-5",
            "+5",
            "NaN",
            "inf",
            "1e3",
            "12s",
            "12, 30",
            "0x10",
            "1.",
            ".5",
            "1.2.3",
            "1_000",
            "\u{661}\u{662}",
            "soon",
            "Sun, 01 Mar 2026",
            "1 2",
            "Sunday, 01-Mar-26e12:00:30 GMT",
            "Sunday, 01-Mar-26\t12:00:30 GMT",
            "\nSun, 01 Mar 2026 12:00:30 GMT",
            "Sun, 01 Mar 2026 12:00:30 GMT\n",
            "Mon, 01 Mar 2026 12:00:30 GMT",
            "Sun, 31 Feb 2026 12:00:30 GMT",
        ] {
            check(garbage, &[("Retry-After", garbage.as_bytes())], None);
        }
        check("not UTF-8", &[("Retry-After", b"\xff\xfe")], None);
        check("another header", &[("X-Retry-After", b"9")], None);
        check("absent", &[], None);
    }
}
