//! CLS-1, CLS-3, CLS-6, CLS-7: an answer that comes before the request is sent.
//!
//! Owns: bodies that do not fit the sockets' buffers, so that the peer's answer meets a request that is still being
//! written. The client reads before it writes whenever it wakes, so an answer that has arrived is the outcome. Where
//! the connection's end is met by a write first, there is no answer, and the outcome is unknown: never "not delivered".

use lapse_aws::http_sender::HttpSender;
use lapse_policy::ports::{Attempt, Sender as _};
use serde_json::json;

use crate::attempts::{attempt, local_sender, ruled};
use crate::peer::{Peer, Then, answer};

/// The largest payload, and one that two sockets' buffers cannot hold.
const PAYLOADS: [usize; 2] = [256 << 10, 12 << 20];

async fn check(sender: &HttpSender, label: &str, then: Then, expected: (&str, Option<u16>)) {
    for payload in PAYLOADS {
        let peer = Peer::start([Then::Early(Box::new(then.clone()))]).await;
        let attempt = Attempt { payload: "1".repeat(payload).into(), ..attempt(&peer.url(), &json!({})) };
        let sent = sender.send(&attempt).await;
        assert_eq!(ruled(&sent), expected, "{label}, {payload} bytes: {:?}", sent.excerpt);
        assert_eq!(peer.requests().len(), 1, "{label}, {payload} bytes: an attempt is one request");
    }
}

#[tokio::test]
async fn cls_7_an_early_413_is_the_outcome() {
    let sender = local_sender();
    let too_large = answer("413 Content Too Large", &[("connection", "close")], b"at most 64 KiB");
    check(&sender, "and the body is still read", Then::Answer(too_large.clone()), ("CLS-7", Some(413))).await;
    check(&sender, "and the connection closed", Then::Close(too_large.clone()), ("CLS-7", Some(413))).await;
    check(&sender, "and the connection reset", Then::Reset(too_large), ("CLS-7", Some(413))).await;
}

#[tokio::test]
async fn cls_3_an_early_429_is_the_outcome() {
    let sender = local_sender();
    let busy = answer("429 Too Many Requests", &[("retry-after", "9")], b"");
    check(&sender, "and the connection closed", Then::Close(busy), ("CLS-3", Some(429))).await;
}

#[tokio::test]
async fn cls_1_an_early_200_is_the_outcome() {
    let sender = local_sender();
    let thanks = answer("200 OK", &[], b"thanks");
    check(&sender, "and the body is still read", Then::Answer(thanks.clone()), ("CLS-1", Some(200))).await;
    check(&sender, "and the connection closed", Then::Close(thanks), ("CLS-1", Some(200))).await;
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of".to_vec();
    check(&sender, "and its own body cut short", Then::Reset(cut), ("CLS-1", Some(200))).await;
}

#[tokio::test]
async fn cls_6_a_connection_lost_while_the_request_is_written_is_an_unknown_outcome() {
    let sender = local_sender();
    check(&sender, "closed", Then::Close(Vec::new()), ("CLS-6", None)).await;
    check(&sender, "reset", Then::Reset(Vec::new()), ("CLS-6", None)).await;
    check(&sender, "closed in the head", Then::Close(b"HTTP/1.1 413 Content".to_vec()), ("CLS-6", None)).await;
    check(&sender, "after an interim answer", Then::Reset(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()), ("CLS-6", None))
        .await;
}
