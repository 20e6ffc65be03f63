//! The HTTP sender over TLS and HTTP/2: CLS-5, CLS-6, SEC-1, I2.
//!
//! Owns: what plain HTTP does not show. Roots of trust are the system's, so the test that needs a trusted
//! certificate runs itself again with `SSL_CERT_FILE` set; a process cannot change its own environment safely.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::attempts::{Names, PAYLOAD, answered, attempt, failure, sender};
use lapse_policy::classifier::Failure;
use lapse_policy::ports::{Sender as _, Sent};
use rcgen::generate_simple_self_signed;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

const HOST: &str = "hooks.example.com";
/// Set for the run that trusts the certificate in this folder.
const TRUSTED: &str = "LAPSE_TEST_TRUSTED";

/// A certificate and its key, as PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn new() -> Self {
        let made = generate_simple_self_signed([HOST.to_owned()]).expect("a certificate");
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn write(&self, folder: &Path) {
        std::fs::write(folder.join("certificate.pem"), &self.certificate).expect("written");
        std::fs::write(folder.join("key.pem"), &self.key).expect("written");
    }

    fn read(folder: &Path) -> Self {
        let text = |name| std::fs::read_to_string(folder.join(name)).expect("written before");
        Self { certificate: text("certificate.pem"), key: text("key.pem") }
    }

    fn acceptor(&self, protocol: &str) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a pair");
        config.alpn_protocols = vec![protocol.into()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Serves every connection to a new listener.
async fn listen<F, S>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

async fn send(host: &'static str, address: SocketAddr, fields: &Value) -> Sent {
    let url = format!("https://{host}:{}/hook", address.port());
    sender(Names::of(host, &["127.0.0.1"])).send(&attempt(&url, fields)).await
}

#[tokio::test]
async fn cls_5_a_peer_that_does_not_speak_tls() {
    let address = listen(|mut stream| async move {
        // It may be gone already.
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    assert_eq!(failure(&send(HOST, address.await, &json!({})).await), Failure::Tls);
}

#[tokio::test]
async fn cls_5_a_certificate_that_no_one_vouches_for() {
    let acceptor = Identity::new().acceptor("h2");
    let address = listen(move |stream| {
        let acceptor = acceptor.clone();
        async move { assert!(acceptor.accept(stream).await.is_err(), "the sender must refuse") }
    });
    assert_eq!(failure(&send(HOST, address.await, &json!({})).await), Failure::Tls);
}

#[tokio::test]
async fn cls_5_a_connection_lost_in_the_handshake_is_a_known_outcome() {
    let address = listen(|mut stream| async move {
        let _ = stream.read(&mut [0; 16]).await;
    });
    assert_eq!(failure(&send(HOST, address.await, &json!({})).await), Failure::Reset);
}

#[tokio::test]
async fn cls_5_a_handshake_that_does_not_end_is_no_unknown_outcome() {
    let address = listen(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    assert_eq!(failure(&send(HOST, address.await, &json!({"timeout_ms": 150})).await), Failure::ConnectTimeout);
}

/// What the HTTP/2 receiver does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Answer,
    Hang,
    Refuse,
    NoWindow,
    HugeHead,
}

/// What it saw.
#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    requests: Vec<(http::request::Parts, Vec<u8>)>,
}

async fn h2_peer(identity: &Identity, then: Then) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (acceptor, shared) = (identity.acceptor("h2"), Arc::clone(&seen));
    let address = listen(move |stream| {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&shared));
        async move {
            let Ok(tls) = acceptor.accept(stream).await else { return };
            seen.lock().expect("not poisoned").connections += 1;
            serve_h2(tls, then, &seen).await;
        }
    });
    (address.await, seen)
}

