//! Instants as epoch milliseconds and clock readings as microseconds, with saturating arithmetic.
//!
//! Owns: [`Timestamp`], its RFC 3339 form, and [`Micros`], the unit of the limiter's clocks.
//! Must not: read a clock. Every `now` in this crate is an argument.

use std::fmt;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An instant: milliseconds since the Unix epoch, at most the last one of the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 date-time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date-time such as 2026-11-30T12:00:00Z")]
pub struct NotATimestamp;

impl Timestamp {
    /// The last instant that RFC 3339 can write; a pause until then has no end (CLS-8, DST-2).
    pub const FAR_FUTURE: Self = Self(253_402_300_799_999);
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// An instant from epoch milliseconds; values outside 1970 to 9999 are clamped.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Self {
        if ms < 0 {
            Self::EPOCH
        } else if ms > Self::FAR_FUTURE.0 {
            Self::FAR_FUTURE
        } else {
            Self(ms)
        }
    }

    /// Epoch milliseconds.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Epoch seconds, rounded down: the unit of `webhook-timestamp` and of DynamoDB's TTL.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0 / 1000
    }

    /// The same instant in the unit of the limiter's clocks.
    #[must_use]
    pub const fn micros(self) -> Micros {
        Micros(self.0 * 1000)
    }

    /// Reads an RFC 3339 date-time with any offset; below a millisecond is cut off.
    pub fn parse(text: &str) -> Result<Self, NotATimestamp> {
        let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| NotATimestamp)?;
        let ms = parsed.unix_timestamp_nanos() / 1_000_000;
        let ms = i64::try_from(ms).map_err(|_| NotATimestamp)?;
        if (Self::EPOCH.0..=Self::FAR_FUTURE.0).contains(&ms) { Ok(Self(ms)) } else { Err(NotATimestamp) }
    }

    /// This instant and `span` more.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(millis(span)))
    }

    /// This instant less `span`.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(millis(span)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A span in whole milliseconds, saturating.
#[must_use]
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In range by construction; the fallback is only for the type checker.
        let at = OffsetDateTime::from_unix_timestamp(self.seconds()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second(),
            self.0 % 1000
        )
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// A reading of one of the limiter's clocks, or a span on it, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

impl Micros {
    /// One second.
    pub const SECOND: Self = Self(1_000_000);

    /// A span in microseconds, saturating.
    #[must_use]
    pub fn of(span: Duration) -> Self {
        Self(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
    }

    /// The sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, saturating.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `n` times this, saturating.
    #[must_use]
    pub fn times(self, n: usize) -> Self {
        Self(self.0.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)))
    }

    /// The first millisecond that is not before this reading: a place is never reached early.
    #[must_use]
    pub const fn timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(1000) + (self.0.rem_euclid(1000) > 0) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, text: &str, expected: Option<i64>) {
        assert_eq!(Timestamp::parse(text).ok().map(Timestamp::millis), expected, "{label}");
    }

    #[test]
    fn rfc_3339_is_read_with_any_offset() {
        check("utc", "1970-01-01T00:00:01Z", Some(1000));
        check("milliseconds", "1970-01-01T00:00:00.250Z", Some(250));
        check("below a millisecond is cut off", "1970-01-01T00:00:00.2509Z", Some(250));
        check("offset", "1970-01-01T01:00:00+01:00", Some(0));
        check("last instant", "9999-12-31T23:59:59.999Z", Some(253_402_300_799_999));
        check("before the epoch", "1969-12-31T23:59:59Z", None);
        check("date alone", "2026-11-30", None);
        check("no offset", "2026-11-30T12:00:00", None);
        check("garbage", "soon", None);
        check("empty", "", None);
    }

    #[test]
    fn an_instant_is_written_in_utc_with_milliseconds() {
        let text = "2026-11-30T12:00:00.007Z";
        assert_eq!(Timestamp::parse(text).map(|t| t.to_string()), Ok(text.to_owned()));
        assert_eq!(Timestamp::FAR_FUTURE.to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::FAR_FUTURE.plus(Duration::MAX), Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::EPOCH.minus(Duration::MAX), Timestamp::EPOCH);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::FAR_FUTURE), Duration::ZERO);
        assert_eq!(Micros(i64::MAX).plus(Micros(1)), Micros(i64::MAX));
        assert_eq!(Micros(2).times(usize::MAX), Micros(i64::MAX));
    }

    #[test]
    fn a_reading_between_two_milliseconds_is_the_later_one() {
        assert_eq!(Micros(1_000_001).timestamp(), Timestamp::from_millis(1001));
        assert_eq!(Micros(1_000_000).timestamp(), Timestamp::from_millis(1000));
        assert_eq!(Timestamp::from_millis(7).micros(), Micros(7000));
    }
}
