//! CLS-1, CLS-3 to CLS-7, RET-1: what an answer's head counts as, well formed or not.
//!
//! Owns: the line between an answer and none. Must not: test the meaning of each status; that is the policy's.

use std::time::Duration;

use lapse_aws::http_sender::HttpSender;
use lapse_policy::classifier::Answer;

use crate::attempts::{answered, local_sender, ruled, send, send_in_short};
use crate::peer::{Event, Peer, Then, answer};

/// The connection stays open after these bytes, so that they alone decide.
fn hang(bytes: &[u8]) -> Then {
    Then::Hang(bytes.to_vec())
}

fn close(bytes: &[u8]) -> Then {
    Then::Close(bytes.to_vec())
}

/// One request is made, and it ends so.
async fn check(sender: &HttpSender, label: &str, then: Then, expected: (&str, Option<u16>)) {
    let peer = Peer::start([then]).await;
    let sent = send(sender, &peer.url()).await;
    assert_eq!(ruled(&sent), expected, "{label}: {:?}", sent.excerpt);
    assert_eq!(peer.requests().len(), 1, "{label}: an attempt is one request");
}

#[tokio::test]
async fn cls_1_a_200_is_answered_with_the_start_of_its_body() {
    let sender = local_sender();
    let peer = Peer::start([Then::Answer(answer("200 OK", &[], b"thanks"))]).await;
    let sent = send(&sender, &peer.url()).await;
    assert_eq!(answered(&sent), &Answer { status: 200, ..Answer::default() });
    assert_eq!(sent.excerpt.as_deref(), Some("thanks"));
}

#[tokio::test]
async fn ret_1_a_429_says_how_long_it_asks_for() {
    let sender = local_sender();
    let headers = [("Retry-After", "7"), ("Retry-After", "soon"), ("retry-after", "11.5")];
    let peer = Peer::start([Then::Answer(answer("429 Too Many Requests", &headers, b""))]).await;
    let sent = send(&sender, &peer.url()).await;
    let expected = Answer { status: 429, asked: Some(Duration::from_secs(12)), location_host: None };
    assert_eq!((answered(&sent), &sent.excerpt), (&expected, &None));
}

#[tokio::test]
async fn ret_1_a_date_without_the_answers_own_clock_is_read_against_the_time_of_the_answer() {
    let sender = local_sender();
    // The attempt starts at 12:00:00 by its own account, whatever this machine's clock says. Its timeout is 20 s.
    let headers = [("Retry-After", "Sun, 01 Mar 2026 12:30:00 GMT")];
    let peer = Peer::start([Then::Answer(answer("503 Service Unavailable", &headers, b""))]).await;
    let sent = send(&sender, &peer.url()).await;
    let asked = answered(&sent).asked.expect("a date");
    assert!(asked <= Duration::from_secs(1800) && asked > Duration::from_secs(1780), "{asked:?}");
}

async fn check_unanswered(sender: &HttpSender, label: &str, then: Then) {
    let mut peer = Peer::start([then]).await;
    let sent = send_in_short(sender, &peer.url()).await;
    assert_eq!(ruled(&sent), ("CLS-6", None), "{label}: {:?}", sent.excerpt);
    assert_eq!(peer.event().await, Event::Gone, "{label}: the connection is given up");
    assert_eq!(peer.requests().len(), 1, "{label}: an attempt is one request");
}

#[tokio::test]
async fn cls_6_no_answer_within_the_timeout_is_an_unknown_outcome() {
    let sender = local_sender();
    let interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".to_vec();
    let drip = Then::Drip(b"HTTP/1.1 200 OK\r\nx-drip: ".to_vec(), b'a');
    tokio::join!(
        check_unanswered(&sender, "not a byte", hang(b"")),
        check_unanswered(&sender, "half a head", hang(b"HTTP/1.1 200 OK\r\ncontent-le")),
        check_unanswered(&sender, "a head that drips", drip),
        check_unanswered(&sender, "an interim answer and no other", hang(&interim)),
        check_unanswered(&sender, "interim answers without end", Then::Flood(Vec::new(), interim.clone())),
    );
}

#[tokio::test]
async fn cls_6_a_connection_lost_before_the_end_of_the_head_is_an_unknown_outcome() {
    let sender = local_sender();
    for part in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ] {
        check(&sender, &format!("closed after {part:?}"), Then::Close(part.into()), ("CLS-6", None)).await;
        check(&sender, &format!("reset after {part:?}"), Then::Reset(part.into()), ("CLS-6", None)).await;
    }
}

