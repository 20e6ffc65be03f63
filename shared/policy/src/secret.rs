//! SEC-4: a signing secret that cannot be printed.
//!
//! Owns: the form `whsec_<base64>` of Standard Webhooks, 24 to 64 bytes. Must not: sign (that is an adapter's).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A live signing secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is no secret. It does not say which, so that it can be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret must be whsec_ and the base64 of 24 to 64 bytes")]
pub struct InvalidSecret;

impl Secret {
    /// Reads `whsec_<base64>`.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix("whsec_").ok_or(InvalidSecret)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| InvalidSecret)?;
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(InvalidSecret) }
    }

    /// The key of the HMAC.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsec_***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, bytes: usize, valid: bool) {
        let text = format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        let secret = Secret::parse(&text);
        assert_eq!(secret.is_ok(), valid, "{label}");
        if let Ok(secret) = secret {
            assert_eq!(secret.bytes(), vec![7; bytes]);
            assert_eq!(format!("{secret:?}"), "whsec_***");
        }
    }

    #[test]
    fn sec_4_length_and_form() {
        check("shortest", 24, true);
        check("longest", 64, true);
        check("too short", 23, false);
        check("too long", 65, false);
        // 25 bytes, whose letters are valid behind the prefix: each text is wrong in its form alone.
        let letters = STANDARD.encode([0xfb; 25]);
        let url_safe = letters.replace('+', "-").replace('/', "_");
        assert_ne!(url_safe, letters, "there are letters that differ");
        for (label, text) in [
            ("empty", String::new()),
            ("a prefix alone", "whsec_".to_owned()),
            ("no prefix", letters.clone()),
            ("a prefix in capitals", format!("WHSEC_{letters}")),
            ("a public key's prefix", format!("whpk_{letters}")),
            ("no base64", format!("whsec_{letters}!")),
            ("the alphabet of URLs", format!("whsec_{url_safe}")),
            ("without padding", format!("whsec_{}", letters.trim_end_matches('='))),
            ("a line's end", format!("whsec_{letters}\n")),
            ("a space before it", format!(" whsec_{letters}")),
        ] {
            let error = Secret::parse(&text).expect_err(label);
            assert!(!format!("{error} {error:?}").contains(&letters), "{label}: it is not shown");
        }
    }
}
