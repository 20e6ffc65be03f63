//! RET-1: reading `Retry-After` is total, exact for what is valid, and decides nothing from anything else.

use std::time::Duration;

use lapse_policy::retry_after::asked;
use lapse_policy::timestamp::Timestamp;
use proptest::prelude::*;

use crate::http_date::{forms, read};

type Header = (String, Vec<u8>);

fn ask(headers: &[Header], now: Timestamp) -> Option<Duration> {
    asked(headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())), now)
}

fn retry_after(value: impl Into<Vec<u8>>) -> Header {
    ("Retry-After".to_owned(), value.into())
}

fn date(value: impl Into<Vec<u8>>) -> Header {
    ("Date".to_owned(), value.into())
}

/// The tiny reader that the parser is held to: what one value asks for, if it is one of the forms.
fn expected(value: &[u8], reference: Timestamp) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    let mut parts = text.split('.');
    let (whole, fraction) = (parts.next()?, parts.next());
    let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit()) && !part.is_empty();
    if digits(whole) && fraction.is_none_or(digits) && parts.next().is_none() {
        let significant = whole.trim_start_matches('0');
        let seconds = if significant.is_empty() { 0 } else { significant.parse().unwrap_or(u64::MAX) };
        let up = fraction.is_some_and(|f| !f.trim_end_matches('0').is_empty());
        return Some(Duration::from_secs(seconds.saturating_add(u64::from(up))));
    }
    read(text).map(|at| at.since(reference))
}

/// Instants some months within the years that all three forms can spell (two digits end with 2069), to the millisecond.
fn instants() -> impl Strategy<Value = Timestamp> {
    (1_764_504_000_000..3_145_000_000_000_i64).prop_map(Timestamp::from_millis)
}

/// Whole seconds near `now`, so that waits of all sizes and past dates occur.
fn near(now: Timestamp) -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![-100..100_i64, -10_000_000..10_000_000_i64];
    seconds.prop_map(move |by| Timestamp::from_millis((now.seconds() + by) * 1000))
}

fn spelled(at: Timestamp) -> impl Strategy<Value = String> {
    prop::sample::select(forms(at).to_vec())
}

/// Valid values of every form.
fn valid(now: Timestamp) -> impl Strategy<Value = String> {
    let dates = near(now).prop_flat_map(spelled);
    prop_oneof![3 => "[ \t]{0,2}[0-9]{1,25}(\\.[0-9]{1,5})?[ \t]{0,2}", 4 => dates]
}

/// One byte of a valid value replaced, inserted or left out.
fn mutated(now: Timestamp) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => any::<u8>(), 3 => prop::sample::select(b"0123456789 .,:-+eGMT\t\n".to_vec())];
    (valid(now), any::<prop::sample::Index>(), byte, 0..3_u8).prop_map(|(value, index, byte, how)| {
        let mut value = value.into_bytes();
        let at = index.index(value.len());
        match how {
            0 => value[at] = byte,
            1 => value.insert(at, byte),
            _ => {
                value.remove(at);
            }
        }
        value
    })
}

/// Any headers: names that matter in any case and others, values of any bytes and of near-valid ones.
fn headers(now: Timestamp) -> impl Strategy<Value = Vec<Header>> {
    let name =
        prop::sample::select(vec!["Retry-After", "retry-after", "RETRY-AFTER", "Date", "date", "Retry-After-Ms"]);
    let text = valid(now).prop_map(String::into_bytes);
    let value = prop_oneof![2 => text, 2 => mutated(now), 1 => prop::collection::vec(any::<u8>(), 0..40)];
    prop::collection::vec((name.prop_map(str::to_owned), value), 0..6)
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn ret_1_any_headers_ask_for_the_longest_valid_wait_against_the_first_valid_date(
        (now, headers) in instants().prop_flat_map(|now| (Just(now), headers(now))),
    ) {
        let named = |name: &'static str| headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name));
        let mut dates = named("date").filter_map(|(_, value)| std::str::from_utf8(value).ok());
        let reference = dates.find_map(|text| read(text.trim_matches([' ', '\t']))).unwrap_or(now);
        let longest = named("retry-after").filter_map(|(_, value)| expected(value, reference)).max();
        prop_assert_eq!(ask(&headers, now), longest);
    }

    #[test]
    fn ret_1_seconds_are_exact_a_fraction_goes_up_and_too_many_digits_saturate(
        seconds in prop_oneof![any::<u64>(), 0..1000_u64],
        zeros in 0..4_usize,
        fraction in prop::option::of("[0-9]{1,6}"),
        more in "[0-9]{0,3}",
    ) {
        let written = format!("{}{seconds}", "0".repeat(zeros));
        let part = fraction.as_ref().map_or(String::new(), |f| format!(".{f}"));
        let up = fraction.is_some_and(|f| f.bytes().any(|digit| digit != b'0'));
        let exact = Duration::from_secs(seconds.saturating_add(u64::from(up)));
        let now = Timestamp::EPOCH;
        prop_assert_eq!(ask(&[retry_after(format!("{written}{part}"))], now), Some(exact));
        let saturated = Some(Duration::from_secs(u64::MAX));
        prop_assert_eq!(ask(&[retry_after(format!("{}{more}", u128::MAX))], now), saturated);
    }

    #[test]
    fn ret_1_a_date_in_any_form_is_read_against_the_answers_own_date_or_against_now(
        (now, value, clock, index) in instants().prop_flat_map(|now| (Just(now), near(now), near(now), 0..4_usize)),
    ) {
        for form in forms(value) {
            prop_assert_eq!(ask(&[retry_after(form.clone())], now), Some(value.since(now)), "{}", form);
            let answer = [date(forms(clock)[index].clone()), retry_after(form.clone())];
            prop_assert_eq!(ask(&answer, now), Some(value.since(clock)), "{} at {}", form, clock);
            let [own, asked] = answer;
            prop_assert_eq!(ask(&[asked, own], Timestamp::EPOCH), Some(value.since(clock)), "in either order");
        }
    }

    #[test]
    fn ret_1_a_valid_value_with_one_byte_changed_is_what_it_now_is_or_is_ignored(
        (now, value) in instants().prop_flat_map(|now| (Just(now), mutated(now))),
    ) {
        prop_assert_eq!(ask(&[retry_after(value.clone())], now), expected(&value, now));
    }

    #[test]
    fn ret_1_any_text_is_read_as_one_of_the_forms_or_ignored(value in "\\PC{0,40}|[0-9.eE+, -]{0,30}", now in instants()) {
        prop_assert_eq!(ask(&[retry_after(value.clone())], now), expected(value.as_bytes(), now));
    }

    #[test]
    fn ret_1_the_answer_moves_with_the_clocks(
        (now, value, by) in instants().prop_flat_map(|now| (Just(now), near(now), 0..100_000_i64)),
    ) {
        let later = |at: Timestamp| Timestamp::from_millis(at.millis() + by * 1000);
        let asked = ask(&[retry_after(forms(value)[0].clone())], now);
        prop_assert_eq!(ask(&[retry_after(forms(later(value))[0].clone())], later(now)), asked);
    }
}
