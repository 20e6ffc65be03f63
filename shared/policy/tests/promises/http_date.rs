//! RET-1: the three forms of an HTTP-date (RFC 9110 5.6.7), written and read without the crate that is tested.

use lapse_policy::timestamp::Timestamp;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// All spellings of an instant: IMF-fixdate, RFC 850, and asctime with either form of a day before the tenth.
pub(crate) fn forms(at: Timestamp) -> [String; 4] {
    let at = OffsetDateTime::from_unix_timestamp(at.seconds()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let (short, month, day, year) = (&weekday[..3], &month[..3], at.day(), at.year());
    let clock = format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second());
    [
        format!("{short}, {day:02} {month} {year:04} {clock} GMT"),
        format!("{weekday}, {day:02}-{month}-{:02} {clock} GMT", year % 100),
        format!("{short} {month} {day:2} {clock} {year:04}"),
        format!("{short} {month} {day:02} {clock} {year:04}"),
    ]
}

/// The instant that a text spells: the one whose spelling it is, to the letter.
pub(crate) fn read(text: &str) -> Option<Timestamp> {
    let words: Vec<_> = text.split([' ', ',', '-', ':']).filter(|word| !word.is_empty()).collect();
    let ([_, day, month, year, hour, minute, second, "GMT"] | [_, month, day, hour, minute, second, year]) = *words
    else {
        return None;
    };
    let month = (1..=12).filter_map(|n| Month::try_from(n).ok()).find(|m| m.to_string().starts_with(month))?;
    let [hour, minute, second] = [hour, minute, second].map(|part| part.parse().ok());
    let date = Date::from_calendar_date(full_year(year)?, month, day.parse().ok()?).ok()?;
    let at = PrimitiveDateTime::new(date, Time::from_hms(hour?, minute?, second?).ok()?).assume_utc();
    let at = Timestamp::from_millis(at.unix_timestamp().checked_mul(1000).filter(|ms| *ms >= 0)?);
    forms(at).iter().any(|form| form == text).then_some(at)
}

/// Two digits are years from 1970 to 2069.
fn full_year(digits: &str) -> Option<i32> {
    let year: i32 = digits.parse().ok()?;
    Some(match (digits.len(), year) {
        (2, 0..70) => 2000 + year,
        (2, _) => 1900 + year,
        _ => year,
    })
}

#[test]
fn ret_1_the_examples_of_rfc_9110_are_one_instant() {
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(read(text), Some(Timestamp::from_millis(784_111_777_000)), "{text}");
    }
    for text in ["Mon, 06 Nov 1994 08:49:37 GMT", "Tue, 31 Feb 2026 08:49:37 GMT", "Sun, 6 Nov 1994 08:49:37 GMT"] {
        assert_eq!(read(text), None, "{text}");
    }
}
