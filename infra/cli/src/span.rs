//! Time as a person reads and writes it.
//!
//! Owns: spans in words, and instants on the command line. Must not: read a clock.

use std::time::Duration;

use lapse_policy::timestamp::Timestamp;

/// The units of a span, with their lengths in seconds.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// A span to the millisecond: `2 h 5 min 12.5 s`.
#[must_use]
pub fn words(span: Duration) -> String {
    let seconds = span.as_secs();
    let whole = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min")];
    let mut parts: Vec<_> = whole.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect();
    let rest = seconds % 60;
    match span.subsec_millis() {
        0 if rest == 0 && !parts.is_empty() => {}
        0 => parts.push(format!("{rest} s")),
        ms => parts.push(format!("{} s", format!("{rest}.{ms:03}").trim_end_matches('0'))),
    }
    parts.join(" ")
}

/// A span as one reads it at a glance: its largest two units, to the second.
#[must_use]
pub fn rough(span: Duration) -> String {
    let coarse = match span.as_secs() {
        0..3600 => span.as_secs(),
        3600..86_400 => span.as_secs() / 60 * 60,
        seconds => seconds / 3600 * 3600,
    };
    words(Duration::from_secs(coarse))
}

/// An instant, or one that is counted from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// This one.
    At(Timestamp),
    /// So much after now.
    In(Duration),
}

impl When {
    /// Reads an RFC 3339 date-time, or `+` with a whole number and a unit.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const ACCEPTED: &str = "must be an RFC 3339 date-time such as 2026-11-30T12:00:00Z, or a time from now such as +30s, +20m, +2h or +7d";
        match text.strip_prefix('+') {
            Some(span) => from_now(span).map(Self::In).ok_or(ACCEPTED),
            None => Timestamp::parse(text).map(Self::At).map_err(|_| ACCEPTED),
        }
    }

    /// The instant itself.
    #[must_use]
    pub fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(span) => now.plus(span),
        }
    }
}

fn from_now(text: &str) -> Option<Duration> {
    let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let digits = text.strip_suffix(unit)?;
    // `parse` alone would take a second plus sign.
    let number: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_to_the_millisecond() {
        for (ms, expected) in [
            (0, "0 s"),
            (7, "0.007 s"),
            (12_500, "12.5 s"),
            (60_000, "1 min"),
            (126_040, "2 min 6.04 s"),
            (3_600_000, "1 h"),
            (86_400_000 + 7_500_000, "1 d 2 h 5 min"),
        ] {
            assert_eq!(words(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn an_instant_is_absolute_or_counted_from_now() {
        let now = Timestamp::from_millis(1_000_000_000_000);
        let seconds = |text: &str| When::parse(text).map(|when| when.seen_from(now).since(now).as_secs());
        for (text, expected) in [("+0s", 0), ("+30s", 30), ("+20m", 1200), ("+2h", 7200), ("+7d", 604_800)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        assert_eq!(seconds("2001-09-09T01:46:41Z"), Ok(1));
        for wrong in ["", "+", "+s", "20m", "+20", "++2s", "+-2s", "+1.5h", "+2 h", "+99999999999999999999s", "soon"] {
            assert!(When::parse(wrong).is_err(), "{wrong}");
        }
        assert!(When::parse("+9999999999999999d").is_err(), "too long for any clock");
    }
}