#[tokio::test]
async fn cls_6_what_is_no_head_of_http_is_an_unknown_outcome() {
    let sender = local_sender();
    for (label, bytes) in [
        ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n\r\n".as_slice()),
        ("HTTP/0.9", b"<html>thanks</html>\r\n\r\n"),
        ("a version of the future", b"HTTP/3.0 200 OK\r\n\r\n"),
        ("HTTP/2 unasked", b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0\0\x05\0\xff\xff\xff"),
        ("two digits", b"HTTP/1.1 20 OK\r\n\r\n"),
        ("four digits", b"HTTP/1.1 2000 OK\r\n\r\n"),
        ("a status below 100", b"HTTP/1.1 099 Odd\r\n\r\n"),
        ("letters for a status", b"HTTP/1.1 two OK\r\n\r\n"),
        ("a header without a colon", b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n"),
        ("a null in a header", b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n"),
        ("a space before the colon", b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n"),
        ("a folded header", b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nthanks"),
        ("two lengths in one", b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nthanks"),
        ("a negative length", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
        ("a signed length", b"HTTP/1.1 200 OK\r\ncontent-length: +6\r\n\r\nthanks"),
        ("a length in hexadecimal", b"HTTP/1.1 200 OK\r\ncontent-length: 0x6\r\n\r\nthanks"),
        ("a length beyond its type", b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n"),
        ("chunks in HTTP/1.0", b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ] {
        check(&sender, label, hang(bytes), ("CLS-6", None)).await;
    }
}

#[tokio::test]
async fn cls_6_a_head_that_is_too_large_to_read_is_an_unknown_outcome() {
    let sender = local_sender();
    let begin = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n".as_slice();
    let line = |length: usize| [b"x: ".as_slice(), &b"a".repeat(length), b"\r\n"].concat();
    for (label, bytes) in [
        ("one header of 1 MB", [begin, &line(1 << 20), b"\r\n"].concat()),
        ("100 headers of 10 KB", [begin, &line(10 << 10).repeat(100), b"\r\n"].concat()),
        ("1,000 small headers", [begin, &line(1).repeat(1000), b"\r\n"].concat()),
        ("a status line of 1 MB", [b"HTTP/1.1 200 ", b"a".repeat(1 << 20).as_slice(), b"\r\n\r\n"].concat()),
    ] {
        check(&sender, label, hang(&bytes), ("CLS-6", None)).await;
    }
    // Nor is more of it read than about the limit: a peer that goes on and on is cut off.
    let mut peer = Peer::start([Then::Flood(begin.to_vec(), line(1000))]).await;
    assert_eq!(ruled(&send(&sender, &peer.url()).await), ("CLS-6", None), "headers without end");
    assert_eq!(peer.event().await, Event::Gone);
    let poured = peer.poured();
    assert!(poured < 8 << 20, "headers without end: {poured} bytes");
}

#[tokio::test]
async fn cls_1_a_head_that_can_be_read_is_an_answer_however_odd() {
    let sender = local_sender();
    for (label, then) in [
        ("HTTP/1.0 with a length", hang(b"HTTP/1.0 200 OK\r\ncontent-length: 6\r\n\r\nthanks")),
        ("HTTP/1.0 to its end", close(b"HTTP/1.0 200 OK\r\n\r\nthanks")),
        ("HTTP/1.1 to its end", close(b"HTTP/1.1 200 OK\r\n\r\nthanks")),
        ("HTTP/1.0 to be kept", hang(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 6\r\n\r\nthanks")),
        ("no reason", hang(b"HTTP/1.1 200\r\ncontent-length: 6\r\n\r\nthanks")),
        ("line feeds alone", hang(b"HTTP/1.1 200 OK\ncontent-length: 6\n\nthanks")),
        ("bytes that are not ASCII", hang(b"HTTP/1.1 200 \xff\r\nx: \xff\r\ncontent-length: 6\r\n\r\nthanks")),
        ("empty lines before", hang(b"\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nthanks")),
        ("a length said twice", hang(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\ncontent-length: 6\r\n\r\nthanks")),
        (
            "chunks and a length",
            hang(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n6\r\nthanks\r\n0\r\n\r\n"),
        ),
        ("an unknown transfer coding", close(b"HTTP/1.1 200 OK\r\ntransfer-encoding: garbage\r\n\r\nthanks")),
        ("an interim answer before", hang(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nthanks")),
        (
            "several of them",
            hang(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nthanks"),
        ),
        ("reset after the answer", Then::Reset(answer("200 OK", &[], b"thanks"))),
        ("closed after the answer", Then::Close(answer("200 OK", &[], b"thanks"))),
    ] {
        let peer = Peer::start([then]).await;
        let sent = send(&sender, &peer.url()).await;
        assert_eq!(ruled(&sent), ("CLS-1", Some(200)), "{label}: {:?}", sent.excerpt);
        assert_eq!(sent.excerpt.as_deref(), Some("thanks"), "{label}");
        assert_eq!(peer.requests().len(), 1, "{label}: an attempt is one request");
    }
}

#[tokio::test]
async fn cls_7_a_status_that_no_rule_knows_is_permanent() {
    let sender = local_sender();
    check(
        &sender,
        "101 unasked",
        hang(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n"),
        ("CLS-7", Some(101)),
    )
    .await;
    check(&sender, "304", hang(b"HTTP/1.1 304 Not Modified\r\n\r\n"), ("CLS-7", Some(304))).await;
    check(&sender, "600", hang(b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n"), ("CLS-7", Some(600))).await;
    check(&sender, "999", hang(b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"), ("CLS-7", Some(999))).await;
}
