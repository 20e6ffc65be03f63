//! SEC-4: `lapse sign` for a person; no secret is ever shown.

use super::{Ran, check_usage, file, lapse_with};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = r#"{"reservation_id":"res_1","event_version":3,"name":"Zoë"}"#;
/// The vector "two live secrets" of `sign.jsonl`, whose secrets these are.
const SIGNED: &str = "\
webhook-id: res_1:3
webhook-timestamp: 1772366400
webhook-signature: v1,Qw8NsbsqjHCCh/uKVP2a4AtzHaNOz1Jw+0AUjXNFpZM= v1,Hq6xpqCkGikBLZJcEfOahHtueWf0NUAo8tbmqtxNc6k=
";

/// Runs `sign` with both secrets in variables. Whatever comes of it, neither is shown.
#[track_caller]
fn sign(arguments: &[&str]) -> Ran {
    let variables = [("OLD_SECRET", OLD), ("NEW_SECRET", NEW), ("NO_SECRET", "whsec_c2hvcnQ=")];
    let ran = lapse_with(&[&["sign"], arguments].concat(), BODY, &variables);
    for secret in [OLD, NEW, "whsec_c2hvcnQ="] {
        let letters = secret.trim_start_matches("whsec_");
        assert!(!ran.out.contains(letters) && !ran.err.contains(letters), "{arguments:?}: {ran:?}");
    }
    ran
}

#[track_caller]
fn check_signed(arguments: &[&str], expected: &str) {
    let ran = sign(arguments);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), expected, ""), "{arguments:?}");
}

const REQUEST: [&str; 4] = ["--id", "res_1:3", "--timestamp", "1772366400"];

#[test]
fn the_headers_are_those_of_the_vector_wherever_secrets_and_body_come_from() {
    let (old, new) = (file("old-secret", &format!("{OLD}\n")), file("new-secret", NEW));
    let body = file("body.json", BODY);
    let with = |more: &[&'static str]| [&REQUEST, more].concat();
    check_signed(&with(&["--secret-env", "OLD_SECRET", "--secret-env", "NEW_SECRET"]), SIGNED);
    let files = [&REQUEST[..], &["--secret-file", &old, "--secret-file", &new, "--body", &body]].concat();
    check_signed(&files, SIGNED);
    let both = [&REQUEST[..], &["--secret-file", &new, "--secret-env", "OLD_SECRET", "--body", "-"]].concat();
    check_signed(&both, SIGNED);
    let json = SIGNED.trim_end().replace(": ", "\":\"").replace('\n', "\",\"");
    let ran = sign(&with(&["--secret-env", "OLD_SECRET", "--secret-env", "NEW_SECRET", "--json"]));
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(parse(&ran.out), parse(&format!("{{\"{json}\"}}")));
}

#[test]
fn sec_4_a_text_that_is_no_secret_is_refused_with_exit_code_1() {
    let ran = sign(&["--id", "res_1:3", "--secret-env", "OLD_SECRET", "--secret-env", "NO_SECRET"]);
    let error = "error: invalid_secret: a secret must be whsec_ and the base64 of 24 to 64 bytes\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(1), "", error));
    let ran = sign(&["--id", "res_1:3", "--secret-env", "NO_SECRET", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "{\"error\":\"invalid_secret\"}\n"));
}

#[test]
fn sec_4_a_secret_in_the_wrong_place_is_not_repeated() {
    for (arguments, named) in [
        (vec!["--id", "res_1:3", "--secret-env", OLD], "--secret-env must name a variable"),
        (vec!["--id", "res_1:3", "--secret-file", OLD], "--secret-file must name a file"),
        (vec!["--id", "res_1:3", "--secret-env", "OLD_SECRET", NEW], "takes flags alone"),
        (vec!["--id", "res_1:3", OLD], "--secret-env"),
        (vec!["--id", "res_1:3", "--secret", OLD], "--secret"),
        (vec!["--jsonl", OLD], "--jsonl"),
    ] {
        let ran = sign(&arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{named}: {}", ran.err);
        assert!(ran.err.contains(named), "{named}: {}", ran.err);
    }
    let line = lapse_with(&["sign", "--jsonl"], &format!("\"{OLD}\"\n{{\"secrets\":\"{OLD}\"}}\n"), &[]);
    assert_eq!(line.code, Some(1));
    assert!(!line.out.contains(OLD) && !line.err.contains(OLD), "{line:?}");
}

#[test]
fn sign_names_the_wrong_flag() {
    check_usage(&["sign"], &["--secret-env <NAME>", "--secret-file <FILE>"]);
    let with = |more: &[&'static str]| [&["sign", "--secret-file", "none"], more].concat();
    check_usage(&with(&[]), &["--id <ID>"]);
    check_usage(&with(&["--id", "a.b"]), &["--id <ID>", "[A-Za-z0-9_:-]"]);
    check_usage(&with(&["--id", "a", "--timestamp", "-1"]), &["--timestamp <SECONDS>", "0..="]);
    check_usage(&with(&["--id", "a", "--timestamp", "noon"]), &["--timestamp <SECONDS>"]);
    check_usage(&with(&["--id", "a"]), &["--secret-file"]);
    let secret = file("a-secret", OLD);
    check_usage(&["sign", "--secret-file", &secret, "--id", "a", "--body", "/none"], &["--body /none"]);
    let five = ["--secret-file", &secret].repeat(5);
    check_usage(&[&["sign", "--id", "a"], five.as_slice()].concat(), &["4 secrets"]);
}
