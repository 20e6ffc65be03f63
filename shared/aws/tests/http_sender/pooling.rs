//! CLS-5, I2: connections that serve more than one attempt.
//!
//! Owns: that a kept connection costs no attempt when it is gone, and that nothing left on it answers a later request.

use std::thread;

use lapse_aws::http_sender::HttpSender;
use lapse_policy::ports::Sender as _;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::attempts::{answered, attempt, local_sender, ruled};
use crate::peer::{Event, Peer, Then, answer};

fn ok() -> Then {
    Then::Answer(answer("200 OK", &[], b"thanks"))
}

#[tokio::test]
async fn one_connection_serves_many_attempts() {
    let peer = Peer::start([ok()]).await;
    let sender = local_sender();
    for _ in 0..3 {
        assert_eq!(answered(&sender.send(&attempt(&peer.url(), &json!({}))).await).status, 200);
    }
    assert_eq!((peer.requests().len(), peer.connections()), (3, 1));
}

#[tokio::test]
async fn attempts_side_by_side_do_not_wait_for_each_other() {
    let slow = Peer::start([Then::Hang(Vec::new())]).await;
    let fast = Peer::start([ok()]).await;
    let sender = local_sender();
    let (slow, fast) = (attempt(&slow.url(), &json!({})), attempt(&fast.url(), &json!({})));
    tokio::select! {
        biased;
        sent = sender.send(&slow) => panic!("{sent:?}"),
        sent = sender.send(&fast) => assert_eq!(answered(&sent).status, 200),
    }
}

#[tokio::test]
async fn cls_5_a_connection_that_was_closed_while_idle_costs_no_attempt() {
    for then in [Then::Close as fn(Vec<u8>) -> Then, Then::Reset] {
        let mut peer = Peer::start([then(answer("200 OK", &[], b"first")), ok()]).await;
        let sender = local_sender();
        let sent = sender.send(&attempt(&peer.url(), &json!({}))).await;
        assert_eq!(answered(&sent).status, 200);
        assert_eq!(peer.event().await, Event::Ended);
        let sent = sender.send(&attempt(&peer.url(), &json!({}))).await;
        assert_eq!(answered(&sent).status, 200);
        assert_eq!(sent.excerpt.as_deref(), Some("thanks"));
        assert_eq!((peer.requests().len(), peer.connections()), (2, 2));
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A peer that goes on while the test's own runtime stands still; it ends when the second value is dropped.
fn elsewhere(script: impl Into<Vec<Then>>) -> (Peer, oneshot::Sender<()>) {
    let (script, (started, peer)) = (script.into(), oneshot::channel());
    let (keep, dropped) = oneshot::channel::<()>();
    thread::spawn(move || {
        runtime().block_on(async {
            // The test has failed if no one takes it.
            let _ = started.send(Peer::start(script).await);
            let _ = dropped.await;
        });
    });
    (peer.blocking_recv().expect("started"), keep)
}

#[test]
fn cls_5_a_connection_that_was_closed_while_the_sandbox_was_frozen_is_no_attempt_and_no_second_request() {
    let first = || answer("200 OK", &[], b"first");
    for (label, end) in [
        ("closed", Then::Close(Vec::new())),
        ("reset", Then::Reset(Vec::new())),
        ("closed with an answer that no one asked for", Then::Close(answer("500 Oops", &[], b"forged"))),
    ] {
        let (mut peer, _keep) = elsewhere([Then::Later(first(), Box::new(end)), ok()]);
        let attempt = attempt(&peer.url(), &json!({}));
        let (sandbox, sender) = (runtime(), local_sender());
        assert_eq!(answered(&sandbox.block_on(sender.send(&attempt))).status, 200, "{label}");
        // A runtime of one thread does nothing outside `block_on`, as a sandbox does nothing between invocations.
        peer.go();
        assert_eq!(runtime().block_on(peer.event()), Event::Ended, "{label}");
        assert_eq!(peer.requests().len(), 1, "{label}");
        let sent = sandbox.block_on(sender.send(&attempt));
        assert_eq!(ruled(&sent), ("CLS-1", Some(200)), "{label}: {:?}", sent.excerpt);
        assert_eq!(sent.excerpt.as_deref(), Some("thanks"), "{label}");
        assert_eq!((peer.requests().len(), peer.connections()), (2, 2), "{label}: one request for each attempt");
    }
}

#[tokio::test]
async fn i2_what_follows_an_answer_does_not_answer_the_next_request() {
    let sender = local_sender();
    let forged = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged".as_slice();
    for (label, first) in [
        ("after a length", b"HTTP/1.1 500 Oops\r\ncontent-length: 5\r\n\r\nfirst".as_slice()),
        ("after no body", b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"),
        ("after a status without a body", b"HTTP/1.1 204 No Content\r\ncontent-length: 44\r\n\r\n"),
        ("after chunks", b"HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n"),
        (
            "after chunks with a length of all",
            b"HTTP/1.1 500 Oops\r\ncontent-length: 49\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("after other protocols", b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n"),
        ("after HTTP/1.0", b"HTTP/1.0 500 Oops\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nfirst"),
    ] {
        let both = [first, forged].concat();
        let second = Then::Answer(answer("503 Busy", &[], b"second"));
        let peer = Peer::start([Then::Answer(both), second.clone()]).await;
        check_next(&format!("{label}, at once"), &peer, &sender).await;

        let mut peer =
            Peer::start([Then::Later(first.to_vec(), Box::new(Then::Answer(forged.to_vec()))), second]).await;
        sender.send(&attempt(&peer.url(), &json!({}))).await;
        peer.go();
        assert_eq!(peer.event().await, Event::Gone, "{label}, later: the connection is given up");
        let sent = sender.send(&attempt(&peer.url(), &json!({}))).await;
        assert_eq!((ruled(&sent), sent.excerpt.as_deref()), (("CLS-4", Some(503)), Some("second")), "{label}, later");
        assert_eq!((peer.requests().len(), peer.connections()), (2, 2), "{label}, later");
    }
}

async fn check_next(label: &str, peer: &Peer, sender: &HttpSender) {
    let attempt = attempt(&peer.url(), &json!({}));
    sender.send(&attempt).await;
    let sent = sender.send(&attempt).await;
    assert_eq!((ruled(&sent), sent.excerpt.as_deref()), (("CLS-4", Some(503)), Some("second")), "{label}");
    assert_eq!((peer.requests().len(), peer.connections()), (2, 2), "{label}");
}
