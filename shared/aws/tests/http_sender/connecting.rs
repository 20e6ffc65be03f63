//! CLS-5, OBS-4: what fails before a byte of the request is written.
//!
//! Owns: names, refusals and times. `tls.rs` has the handshake.

use std::net::Ipv4Addr;
use std::time::Duration;

use lapse_policy::classifier::Failure;
use lapse_policy::ports::Sender as _;
use reqwest::dns::{Name, Resolve, Resolving};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::attempts::{Names, attempt, failure, local_sender, ruled, send, send_in_short, sender};

/// A resolver that never answers.
struct Silence;

impl Resolve for Silence {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cls_5_a_port_that_no_one_listens_on_refuses() {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook?key=hidden", free.local_addr().expect("bound"));
    drop(free);
    let sent = send(&local_sender(), &url).await;
    assert_eq!((failure(&sent), ruled(&sent).0), (Failure::Refused, "CLS-5"));
    let excerpt = sent.excerpt.expect("the error");
    assert!(!excerpt.contains("hidden") && !excerpt.contains("/hook"), "OBS-4: {excerpt}");
    assert!(excerpt.len() <= 512);
}

#[tokio::test]
async fn cls_5_a_name_that_does_not_resolve() {
    let sent = send(&local_sender(), "http://hooks.example.com/hook").await;
    assert_eq!((failure(&sent), ruled(&sent).0), (Failure::Dns, "CLS-5"));
    let nowhere = sender(Names::of("hooks.example.com", &[]));
    let sent = nowhere.send(&attempt("http://hooks.example.com/", &json!({}))).await;
    assert_eq!(failure(&sent), Failure::Dns, "a name without an address");
}

#[tokio::test(start_paused = true)]
async fn cls_5_no_connection_in_time() {
    let begin = Instant::now();
    let sent = sender(Silence).send(&attempt("http://hooks.example.com/", &json!({}))).await;
    assert_eq!((failure(&sent), ruled(&sent).0), (Failure::ConnectTimeout, "CLS-5"));
    assert_eq!(begin.elapsed().as_secs(), 3, "connecting has a limit of its own");
    let begin = Instant::now();
    let sent = sender(Silence).send(&attempt("http://hooks.example.com/", &json!({"timeout_ms": 500}))).await;
    assert_eq!(failure(&sent), Failure::ConnectTimeout);
    assert!(begin.elapsed() < Duration::from_secs(1), "the attempt's own");
}

#[tokio::test]
async fn cls_5_a_listener_that_takes_no_more_connections() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
    let listener = socket.listen(1).expect("listening");
    let address = listener.local_addr().expect("bound");
    // Linux holds one more than asked for and drops what comes then.
    let _full = [TcpStream::connect(address).await.expect("held"), TcpStream::connect(address).await.expect("held")];
    let sent = send_in_short(&local_sender(), &format!("http://{address}/")).await;
    assert_eq!((failure(&sent), ruled(&sent).0), (Failure::ConnectTimeout, "CLS-5"), "{:?}", sent.excerpt);
}
