//! The scripted partner over real HTTP: what each script does, and what is remembered of it.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lapse_local::partner::{Ending, Lose, MOST_BODY, Partner, Reply, Script, Seen};
use reqwest::{Client, RequestBuilder, Response};
use tokio::task::JoinSet;

fn client() -> Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

fn post(client: &Client, url: &str, event: &str, body: &str) -> RequestBuilder {
    client.post(url).header("webhook-id", event).header("idempotency-key", event).body(body.to_owned())
}

async fn send(client: &Client, url: &str, event: &str) -> Response {
    post(client, url, event, "{}").send().await.unwrap()
}

fn retry_after(response: &Response) -> Option<&str> {
    response.headers().get("retry-after").map(|value| value.to_str().unwrap())
}

fn endings(seen: &[Seen]) -> Vec<Ending> {
    seen.iter().map(|one| one.ending).collect()
}

/// A partner with one destination.
fn partner(script: Script) -> (Partner, String, Client) {
    let partner = Partner::start().unwrap();
    partner.set("catalog", script);
    let url = partner.url("catalog");
    (partner, url, client())
}

#[tokio::test]
async fn what_was_sent_is_remembered() {
    let (partner, url, client) = partner(Script::Accept);
    let body = r#"{"n":1}"#;
    let request = post(&client, &url, "a:1", body).header("webhook-attempt", "2");
    assert_eq!(request.send().await.unwrap().status(), 200);
    let seen = partner.requests("catalog");
    let [one] = seen.as_slice() else { panic!("one request: {seen:?}") };
    assert_eq!((one.name.as_str(), one.event.as_str(), one.attempt), ("catalog", "a:1", Some(2)));
    assert_eq!((one.idempotency_key.as_deref(), one.in_flight), (Some("a:1"), 1));
    assert_eq!(one.body.as_deref(), Some(body.as_bytes()));
    assert_eq!(one.body_sha256[..4], [0x2b, 0xfd, 0x14, 0xf4], "SHA-256 of the body");
    assert_eq!((one.ending, one.retry_after, one.not_before_ms), (Ending::Answered(200), None, None));
    assert!(one.arrived_ms > 1_700_000_000_000);
}

#[tokio::test]
async fn an_unknown_destination_is_404_and_not_remembered() {
    let (partner, _, client) = partner(Script::Accept);
    assert_eq!(send(&client, &partner.url("other"), "a:1").await.status(), 404);
    assert!(partner.requests("other").is_empty());
    assert_eq!(partner.refused(), 0);
}

#[tokio::test]
async fn a_long_body_is_remembered_by_its_hash_alone() {
    let (partner, url, client) = partner(Script::Accept);
    for length in [MOST_BODY, MOST_BODY + 1] {
        post(&client, &url, "a:1", &"x".repeat(length)).send().await.unwrap();
    }
    let kept: Vec<_> = partner.requests("catalog").iter().map(|one| one.body.is_some()).collect();
    assert_eq!(kept, [true, false]);
    assert_eq!(partner.checks("catalog").changed, BTreeSet::from(["a:1".to_owned()]), "I2");
    let too_long = post(&client, &url, "a:1", &"x".repeat(1024 * 1024 + 1)).send().await;
    assert!(too_long.is_err() || too_long.is_ok_and(|response| response.status() == 413));
}

#[tokio::test]
async fn a_bucket_refuses_what_is_over_its_limit_and_says_for_how_long() {
    let (partner, url, client) = partner(Script::Bucket { limit_per_second: 1, burst: 2 });
    let mut tasks = JoinSet::new();
    for n in 0..12 {
        let (client, url) = (client.clone(), url.clone());
        tasks.spawn(async move { send(&client, &url, &format!("a:{n}")).await });
    }
    let answers = tasks.join_all().await;
    for refused in answers.iter().filter(|response| response.status() != 200) {
        assert_eq!((refused.status().as_u16(), retry_after(refused)), (429, Some("1")));
    }
    let checks = partner.checks("catalog");
    let seen = partner.requests("catalog");
    let took = seen.last().unwrap().arrived.saturating_sub(seen[0].arrived);
    let accepted = checks.statuses[&200];
    assert!((2..=2 + usize::try_from(took.as_secs()).unwrap()).contains(&accepted), "{checks:?} in {took:?}");
    assert_eq!(checks.statuses.values().sum::<usize>(), 12);
    for one in seen.iter().filter(|one| one.retry_after.is_some()) {
        assert!(one.not_before_ms.unwrap() >= one.arrived_ms + 1000);
    }
}

