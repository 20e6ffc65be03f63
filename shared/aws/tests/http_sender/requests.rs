//! I2, SEC-4: what the destination gets.
//!
//! Owns: the request's bytes as they arrive. Must not: test which headers a destination may have; that is the policy's.

use std::sync::Arc;

use lapse_aws::signer;
use lapse_aws::system::SystemClock;
use lapse_policy::destination::Destination;
use lapse_policy::ports::{Attempt, Clock as _, Sender as _};
use lapse_policy::secret::Secret;
use serde_json::json;
use standardwebhooks::Webhook;

use crate::attempts::{PAYLOAD, SECRET, attempt, local_sender, start};
use crate::peer::{Peer, Request, Then, answer};

/// The secret that is to replace [`SECRET`].
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn ok() -> Then {
    Then::Answer(answer("200 OK", &[], b"thanks"))
}

#[track_caller]
fn check(request: &Request, name: &str, value: &str) {
    assert_eq!(request.values(name), [value], "{name}");
}

#[tokio::test]
async fn i2_the_destination_gets_these_headers_and_the_payloads_own_bytes() {
    let peer = Peer::start([ok()]).await;
    local_sender().send(&attempt(&peer.url(), &json!({}))).await;
    let request = &peer.requests()[0];
    assert_eq!(request.line(), "POST /hook?key=hidden HTTP/1.1");
    assert_eq!(request.body, PAYLOAD.as_bytes());
    let stamp = start().seconds();
    let secret = Secret::parse(SECRET).expect("a secret");
    let signature = signer::signature(&[secret], "res_8472:3", stamp, PAYLOAD.as_bytes());
    check(request, "content-type", "application/json");
    check(request, "content-length", &PAYLOAD.len().to_string());
    check(request, "webhook-id", "res_8472:3");
    check(request, "idempotency-key", "res_8472:3");
    check(request, "webhook-timestamp", &stamp.to_string());
    check(request, "webhook-signature", &signature);
    check(request, "webhook-attempt", "2");
    check(request, "user-agent", concat!("lapse/", env!("CARGO_PKG_VERSION")));
    check(request, "host", &peer.address.to_string());
    check(request, "accept-encoding", "gzip");
    for absent in ["transfer-encoding", "content-encoding", "connection", "expect", "referer"] {
        assert!(request.values(absent).is_empty(), "{absent}");
    }
}

#[tokio::test]
async fn i2_each_attempt_has_its_own_time_and_the_same_id_and_bytes() {
    let peer = Peer::start([Then::Answer(answer("503 Busy", &[], b""))]).await;
    let sender = local_sender();
    let first = attempt(&peer.url(), &json!({}));
    let second = Attempt { number: 3, at: start().plus(std::time::Duration::from_secs(90)), ..first.clone() };
    for attempt in [&first, &second] {
        sender.send(attempt).await;
    }
    let [first, second] = peer.requests().try_into().expect("two requests");
    for same in ["webhook-id", "idempotency-key", "content-length"] {
        assert_eq!(first.values(same), second.values(same), "{same}");
    }
    assert_eq!(first.body, second.body);
    let stamp = |request: &Request| request.values("webhook-timestamp")[0].parse::<i64>().expect("seconds");
    assert_eq!(stamp(&second) - stamp(&first), 90);
    assert_ne!(first.values("webhook-signature"), second.values("webhook-signature"));
    assert_eq!((first.values("webhook-attempt"), second.values("webhook-attempt")), (vec!["2"], vec!["3"]));
}

#[tokio::test]
async fn sec_4_whoever_has_one_of_the_live_secrets_can_verify_what_arrives() {
    let peer = Peer::start([ok()]).await;
    // The other implementation has a clock of its own, so that this attempt starts now.
    let rotating = attempt(&peer.url(), &json!({"secrets": [NEW, SECRET]}));
    local_sender().send(&Attempt { at: SystemClock.now(), ..rotating }).await;
    let request = &peer.requests()[0];
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, request.values(name)[0].parse().expect("a value"));
    }
    let verify = |secret: &str, body: &[u8]| Webhook::new(secret).expect("a secret").verify(body, &headers);
    for secret in [NEW, SECRET] {
        verify(secret, &request.body).expect("genuine");
        assert!(verify(secret, b"{}").is_err(), "another body");
    }
    let third = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    assert!(verify(third, &request.body).is_err(), "a secret that is not live");
    let signatures = request.values("webhook-signature")[0];
    assert_eq!(signatures.split(' ').filter(|one| one.starts_with("v1,")).count(), 2, "one for each");
}

#[tokio::test]
async fn sec_4_a_destinations_own_headers_arrive_as_they_are_beside_ours() {
    let peer = Peer::start([ok()]).await;
    let own = json!({
        "X-Team": "studio", "Authorization": "Bearer a.b-c_d~e+f/g=", "x-odd!#$%&'*+-.^_`|~": "\"q\"; a, b:c\\", "x-empty": "",
        "Cookie": "a=b; c=d", "Accept": "application/json", "Date": "Sun, 01 Mar 2026 12:00:00 GMT",
    });
    local_sender().send(&attempt(&peer.url(), &json!({"headers": own}))).await;
    let request = &peer.requests()[0];
    for (name, value) in own.as_object().expect("an object") {
        check(request, name, value.as_str().expect("a text"));
    }
    check(request, "webhook-id", "res_8472:3");
    check(request, "content-length", &PAYLOAD.len().to_string());
    assert_eq!(request.body, PAYLOAD.as_bytes());
}

#[tokio::test]
async fn sec_4_a_request_names_its_host_once_and_shows_no_secret() {
    let peer = Peer::start([ok()]).await;
    let attempt = attempt(&peer.url(), &json!({"secrets": [NEW, SECRET], "headers": {"X-Key": "hunter2"}}));
    let Attempt { destination, .. } = &attempt;
    let shown = format!("{attempt:?} {:?}", Destination::clone(destination));
    for hidden in [NEW, SECRET, "hunter2"] {
        assert!(!shown.contains(hidden.trim_start_matches("whsec_")), "{hidden}");
    }
    local_sender().send(&Attempt { destination: Arc::clone(destination), ..attempt.clone() }).await;
    let request = &peer.requests()[0];
    assert_eq!(request.values("host").len(), 1);
    assert!(!request.line().contains("whsec_"));
}
