//! A JSON object's members in their own order and their own bytes.
//!
//! Owns: reading an object without understanding it, and writing it back with a member changed.
//! Must not: touch the bytes of a value that it does not replace.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of one JSON object.
#[derive(Debug, Clone)]
pub struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads a text that is one JSON object; the error is that of the JSON parser, and shows nothing of the text.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        let mut parser = serde_json::Deserializer::from_str(text);
        let members = parser.deserialize_map(Collect).map_err(without_the_value)?;
        parser.end()?;
        Ok(members)
    }

    /// The value of a member, `None` if it is absent; a name given twice is an error.
    pub fn get(&self, name: &'static str) -> Result<Option<&'a RawValue>, serde_json::Error> {
        let mut values = self.0.iter().filter(|(n, _)| n == name).map(|(_, value)| *value);
        let value = values.next();
        if values.next().is_some() {
            return Err(de::Error::duplicate_field(name));
        }
        Ok(value)
    }

    /// Whether there are no members but these.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> bool {
        self.0.iter().all(|(n, _)| names.contains(&n.as_str()))
    }

    /// The object with `name` set to `value`: an older one is dropped, all other bytes stay.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> String {
        let kept = self.0.iter().filter(|(n, _)| n != name);
        let size: usize = self.0.iter().map(|(n, v)| n.len() + v.get().len() + 8).sum();
        let mut text = String::with_capacity(size + name.len() + value.len() + 8);
        text.push('{');
        for (name, value) in kept {
            text.push_str(&quoted(name));
            text.push(':');
            text.push_str(value.get());
            text.push(',');
        }
        text.push_str(&quoted(name));
        text.push(':');
        text.push_str(value);
        text.push('}');
        text
    }
}

/// The parser repeats a value that it did not expect, and a whole event in a JSON string is one. Errors are logged
/// (OBS-4), and a letter that has one must not be twice the body.
fn without_the_value(error: serde_json::Error) -> serde_json::Error {
    if error.is_data() { de::Error::custom("it is another JSON value") } else { error }
}

/// A JSON string.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, text: &str, expected: &str) {
        let members = Members::parse(text).expect("an object");
        assert_eq!(members.with("dead", "1"), expected, "{label}");
    }

    #[test]
    fn values_keep_their_bytes_when_a_member_is_set() {
        check("number forms", r#"{"a": 1.0e+2, "b":0.10}"#, r#"{"a":1.0e+2,"b":0.10,"dead":1}"#);
        check("inner white space", "{\"a\": { \"x\" :\t1 } }", "{\"a\":{ \"x\" :\t1 },\"dead\":1}");
        check("escapes", r#"{"a":"\u00e9\/"}"#, r#"{"a":"\u00e9\/","dead":1}"#);
        check("replaced", r#"{"dead":{"x":1},"a":2,"dead":3}"#, r#"{"a":2,"dead":1}"#);
        check("empty", "{}", r#"{"dead":1}"#);
        check("odd name", r#"{"a\"b":1}"#, r#"{"a\"b":1,"dead":1}"#);
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["", "null", "[1]", "\"x\"", "{", "{}x", "{\"a\":}", "{} {}"] {
            assert!(Members::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_these_members_means_no_other_one() {
        let members = Members::parse(r#"{"a":1,"b":2}"#).expect("an object");
        assert!(members.only(&["b", "a", "c"]));
        assert!(!members.only(&["a"]));
    }

    #[test]
    fn obs_4_an_error_shows_nothing_of_the_text() {
        for text in [r#""secret""#, r#"["secret"]"#, r#"{"secret"}"#, r#"{"a":secret}"#, r#"{} "secret""#, "secret"] {
            let error = Members::parse(text).expect_err(text).to_string();
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn a_member_given_twice_is_an_error() {
        let members = Members::parse(r#"{"a":1,"a":2,"b":3}"#).expect("an object");
        assert!(members.get("a").is_err());
        assert_eq!(members.get("b").expect("once").map(RawValue::get), Some("3"));
        assert!(members.get("c").expect("absent").is_none());
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = Members::parse(&text);
    }
}