async fn serve_h2(tls: TlsStream<TcpStream>, then: Then, seen: &Arc<Mutex<Seen>>) {
    let mut builder = h2::server::Builder::new();
    if then == Then::NoWindow {
        builder.initial_window_size(0);
    }
    let mut connection = builder.handshake::<_, bytes::Bytes>(tls).await.expect("HTTP/2");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let seen = Arc::clone(seen);
        tokio::spawn(async move {
            let (head, mut stream) = request.into_parts();
            let mut body = Vec::new();
            // Without a window there is no body to wait for.
            while then != Then::NoWindow
                && let Some(Ok(data)) = stream.data().await
            {
                body.extend_from_slice(&data);
            }
            seen.lock().expect("not poisoned").requests.push((head, body));
            match then {
                Then::Answer => {
                    let mut stream = respond.send_response(http::Response::new(()), false).expect("open");
                    stream.send_data("thanks".into(), true).expect("open");
                }
                Then::HugeHead => {
                    let mut head = http::Response::new(());
                    head.headers_mut().insert("x", "a".repeat(1 << 20).parse().expect("a value"));
                    respond.send_response(head, true).expect("open");
                }
                Then::Refuse => respond.send_reset(h2::Reason::REFUSED_STREAM),
                Then::Hang | Then::NoWindow => std::future::pending().await,
            }
        });
    }
}

#[test]
fn over_http_2_as_over_http_1() {
    if let Some(folder) = std::env::var_os(TRUSTED) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        return runtime.block_on(trusted(&Identity::read(Path::new(&folder))));
    }
    let folder = tempfile::tempdir().expect("a folder");
    Identity::new().write(folder.path());
    let again = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "tls::over_http_2_as_over_http_1", "--nocapture"])
        .env("SSL_CERT_FILE", folder.path().join("certificate.pem"))
        .env(TRUSTED, folder.path())
        .status()
        .expect("started");
    assert!(again.success());
}

async fn trusted(identity: &Identity) {
    i2_the_request_is_the_same(identity).await;
    cls_6_an_unknown_outcome_is_unknown(identity).await;
    cls_5_a_certificate_for_another_name(identity).await;
}

async fn i2_the_request_is_the_same(identity: &Identity) {
    let (address, seen) = h2_peer(identity, Then::Answer).await;
    let sender = sender(Names::of(HOST, &["127.0.0.1"]));
    // SEC-1: https needs no `allow_http`.
    let attempt = attempt(&format!("https://{HOST}:{}/hook", address.port()), &json!({"allow_http": false}));
    for _ in 0..2 {
        let sent = sender.send(&attempt).await;
        assert_eq!((answered(&sent).status, sent.excerpt.as_deref()), (200, Some("thanks")));
    }
    let seen = seen.lock().expect("not poisoned");
    assert_eq!((seen.connections, seen.requests.len()), (1, 2), "one connection serves both");
    for (head, body) in &seen.requests {
        assert_eq!(head.version, http::Version::HTTP_2);
        assert_eq!(head.headers["webhook-id"], "res_8472:3");
        assert_eq!(head.headers["content-length"], PAYLOAD.len().to_string().as_str());
        assert_eq!(body, PAYLOAD.as_bytes());
    }
}

async fn cls_6_an_unknown_outcome_is_unknown(identity: &Identity) {
    let cases = [
        (Then::Hang, "no answer"),
        (Then::Refuse, "a refused stream is not sent again: the attempt was one request"),
        (Then::NoWindow, "the head went out, the body could not"),
        (Then::HugeHead, "a head of 1 MB is not read"),
    ];
    for (then, label) in cases {
        let (address, seen) = h2_peer(identity, then).await;
        let sent = send(HOST, address, &json!({"timeout_ms": 500})).await;
        assert_eq!(failure(&sent), Failure::NoAnswer, "{label}: {:?}", sent.excerpt);
        assert_eq!(seen.lock().expect("not poisoned").requests.len(), 1, "{label}");
    }
}

async fn cls_5_a_certificate_for_another_name(identity: &Identity) {
    let (address, seen) = h2_peer(identity, Then::Answer).await;
    assert_eq!(failure(&send("other.example.com", address, &json!({})).await), Failure::Tls);
    assert!(seen.lock().expect("not poisoned").requests.is_empty());
}
