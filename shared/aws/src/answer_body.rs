//! SEC-3: the start of an answer's body, for the operator.
//!
//! Owns: how much of a body is read, and its decompression, which is done here and not in the HTTP client so that
//! the limit holds for the bytes on the wire as well: a gzip header may go on for ever and give nothing.
//! Must not: fail. The head has decided already (CLS-1), and whatever is wrong with a body only shortens its start.

use std::io::Read as _;

use flate2::bufread::MultiGzDecoder;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout_at};

use crate::excerpt;

/// What a request offers with `accept-encoding`.
pub(crate) const CODINGS: HeaderValue = HeaderValue::from_static("gzip");
/// The most of a body that is read, compressed or not. A body that ends within it leaves the connection fit for the
/// next request; a longer one costs the connection.
const READ: usize = 16 * 1024;
/// The most that is made of it: what is kept, and room for a character that starts within that and ends after it.
const START: u64 = excerpt::KEPT as u64 + 3;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// As it is, or in a coding that was not offered, which is not undone.
    Plain,
    /// gzip (RFC 9110 8.4.1.3).
    Gzip,
}

/// Reads the body to its end, to [`READ`], to an error or to the deadline, whichever is first, and gives its start.
pub(crate) async fn start(mut response: Response, deadline: Instant) -> Vec<u8> {
    let coding = coding(response.headers());
    let mut read = Vec::new();
    while read.len() < READ {
        let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await else { break };
        let room = READ - read.len();
        read.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
    }
    decoded(&read, coding)
}

fn coding(headers: &HeaderMap) -> Coding {
    let named = |value: &HeaderValue| {
        value.as_bytes().eq_ignore_ascii_case(b"gzip") || value.as_bytes().eq_ignore_ascii_case(b"x-gzip")
    };
    if headers.get(CONTENT_ENCODING).is_some_and(named) { Coding::Gzip } else { Coding::Plain }
}

fn decoded(read: &[u8], coding: Coding) -> Vec<u8> {
    let mut start = Vec::new();
    // What came before an error stays.
    let _ = match coding {
        Coding::Plain => read.take(START).read_to_end(&mut start),
        Coding::Gzip => MultiGzDecoder::new(read).take(START).read_to_end(&mut start),
    };
    start
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("in memory");
        encoder.finish().expect("in memory")
    }

    #[track_caller]
    fn check(label: &str, read: &[u8], coding: Coding, expected: &[u8]) {
        assert_eq!(decoded(read, coding), expected, "{label}");
    }

    #[test]
    fn sec_3_the_start_of_a_body_is_what_could_be_decoded_of_it() {
        let body = gzip(b"please come back");
        check("plain", b"busy", Coding::Plain, b"busy");
        check("gzip", &body, Coding::Gzip, b"please come back");
        check("gzip that is not said", &body, Coding::Plain, &body);
        check("two members", &[gzip(b"please "), gzip(b"come back")].concat(), Coding::Gzip, b"please come back");
        check("no gzip", b"busy", Coding::Gzip, b"");
        check("nothing", b"", Coding::Gzip, b"");
        check("no checksum", &body[..body.len() - 8], Coding::Gzip, b"please come back");
        check("a header alone", &body[..10], Coding::Gzip, b"");
        check("garbage behind", &[body.as_slice(), b"garbage"].concat(), Coding::Gzip, b"please come back");
    }

    #[test]
    fn sec_3_no_more_is_decoded_than_is_kept() {
        assert_eq!(decoded(&[b'z'; READ], Coding::Plain).len(), 515);
        assert_eq!(decoded(&gzip(&vec![b'z'; 1 << 20]), Coding::Gzip), [b'z'; 515]);
    }

    #[test]
    fn sec_3_one_coding_is_undone_however_it_is_written() {
        for (value, expected) in [
            ("gzip", Coding::Gzip),
            ("GZip", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("gzip, gzip", Coding::Plain),
            ("br", Coding::Plain),
            ("identity", Coding::Plain),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(coding(&headers), expected, "{value}");
        }
        assert_eq!(coding(&HeaderMap::new()), Coding::Plain);
    }
}
