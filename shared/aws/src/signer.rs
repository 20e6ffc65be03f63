//! SEC-4, RCV-1: signing and verifying by Standard Webhooks, scheme `v1`.
//!
//! Owns: the signed text, the header's form, the tolerance of time. Must not: read a clock, nor print a secret.
//! Source: the Standard Webhooks specification, "Signature scheme" (`v1`: HMAC-SHA256 of `id.timestamp.body`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use lapse_policy::secret::Secret;
use sha2::Sha256;

/// How far a request's timestamp may be from the verifier's clock, in seconds (RCV-1).
pub const TOLERANCE_S: u64 = 300;
/// The mark of the symmetric scheme. Others in a header are skipped: the sender may offer several.
const SCHEME: &str = "v1";

/// Why a request is not taken for genuine. It does not say by how much it missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its timestamp is too far from now, so it may be a replay.
    #[error("the timestamp is more than {TOLERANCE_S} s from now")]
    Stale,
    /// None of its signatures is of a live secret.
    #[error("no signature matches")]
    Mismatch,
}

/// The value of `webhook-signature`: one `v1,<base64>` per live secret, in the order of the secrets.
#[must_use]
pub fn signature(secrets: &[Secret], id: &str, timestamp_s: i64, body: &[u8]) -> String {
    let one = |mac: Hmac<Sha256>| format!("{SCHEME},{}", STANDARD.encode(mac.finalize().into_bytes()));
    macs(secrets, id, timestamp_s, body).map(one).collect::<Vec<_>>().join(" ")
}

/// Verifies a received header against the live secrets, in constant time for each signature in it.
///
/// `timestamp_s` is the received `webhook-timestamp`, `now_s` the verifier's clock.
pub fn verify(
    secrets: &[Secret],
    id: &str,
    timestamp_s: i64,
    body: &[u8],
    header: &str,
    now_s: i64,
) -> Result<(), Refused> {
    if timestamp_s.abs_diff(now_s) > TOLERANCE_S {
        return Err(Refused::Stale);
    }
    let macs: Vec<_> = macs(secrets, id, timestamp_s, body).collect();
    let offered = header.split(' ').filter_map(|part| part.split_once(','));
    let genuine = offered
        .filter(|(scheme, _)| *scheme == SCHEME)
        .filter_map(|(_, encoded)| STANDARD.decode(encoded).ok())
        .any(|bytes| macs.iter().any(|mac| mac.clone().verify_slice(&bytes).is_ok()));
    if genuine { Ok(()) } else { Err(Refused::Mismatch) }
}

fn macs(secrets: &[Secret], id: &str, timestamp_s: i64, body: &[u8]) -> impl Iterator<Item = Hmac<Sha256>> {
    // A key of any length is one of HMAC (RFC 2104 2), so that no secret is left out here.
    secrets.iter().filter_map(|secret| Hmac::<Sha256>::new_from_slice(secret.bytes()).ok()).map(move |mac| {
        let stamp = timestamp_s.to_string();
        mac.chain_update(id).chain_update(b".").chain_update(stamp).chain_update(b".").chain_update(body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use standardwebhooks::Webhook;

    const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/sign.jsonl"));
    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const BODY: &[u8] = br#"{"reservation_id":"res_1"}"#;
    const AT: i64 = 1_772_366_400;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        secrets: Vec<String>,
        id: String,
        timestamp: i64,
        body: String,
        expect: Expected,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Expected {
        Signature(String),
        Error(String),
    }

    fn secrets(texts: &[&str]) -> Vec<Secret> {
        texts.iter().map(|text| Secret::parse(text).expect("a secret")).collect()
    }

    #[test]
    fn sec_4_every_case_of_sign_jsonl() {
        for line in CASES.lines() {
            let case: Case = serde_json::from_str(line).expect("a case");
            let secrets: Result<Vec<_>, _> = case.secrets.iter().map(|text| Secret::parse(text)).collect();
            match (secrets, case.expect) {
                (Ok(secrets), Expected::Signature(expected)) => {
                    let signed = signature(&secrets, &case.id, case.timestamp, case.body.as_bytes());
                    assert_eq!(signed, expected, "{}", case.name);
                }
                (Err(_), Expected::Error(error)) => assert_eq!(error, "invalid_secret", "{}", case.name),
                (secrets, _) => panic!("{}: {secrets:?}", case.name),
            }
        }
        assert!(CASES.lines().count() >= 6, "the cases are there");
    }

    #[test]
    fn rcv_1_another_implementation_signs_the_same() {
        let other = Webhook::new(OLD).expect("a secret");
        let theirs = other.sign("res_1:3", AT, BODY).expect("signed");
        assert_eq!(signature(&secrets(&[OLD]), "res_1:3", AT, BODY), theirs);
        assert_eq!(verify(&secrets(&[OLD]), "res_1:3", AT, BODY, &theirs, AT), Ok(()));
    }

    #[track_caller]
    fn check(label: &str, header: &str, now_s: i64, expected: Result<(), Refused>) {
        assert_eq!(verify(&secrets(&[NEW, OLD]), "res_1:3", AT, BODY, header, now_s), expected, "{label}");
    }

    #[test]
    fn rcv_1_one_signature_of_a_live_secret_will_do() {
        let old = signature(&secrets(&[OLD]), "res_1:3", AT, BODY);
        let both = signature(&secrets(&[NEW, OLD]), "res_1:3", AT, BODY);
        check("the old secret's", &old, AT, Ok(()));
        check("both", &both, AT, Ok(()));
        check("behind another scheme", &format!("v1a,AAAA {old}"), AT, Ok(()));
        check("behind garbage", &format!("v1,%% ,, v1 {old}"), AT, Ok(()));
    }

    #[test]
    fn rcv_1_what_is_not_signed_so_is_refused() {
        let old = signature(&secrets(&[OLD]), "res_1:3", AT, BODY);
        let other = signature(&secrets(&[&format!("whsec_{}", STANDARD.encode([9; 32]))]), "res_1:3", AT, BODY);
        check("another secret", &other, AT, Err(Refused::Mismatch));
        check("another scheme", &old.replace("v1,", "v2,"), AT, Err(Refused::Mismatch));
        check("cut short", &old[..old.len() - 4], AT, Err(Refused::Mismatch));
        check("empty", "", AT, Err(Refused::Mismatch));
        check("an empty signature", "v1,", AT, Err(Refused::Mismatch));
        let refused = |id, at, body| verify(&secrets(&[OLD]), id, at, body, &old, AT);
        assert_eq!(refused("res_1:4", AT, BODY), Err(Refused::Mismatch), "another id");
        assert_eq!(refused("res_1:3", AT + 1, BODY), Err(Refused::Mismatch), "another time");
        assert_eq!(refused("res_1:3", AT, b"{}"), Err(Refused::Mismatch), "another body");
        assert_eq!(verify(&[], "res_1:3", AT, BODY, &old, AT), Err(Refused::Mismatch), "no secret");
    }

    #[test]
    fn rcv_1_five_minutes_either_way() {
        let header = signature(&secrets(&[OLD]), "res_1:3", AT, BODY);
        check("5 min old", &header, AT + 300, Ok(()));
        check("older", &header, AT + 301, Err(Refused::Stale));
        check("5 min ahead", &header, AT - 300, Ok(()));
        check("further", &header, AT - 301, Err(Refused::Stale));
        check("extreme", &header, i64::MIN, Err(Refused::Stale));
    }
}
