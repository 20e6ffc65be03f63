//! Checked names: the event id, the destination, and the delivery that they make together.
//!
//! Owns: which characters and lengths are allowed.
//! Must not: know where a name came from.

use std::fmt;

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {longest} characters of [{alphabet}]")]
pub struct BadName {
    longest: usize,
    alphabet: &'static str,
}

fn checked(text: &str, extra: &[u8], bad: BadName) -> Result<Box<str>, BadName> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || extra.contains(&b);
    if (1..=bad.longest).contains(&text.len()) && text.bytes().all(allowed) { Ok(text.into()) } else { Err(bad) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $longest:literal, $extra:literal, $alphabet:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks the text.
            pub fn parse(text: &str) -> Result<Self, BadName> {
                let bad = BadName { longest: $longest, alphabet: $alphabet };
                checked(text, $extra, bad).map(Self)
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// `reservation_id:event_version`: one business action; the same on every attempt. No `.`: the
    /// signature scheme joins with it.
    EventId, 128, b"_:-", "A-Za-z0-9_:-"
}

name! {
    /// The name of a receiver: the key of its configuration, its limit and its queue group.
    DestinationName, 64, b"_-", "A-Za-z0-9_-"
}

/// One event for one destination: the ledger's key, written `destination#event_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey {
    /// Who gets it.
    pub destination: DestinationName,
    /// What they get.
    pub id: EventId,
}

impl DeliveryKey {
    /// Reads `destination#event_id`.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let (destination, id) = text.split_once('#').unwrap_or(("", text));
        Ok(Self { destination: DestinationName::parse(destination)?, id: EventId::parse(id)? })
    }

    /// CRC-32 (IEEE) of the written key; shards of every kind are taken from it, in any language.
    #[must_use]
    pub fn crc32(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.destination, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, text: &str, id: bool, destination: bool) {
        assert_eq!(EventId::parse(text).is_ok(), id, "{label}: as an event id");
        assert_eq!(DestinationName::parse(text).is_ok(), destination, "{label}: as a destination");
    }

    #[test]
    fn names_are_checked() {
        check("plain", "catalog", true, true);
        check("event id", "res_8472:3", true, false);
        check("empty", "", false, false);
        check("64", &"a".repeat(64), true, true);
        check("65", &"a".repeat(65), true, false);
        check("128", &"a".repeat(128), true, false);
        check("129", &"a".repeat(129), false, false);
        check("dot", "a.b", false, false);
        check("hash", "a#b", false, false);
        check("space", "a b", false, false);
        check("not ASCII", "caf\u{e9}", false, false);
        check("line feed", "a\n", false, false);
    }

    #[test]
    fn a_delivery_is_written_and_read_back() {
        let key = DeliveryKey::parse("catalog#res_1:3").expect("valid");
        assert_eq!(key.to_string(), "catalog#res_1:3");
        assert_eq!(DeliveryKey::parse(&key.to_string()), Ok(key));
        assert!(DeliveryKey::parse("res_1:3").is_err());
        assert!(DeliveryKey::parse("a#b#c").is_err());
    }

    #[test]
    fn the_checksum_is_crc_32_of_ieee() {
        // The check value of CRC-32/ISO-HDLC is that of "123456789": 0xCBF43926.
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        let key = DeliveryKey::parse("catalog#res_1:3").expect("valid");
        assert_eq!(key.crc32(), crc32fast::hash(b"catalog#res_1:3"));
    }
}
