//! SEC-3, CLS-1: an answer's body, which the head has made irrelevant to the class.
//!
//! Owns: how much of a body is read, and that neither its end nor its want of one changes the class.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use lapse_aws::http_sender::HttpSender;

use crate::attempts::{local_sender, ruled, send, send_in_short};
use crate::peer::{Event, Peer, Then, answer};

/// What a peer may have got rid of when the sender stops reading at 16 KiB: the buffers of both sockets, which the
/// kernel makes some megabytes large. A sender that went on would take this in milliseconds, and go on for 20 s.
const BUFFERS: usize = 8 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn head(status: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn sec_3_a_body_is_read_after_decompression() {
    let sender = local_sender();
    let body = gzip(b"please come back");
    let peer = Peer::start([Then::Answer(answer("500 Oops", &[("content-encoding", "gzip")], &body))]).await;
    assert_eq!(send(&sender, &peer.url()).await.excerpt.as_deref(), Some("please come back"));
}

#[tokio::test]
async fn sec_3_no_other_coding_is_undone() {
    let sender = local_sender();
    for coding in ["deflate", "br", "zstd", "compress"] {
        let peer = Peer::start([Then::Answer(answer("500 Oops", &[("content-encoding", coding)], b"raw"))]).await;
        assert_eq!(send(&sender, &peer.url()).await.excerpt.as_deref(), Some("raw"), "{coding}");
    }
}

#[tokio::test]
async fn sec_3_no_more_than_its_limit_is_read_of_a_body() {
    let sender = local_sender();
    let block = b"z".repeat(64 << 10);
    let chunk = [b"10000\r\n".as_slice(), &block, b"\r\n"].concat();
    for (label, headers, again) in [
        ("to the end of the connection", "x: y", block.clone()),
        ("1 GB by its length", "content-length: 1073741824", block),
        ("in chunks", "transfer-encoding: chunked", chunk),
        ("compressed, 64 MiB in 64 KiB", "content-encoding: gzip", gzip(&vec![b'z'; 64 << 20])),
    ] {
        let mut peer = Peer::start([Then::Flood(head("200 OK", headers), again)]).await;
        let sent = send(&sender, &peer.url()).await;
        assert_eq!(ruled(&sent), ("CLS-1", Some(200)), "{label}");
        assert_eq!(sent.excerpt, Some("z".repeat(512)), "{label}");
        assert_eq!(peer.event().await, Event::Gone, "{label}: the connection is given up");
        let poured = peer.poured();
        assert!(poured < BUFFERS, "{label}: {poured} bytes");
    }
}

#[tokio::test]
async fn sec_3_what_is_read_is_bounded_before_decompression_too() {
    let sender = local_sender();
    // A gzip header whose file name never ends, and members without content: much could be read for nothing.
    let endless_name = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03".to_vec();
    for (label, first, again) in
        [("a name without end", endless_name, b"n".repeat(4096)), ("empty members", Vec::new(), gzip(b"").repeat(200))]
    {
        let first = [head("200 OK", "content-encoding: gzip"), first].concat();
        let mut peer = Peer::start([Then::Flood(first, again)]).await;
        let sent = send(&sender, &peer.url()).await;
        assert_eq!((ruled(&sent), &sent.excerpt), (("CLS-1", Some(200)), &None), "{label}");
        assert_eq!(peer.event().await, Event::Gone, "{label}: the connection is given up");
        let poured = peer.poured();
        assert!(poured < BUFFERS, "{label}: {poured} bytes");
    }
}

#[tokio::test]
async fn sec_3_control_characters_are_escaped() {
    let sender = local_sender();
    let peer = Peer::start([Then::Answer(answer("400 Bad", &[], b"\x1b[2Jline\r\nfake: entry\0\xff"))]).await;
    let sent = send(&sender, &peer.url()).await;
    assert_eq!(sent.excerpt.as_deref(), Some("\\u{1b}[2Jline\\r\\nfake: entry\\0\u{fffd}"));
}

/// An attempt that ends by its time while the peer goes on.
async fn check_endless(
    sender: &HttpSender,
    (status, expected): (&str, (&str, Option<u16>)),
    (label, then, start): (&str, Then, &str),
) {
    let mut peer = Peer::start([then]).await;
    let sent = send_in_short(sender, &peer.url()).await;
    assert_eq!(ruled(&sent), expected, "{status}, {label}");
    let excerpt = sent.excerpt.unwrap_or_default();
    assert!(excerpt.starts_with(start), "{status}, {label}: {excerpt}");
    assert_eq!(excerpt.is_empty(), start.is_empty(), "{status}, {label}: {excerpt}");
    assert_eq!(peer.event().await, Event::Gone, "{status}, {label}: the connection is given up");
}

#[tokio::test]
async fn cls_1_a_body_that_does_not_end_leaves_the_class_as_it_is() {
    let sender = local_sender();
    let mut ends = Vec::new();
    for class in [
        ("200 OK", ("CLS-1", Some(200))),
        ("429 Too Many Requests", ("CLS-3", Some(429))),
        ("500 Oops", ("CLS-4", Some(500))),
        ("404 Not Found", ("CLS-7", Some(404))),
    ] {
        let with = |headers: &str, body: &str| [head(class.0, headers), body.into()].concat();
        for end in [
            ("by its length, drips", Then::Drip(with("content-length: 1000000", ""), b'd'), "ddd"),
            ("without a length, drips", Then::Drip(with("x: y", ""), b'd'), "ddd"),
            ("silent", Then::Hang(with("content-length: 5", "")), ""),
            ("silent after the half", Then::Hang(with("content-length: 9", "half")), "half"),
            ("silent in a chunk", Then::Hang(with("transfer-encoding: chunked", "9\r\nhalf")), "half"),
            ("trailers drip", Then::Drip(with("transfer-encoding: chunked", "0\r\nx: "), b'd'), ""),
        ] {
            ends.push(check_endless(&sender, class, end));
        }
    }
    join_all(ends).await;
}

#[tokio::test]
async fn cls_1_a_body_that_fails_to_read_leaves_the_class_as_it_is() {
    let sender = local_sender();
    for (status, expected) in
        [("200 OK", ("CLS-1", Some(200))), ("503 Busy", ("CLS-4", Some(503))), ("422 No", ("CLS-7", Some(422)))]
    {
        let with = |headers: &str, body: &[u8]| [head(status, headers), body.to_vec()].concat();
        let long = with("content-length: 100", b"half of");
        for (label, then, excerpt) in [
            ("closed before its length", Then::Close(long.clone()), Some("half of")),
            ("reset before any of it", Then::Reset(with("content-length: 100", b"")), None),
            ("longer than its length", Then::Answer(with("content-length: 4", b"half of")), Some("half")),
            ("no gzip", Then::Answer(answer(status, &[("content-encoding", "gzip")], b"this is no gzip")), None),
            (
                "half a gzip",
                Then::Answer(answer(status, &[("content-encoding", "gzip")], &gzip(b"thanks")[..10])),
                None,
            ),
            ("bad chunk", Then::Answer(with("transfer-encoding: chunked", b"zz\r\n")), None),
            (
                "a chunk beyond its type",
                Then::Answer(with("transfer-encoding: chunked", b"fffffffffffffffff\r\n")),
                None,
            ),
            ("closed in a chunk", Then::Close(with("transfer-encoding: chunked", b"9\r\nhalf of")), Some("half of")),
        ] {
            let peer = Peer::start([then]).await;
            let sent = send(&sender, &peer.url()).await;
            assert_eq!(ruled(&sent), expected, "{label}");
            assert_eq!(sent.excerpt.as_deref(), excerpt, "{label}");
            assert_eq!(peer.requests().len(), 1, "{label}: an attempt is one request");
        }
    }
}

#[tokio::test]
async fn sec_3_chunks_that_are_all_extension_are_cut_off() {
    let sender = local_sender();
    let chunk = [b"1;".as_slice(), &b"x".repeat(4096), b"\r\nz\r\n"].concat();
    let mut peer = Peer::start([Then::Flood(head("200 OK", "transfer-encoding: chunked"), chunk)]).await;
    assert_eq!(ruled(&send(&sender, &peer.url()).await), ("CLS-1", Some(200)));
    assert_eq!(peer.event().await, Event::Gone, "the connection is given up");
    assert!(peer.poured() < BUFFERS, "{} bytes", peer.poured());
}
