//! SEC-3, OBS-4: the text of an answer or an error that is kept for the operator.
//!
//! Owns: its length and the escaping of what a terminal or a log would act on.
//! Must not: be read by any rule; nothing is classified by a text.

use std::error::Error;
use std::io;
use std::iter::successors;

/// The most bytes that are kept, after escaping.
pub(crate) const KEPT: usize = 512;

/// The start of a body as text; `None` if there is nothing in it.
pub(crate) fn of_body(bytes: &[u8]) -> Option<String> {
    Some(escaped(&String::from_utf8_lossy(bytes))).filter(|text| !text.is_empty())
}

/// An error with its causes, each said once.
pub(crate) fn of_error(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.dedup();
    escaped(&texts.join(": "))
}

/// An error, its cause, the cause of that and so on. The error inside an `io::Error` is among them; its own
/// `source` would step over it.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inside) => Some(inside as &(dyn Error + 'static)),
        None => error.source(),
    })
}

/// Backslashes are doubled, so that an escape can be told from a text that looks like one. Quotes stay: most
/// answers are JSON, and a reader knows it by them.
fn escaped(text: &str) -> String {
    let mut kept = String::new();
    for character in text.chars() {
        let before = kept.len();
        match character {
            '"' | '\'' => kept.push(character),
            _ => kept.extend(character.escape_debug()),
        }
        if kept.len() > KEPT {
            kept.truncate(before);
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, body: &[u8], expected: Option<&str>) {
        assert_eq!(of_body(body).as_deref(), expected, "{label}");
    }

    #[test]
    fn sec_3_what_a_terminal_would_act_on_is_escaped() {
        check("empty", b"", None);
        check("JSON", br#"{"error":"it's full"}"#, Some(r#"{"error":"it's full"}"#));
        check("lines", b"a\r\n\tb", Some(r"a\r\n\tb"));
        check("colours", b"\x1b[31mred", Some(r"\u{1b}[31mred"));
        check("null and delete", b"\0\x7f", Some(r"\0\u{7f}"));
        check("direction", "\u{202e}cod".as_bytes(), Some(r"\u{202e}cod"));
        check("a text that looks escaped", br"\u{1b}", Some(r"\\u{1b}"));
        check("letters of any script", "Zo\u{eb} \u{65e5}".as_bytes(), Some("Zo\u{eb} \u{65e5}"));
        check("not UTF-8", b"a\xffb", Some("a\u{fffd}b"));
    }

    #[test]
    fn sec_3_at_most_512_bytes_and_never_half_a_character() {
        assert_eq!(of_body(&[b'x'; 600]).map(|text| text.len()), Some(512));
        assert_eq!(of_body(&[0x1b; 600]).map(|text| text.len()), Some(510), "85 times six");
        assert_eq!(of_body("\u{65e5}".repeat(300).as_bytes()).map(|text| text.len()), Some(510));
    }

    #[test]
    fn an_error_inside_an_io_error_is_among_its_causes() {
        let inner = io::Error::from(io::ErrorKind::ConnectionRefused);
        let outer = io::Error::other(io::Error::other(inner));
        let refused = |e: &(dyn Error + 'static)| {
            e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
        };
        assert!(causes(&outer).any(refused));
        assert_eq!(of_error(&outer), "connection refused", "said once");
    }
}