#[tokio::test]
async fn a_bucket_may_refuse_one_request_that_it_has_a_token_for() {
    let script = Script::BucketBut { limit_per_second: 1, burst: 3, nth: 2, retry_after: 5 };
    let (partner, url, client) = partner(script);
    for (event, status, asked) in [("a:1", 200, None), ("b:1", 429, Some("5")), ("b:1", 200, None)] {
        let response = send(&client, &url, event).await;
        assert_eq!((response.status().as_u16(), retry_after(&response)), (status, asked), "{event}");
    }
    assert_eq!(partner.checks("catalog").statuses, [(200, 2), (429, 1)].into());
}

#[tokio::test]
async fn each_event_walks_a_sequence_on_its_own_and_the_last_reply_repeats() {
    let slow = Reply::status(503).after(Duration::from_millis(5));
    let (partner, url, client) =
        partner(Script::Sequence(vec![Reply::status(429).retry_after(7), slow, Reply::status(201)]));
    for expected in [429, 503, 201, 201] {
        for event in ["a:1", "b:1"] {
            let response = send(&client, &url, event).await;
            assert_eq!(response.status().as_u16(), expected, "{event}");
            assert_eq!(retry_after(&response), (expected == 429).then_some("7"), "{event}");
        }
    }
    assert_eq!(partner.checks("catalog").statuses, [(201, 4), (429, 2), (503, 2)].into());
    partner.set("catalog", Script::Sequence(Vec::new()));
    assert_eq!(send(&client, &url, "a:1").await.status(), 200, "an empty one accepts");
    assert_eq!(partner.checks("catalog").requests, 9, "what was seen stays");
}

#[tokio::test]
async fn i7_a_request_before_what_was_asked_is_early() {
    let (partner, url, client) =
        partner(Script::Sequence(vec![Reply::status(503).retry_after(60), Reply::status(200)]));
    send(&client, &url, "a:1").await;
    send(&client, &url, "b:1").await;
    send(&client, &url, "a:1").await;
    let seen = partner.requests("catalog");
    assert_eq!(seen[0].not_before_ms, seen[2].event_not_before_ms);
    assert_eq!(seen[1].event_not_before_ms, None, "another event was not asked");
    assert_eq!(seen[1].destination_not_before_ms, seen[0].not_before_ms, "but its destination asked");
    assert_eq!(partner.checks("catalog").early, [seen[2].clone()]);
}

#[tokio::test]
async fn nothing_comes_back_from_a_partner_that_hangs_or_resets() {
    let (partner, url, client) = partner(Script::Reset);
    let error = send_lost(&client, &url, "a:1").await;
    assert!(error.is_request() && !error.is_connect() && !error.is_timeout(), "{error:?}");
    assert_eq!(endings(&partner.requests("catalog")), [Ending::Reset]);

    partner.set("catalog", Script::Hang);
    let hanging = post(&client, &url, "a:2", "{}").timeout(Duration::from_millis(50)).send().await.unwrap_err();
    assert!(hanging.is_timeout(), "{hanging:?}");
    partner.set("catalog", Script::Accept);
    until(|| partner.requests("catalog")[1].ending != Ending::Open).await;
    assert_eq!(send(&client, &url, "a:3").await.status(), 200);
    let seen = partner.requests("catalog");
    assert_eq!(endings(&seen), [Ending::Reset, Ending::Left, Ending::Answered(200)]);
    assert_eq!(seen[2].in_flight, 1, "the one that left is not counted any more");
}

