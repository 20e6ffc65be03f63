//! The HTTP sender over real sockets: SEC-1 to SEC-3, CLS-1, CLS-5 to CLS-7, CLS-9, RET-1, I2.
//!
//! Owns: what is true over plain HTTP; `http_sender_tls.rs` has the rest.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "support/attempts.rs"]
mod attempts;
#[path = "support/peer.rs"]
mod peer;

use std::io::Write as _;
use std::time::Duration;

use attempts::{Names, PAYLOAD, SECRET, answered, attempt, failure, sender, start};
use flate2::Compression;
use flate2::write::GzEncoder;
use lapse_aws::http_sender::HttpSender;
use lapse_aws::signer;
use lapse_policy::classifier::{Answer, Failure};
use lapse_policy::guard::AllowList;
use lapse_policy::ports::{Sender as _, Sent};
use lapse_policy::secret::Secret;
use peer::{Event, Peer, Then, answer};
use reqwest::dns::{Name, Resolve, Resolving};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// A time that no test waits for: the attempts' timeout.
const LONG: Duration = Duration::from_secs(20);

/// A resolver that never answers.
struct Silence;

impl Resolve for Silence {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

/// Sends one attempt to a URL with an address in it.
async fn send(url: &str) -> Sent {
    sender(Names::default()).send(&attempt(url, &json!({}))).await
}

fn ok() -> Then {
    Then::Answer(answer("200 OK", &[], b"thanks"))
}

#[tokio::test]
async fn cls_1_a_200_is_answered_with_the_start_of_its_body() {
    let peer = Peer::start([ok()]).await;
    let sent = send(&peer.url()).await;
    assert_eq!(answered(&sent), &Answer { status: 200, ..Answer::default() });
    assert_eq!(sent.excerpt.as_deref(), Some("thanks"));
}

#[tokio::test]
async fn i2_the_destination_gets_these_headers_and_the_payloads_own_bytes() {
    let peer = Peer::start([ok()]).await;
    let fields = json!({"headers": {"X-Team": "studio", "Authorization": "Bearer x"}});
    sender(Names::default()).send(&attempt(&peer.url(), &fields)).await;
    let request = &peer.requests()[0];
    assert_eq!(request.line(), "POST /hook?key=hidden HTTP/1.1");
    assert_eq!(request.body, PAYLOAD.as_bytes());
    let stamp = start().seconds();
    let signature =
        signer::signature(&[Secret::parse(SECRET).expect("a secret")], "res_8472:3", stamp, PAYLOAD.as_bytes());
    let agent = format!("lapse/{}", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-length", PAYLOAD.len().to_string().as_str()),
        ("webhook-id", "res_8472:3"),
        ("idempotency-key", "res_8472:3"),
        ("webhook-timestamp", stamp.to_string().as_str()),
        ("webhook-signature", &signature),
        ("webhook-attempt", "2"),
        ("user-agent", &agent),
        ("x-team", "studio"),
        ("authorization", "Bearer x"),
        ("host", peer.address.to_string().as_str()),
        ("accept-encoding", "gzip"),
    ] {
        assert_eq!(request.values(name), [value], "{name}");
    }
    assert!(request.values("transfer-encoding").is_empty());
    assert!(request.values("referer").is_empty());
}

#[tokio::test]
async fn ret_1_a_429_says_how_long_it_asks_for() {
    let headers = [("Retry-After", "7"), ("Retry-After", "soon"), ("retry-after", "11.5")];
    let peer = Peer::start([Then::Answer(answer("429 Too Many Requests", &headers, b""))]).await;
    let sent = send(&peer.url()).await;
    let expected = Answer { status: 429, asked: Some(Duration::from_secs(12)), location_host: None };
    assert_eq!((answered(&sent), &sent.excerpt), (&expected, &None));
}

#[tokio::test]
async fn ret_1_a_date_without_the_answers_own_clock_is_read_against_the_time_of_the_answer() {
    // The attempt starts at 12:00:00 by its own account, whatever this machine's clock says.
    let headers = [("Retry-After", "Sun, 01 Mar 2026 12:30:00 GMT")];
    let peer = Peer::start([Then::Answer(answer("503 Service Unavailable", &headers, b""))]).await;
    let sent = send(&peer.url()).await;
    let asked = answered(&sent).asked.expect("a date");
    assert!(asked <= Duration::from_secs(1800) && asked > Duration::from_secs(1800).saturating_sub(LONG), "{asked:?}");
}

#[tokio::test]
async fn cls_7_a_redirect_is_not_followed() {
    let target = Peer::start([ok()]).await;
    let (own, other) = ("127.0.0.1", target.url());
    for (location, host) in [
        (other.as_str(), Some("127.0.0.1")),
        ("http://169.254.169.254/latest/meta-data/", Some("169.254.169.254")),
        ("https://new.example.com:8443/hook", Some("new.example.com")),
        ("/elsewhere", Some(own)),
        ("http://[", None),
    ] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"] {
            let peer = Peer::start([Then::Answer(answer(status, &[("Location", location)], b""))]).await;
            let sent = send(&peer.url()).await;
            assert_eq!(answered(&sent).location_host.as_deref(), host, "{status} {location}");
            assert_eq!(peer.requests().len(), 1, "{status} {location}");
        }
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn cls_7_a_location_matters_in_a_redirect_alone() {
    let peer = Peer::start([Then::Answer(answer("201 Created", &[("Location", "/made")], b""))]).await;
    assert_eq!(answered(&send(&peer.url()).await).location_host, None);
}

#[tokio::test]
async fn cls_6_no_answer_within_the_timeout_is_an_unknown_outcome() {
    let mut peer = Peer::start([Then::Hang]).await;
    let begin = Instant::now();
    let sent = sender(Names::default()).send(&attempt(&peer.url(), &json!({"timeout_ms": 150}))).await;
    assert!(begin.elapsed() < LONG);
    assert_eq!(failure(&sent), Failure::NoAnswer);
    assert_eq!(peer.event().await, Event::Gone, "the connection is given up");
    assert_eq!(peer.requests().len(), 1);
}

#[tokio::test]
async fn cls_6_a_connection_lost_after_the_request_is_an_unknown_outcome() {
    for (label, then) in [
        ("reset", Then::Reset(Vec::new())),
        ("closed", Then::Close(Vec::new())),
        ("reset in the head", Then::Reset(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())),
        ("closed in the head", Then::Close(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())),
        ("no HTTP", Then::Close(b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec())),
    ] {
        let peer = Peer::start([then]).await;
        let sent = send(&peer.url()).await;
        assert_eq!(failure(&sent), Failure::NoAnswer, "{label}: {:?}", sent.excerpt);
        assert_eq!(peer.requests().len(), 1, "{label}: an attempt is one request");
    }
}

#[tokio::test]
async fn cls_1_a_body_that_fails_to_read_leaves_the_status_as_it_is() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of".to_vec();
    let bad_gzip = answer("200 OK", &[("content-encoding", "gzip")], b"this is no gzip");
    let bad_chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec();
    for (label, then, excerpt) in [
        ("closed", Then::Close(cut.clone()), Some("half of")),
        ("reset before any of it", Then::Reset(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n".to_vec()), None),
        ("no gzip", Then::Answer(bad_gzip), None),
        ("bad chunk", Then::Answer(bad_chunk), None),
    ] {
        let peer = Peer::start([then]).await;
        let sent = send(&peer.url()).await;
        assert_eq!(answered(&sent).status, 200, "{label}");
        assert_eq!(sent.excerpt.as_deref(), excerpt, "{label}");
    }
    let peer = Peer::start([Then::Answer(cut)]).await;
    let sent = sender(Names::default()).send(&attempt(&peer.url(), &json!({"timeout_ms": 150}))).await;
    assert_eq!(answered(&sent).status, 200, "silent after the half");
    assert_eq!(sent.excerpt.as_deref(), Some("half of"));
}

#[tokio::test]
async fn cls_5_a_port_that_no_one_listens_on_refuses() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook?key=hidden", free.local_addr().expect("bound"));
    drop(free);
    let sent = send(&url).await;
    assert_eq!(failure(&sent), Failure::Refused);
    let excerpt = sent.excerpt.expect("the error");
    assert!(!excerpt.contains("hidden") && !excerpt.contains("/hook"), "OBS-4: {excerpt}");
    assert!(excerpt.len() <= 512);
}

#[tokio::test]
async fn cls_5_a_name_that_does_not_resolve() {
    let sent = send("http://hooks.example.com/hook").await;
    assert_eq!(failure(&sent), Failure::Dns);
    let sent =
        sender(Names::of("hooks.example.com", &[])).send(&attempt("http://hooks.example.com/", &json!({}))).await;
    assert_eq!(failure(&sent), Failure::Dns, "a name without an address");
}

#[tokio::test(start_paused = true)]
async fn cls_5_no_connection_in_time() {
    let begin = Instant::now();
    let sent = sender(Silence).send(&attempt("http://hooks.example.com/", &json!({}))).await;
    assert_eq!(failure(&sent), Failure::ConnectTimeout);
    assert_eq!(begin.elapsed().as_secs(), 3, "connecting has a limit of its own");
    let begin = Instant::now();
    let sent = sender(Silence).send(&attempt("http://hooks.example.com/", &json!({"timeout_ms": 500}))).await;
    assert_eq!(failure(&sent), Failure::ConnectTimeout);
    assert!(begin.elapsed() < Duration::from_secs(1), "the attempt's own");
}

#[tokio::test]
async fn sec_2_a_name_is_called_by_the_addresses_that_were_judged() {
    let peer = Peer::start([ok()]).await;
    let url = format!("http://hooks.example.com:{}/", peer.address.port());
    let sent = sender(Names::of("hooks.example.com", &["127.0.0.1"])).send(&attempt(&url, &json!({}))).await;
    assert_eq!(answered(&sent).status, 200);
    assert_eq!(peer.requests()[0].values("host"), [url.trim_start_matches("http://").trim_end_matches('/')]);
}

#[tokio::test]
async fn sec_2_one_private_address_among_a_names_blocks_it() {
    let peer = Peer::start([ok()]).await;
    let url = format!("http://hooks.example.com:{}/", peer.address.port());
    for addresses in [["127.0.0.1", "10.0.0.1"], ["169.254.169.254", "127.0.0.1"], ["127.0.0.1", "::1"]] {
        let sent = sender(Names::of("hooks.example.com", &addresses)).send(&attempt(&url, &json!({}))).await;
        assert_eq!(failure(&sent), Failure::Blocked, "{addresses:?}");
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn sec_2_an_address_that_is_on_no_allow_list_is_blocked() {
    let peer = Peer::start([ok()]).await;
    let strict = HttpSender::new(AllowList::default()).expect("a sender");
    let sent = strict.send(&attempt(&peer.url(), &json!({}))).await;
    assert_eq!(failure(&sent), Failure::Blocked, "a literal");
    let url = format!("http://localhost:{}/", peer.address.port());
    let sent = strict.send(&attempt(&url, &json!({}))).await;
    assert_eq!(failure(&sent), Failure::Blocked, "a name, by the system's own resolver");
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn sec_1_a_url_that_may_not_be_called() {
    let peer = Peer::start([ok()]).await;
    let address = peer.address;
    for (url, allow_http) in [
        (format!("http://{address}/"), false),
        (format!("http://user:pass@{address}/"), true),
        (format!("ftp://{address}/"), true),
        ("not a url".to_owned(), true),
    ] {
        let sent = sender(Names::default()).send(&attempt(&url, &json!({"allow_http": allow_http}))).await;
        assert_eq!(failure(&sent), Failure::InvalidUrl, "{url}");
        assert!(!sent.excerpt.expect("the reason").contains("pass@"));
    }
    assert_eq!(peer.connections(), 0);
}

#[tokio::test]
async fn sec_3_a_body_is_read_after_decompression() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(b"please come back").expect("in memory");
    let body = gzip.finish().expect("in memory");
    let peer = Peer::start([Then::Answer(answer("500 Oops", &[("content-encoding", "gzip")], &body))]).await;
    assert_eq!(send(&peer.url()).await.excerpt.as_deref(), Some("please come back"));
}

#[tokio::test]
async fn sec_3_no_more_than_its_limit_is_read_of_a_body() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b'z'; 64 * 1024 * 1024]).expect("in memory");
    let bomb = gzip.finish().expect("in memory");
    let endless = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes();
    for (label, head, again) in [
        ("to the end of the connection", endless(""), b"z".repeat(1000)),
        (
            "in chunks",
            endless("transfer-encoding: chunked\r\n"),
            [b"3e8\r\n".as_slice(), &b"z".repeat(1000), b"\r\n"].concat(),
        ),
        ("compressed", endless("content-encoding: gzip\r\n"), bomb),
    ] {
        let mut peer = Peer::start([Then::Flood(head, again)]).await;
        let begin = Instant::now();
        let sent = send(&peer.url()).await;
        assert!(begin.elapsed() < LONG, "{label}: the attempt's timeout did not end it");
        assert_eq!(answered(&sent).status, 200, "{label}");
        assert_eq!(sent.excerpt, Some("z".repeat(512)), "{label}");
        assert_eq!(peer.event().await, Event::Gone, "{label}: the connection is given up");
    }
}

#[tokio::test]
async fn sec_3_control_characters_are_escaped() {
    let peer = Peer::start([Then::Answer(answer("400 Bad", &[], b"\x1b[2Jline\r\nfake: entry\0\xff"))]).await;
    let sent = send(&peer.url()).await;
    assert_eq!(sent.excerpt.as_deref(), Some("\\u{1b}[2Jline\\r\\nfake: entry\\0\u{fffd}"));
}

#[tokio::test]
async fn one_connection_serves_many_attempts() {
    let peer = Peer::start([ok()]).await;
    let sender = sender(Names::default());
    for _ in 0..3 {
        assert_eq!(answered(&sender.send(&attempt(&peer.url(), &json!({}))).await).status, 200);
    }
    assert_eq!((peer.requests().len(), peer.connections()), (3, 1));
}

#[tokio::test]
async fn cls_5_a_connection_that_was_closed_while_idle_costs_no_attempt() {
    for then in [Then::Close as fn(Vec<u8>) -> Then, Then::Reset] {
        let mut peer = Peer::start([then(answer("200 OK", &[], b"first")), ok()]).await;
        let sender = sender(Names::default());
        let sent = sender.send(&attempt(&peer.url(), &json!({}))).await;
        assert_eq!(answered(&sent).status, 200);
        assert_eq!(peer.event().await, Event::Ended);
        // The end is on this side of the wire; the next turn of the event loop sees it.
        tokio::task::yield_now().await;
        let sent = sender.send(&attempt(&peer.url(), &json!({}))).await;
        assert_eq!(answered(&sent).status, 200);
        assert_eq!(sent.excerpt.as_deref(), Some("thanks"));
        assert_eq!((peer.requests().len(), peer.connections()), (2, 2));
    }
}

#[tokio::test]
async fn attempts_side_by_side_do_not_wait_for_each_other() {
    let slow = Peer::start([Then::Hang]).await;
    let fast = Peer::start([ok()]).await;
    let sender = sender(Names::default());
    let (slow, fast) = (attempt(&slow.url(), &json!({})), attempt(&fast.url(), &json!({})));
    tokio::select! {
        biased;
        sent = sender.send(&slow) => panic!("{sent:?}"),
        sent = sender.send(&fast) => assert_eq!(answered(&sent).status, 200),
    }
}