/// Waits for what the partner's own thread is about to do.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

async fn send_lost(client: &Client, url: &str, event: &str) -> reqwest::Error {
    post(client, url, event, "{}").send().await.unwrap_err()
}

#[tokio::test]
async fn a_forwarding_partner_passes_all_on_and_loses_the_first_2xx_of_some() {
    let behind = Partner::start().unwrap();
    behind.set("receiver", Script::Sequence(vec![Reply::status(503).retry_after(3), Reply::status(200)]));
    let forward = |lose_answers| Script::Forward { url: behind.url("receiver"), lose_answers };
    let (partner, url, client) = partner(forward(Lose::First(2)));
    for event in ["a:1", "b:1", "c:1"] {
        let refused = send(&client, &url, event).await;
        assert_eq!((refused.status().as_u16(), retry_after(&refused)), (503, Some("3")), "no commit, nothing lost");
    }
    for event in ["b:1", "a:1"] {
        let error = send_lost(&client, &url, event).await;
        assert!(error.is_request() && !error.is_connect(), "{error:?}");
    }
    assert_eq!(send(&client, &url, "c:1").await.status(), 200, "only the first two to arrive");
    assert_eq!(send(&client, &url, "a:1").await.status(), 200, "only once");
    let lost = partner.requests("catalog").iter().filter(|one| one.ending == Ending::Lost(200)).count();
    assert_eq!(lost, 2);
    // The server behind saw the same, byte for byte.
    let (front, back) = (partner.requests("catalog"), behind.requests("receiver"));
    let essence = |seen: &[Seen]| -> Vec<_> {
        seen.iter().map(|one| (one.event.clone(), one.idempotency_key.clone(), one.body_sha256)).collect()
    };
    assert_eq!(essence(&front), essence(&back));
    assert_eq!(front[0].retry_after, Some(3), "the ask of the server behind is this destination's");

    partner.set("catalog", forward(Lose::Of(["d:1".to_owned()].into())));
    behind.set("receiver", Script::Accept);
    assert_eq!(send(&client, &url, "e:1").await.status(), 200);
    send_lost(&client, &url, "d:1").await;
    assert_eq!(send(&client, &url, "d:1").await.status(), 200);
}

#[tokio::test]
async fn a_forwarding_partner_with_nothing_behind_it_is_a_bad_gateway() {
    let behind = Partner::start().unwrap();
    let gone = behind.url("receiver");
    drop(behind);
    let (partner, url, client) = partner(Script::Forward { url: gone, lose_answers: Lose::First(9) });
    assert_eq!(send(&client, &url, "a:1").await.status(), 502);
    assert_eq!(endings(&partner.requests("catalog")), [Ending::Answered(502)]);
}

#[tokio::test]
async fn a_partner_ends_with_its_owner_whatever_still_hangs() {
    let (partner, url, client) = partner(Script::Hang);
    let hanging = tokio::spawn(post(&client, &url, "a:1", "{}").send());
    until(|| !partner.requests("catalog").is_empty()).await;
    drop(partner);
    assert!(hanging.await.unwrap().is_err());
    assert!(send_lost(&client, &url, "a:2").await.is_connect(), "no one listens any more");
}

#[tokio::test]
async fn i5_requests_at_once_are_counted_as_such() {
    let (partner, url, client) = partner(Script::Hang);
    let mut tasks = JoinSet::new();
    for n in 1..=4 {
        tasks.spawn(post(&client, &url, &format!("a:{n}"), "{}").send());
        until(|| partner.requests("catalog").len() == n).await;
    }
    let in_flight: Vec<_> = partner.requests("catalog").iter().map(|one| one.in_flight).collect();
    assert_eq!(in_flight, [1, 2, 3, 4]);
    let checks = partner.checks("catalog");
    assert_eq!((checks.most_in_flight, checks.events), (4, 4));
    tasks.shutdown().await;
    until(|| endings(&partner.requests("catalog")) == [Ending::Left; 4]).await;
}
