//! Any headers and any body as a request to the reference receiver: only what is signed reaches the store.
//!
//! Owns: what must hold of [`handle`] for one request (RCV-1, RCV-2, RCV-5), and a store that only counts.
//! Must not: say which events are valid; tables beside the parser do.
#![expect(clippy::expect_used, reason = "a broken promise is a panic here")]

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use lambda_http::http::{HeaderName, HeaderValue, Method, StatusCode};
use lambda_http::{Body, Request};
use lapse_aws::signer::{TOLERANCE_S, signature};
use lapse_policy::names::EventId;
use lapse_policy::ports::{Chance, Clock, Unavailable};
use lapse_policy::secret::Secret;
use lapse_policy::timestamp::Timestamp;
use lapse_receiver::decide::{Decision, Refusal, Reservation};
use lapse_receiver::event::Event;
use lapse_receiver::handler::handle;
use lapse_receiver::receive::{Receiver, Reservations, Stored};

use crate::header_lines::{self, Line};

/// Ten seconds after the hold in most seeds has ended.
const NOW: Timestamp = Timestamp::from_millis(1_796_040_010_000);
const SECRETS: [&str; 2] =
    ["whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];

/// Reads the bytes as header lines, an empty line and a body.
pub fn check(data: &[u8]) {
    let (lines, body) = header_lines::split(data);
    let secrets = SECRETS.map(|text| Secret::parse(text).expect("a secret"));
    let received = Received::of(&lines, body);
    match received.claim(&secrets) {
        None => received.is_refused(StatusCode::BAD_REQUEST, "its headers cannot be read"),
        Some(claim) if claim.genuine => signed_is_judged_by_its_content(&received, &claim.id),
        Some(_) => received.is_refused(StatusCode::UNAUTHORIZED, "it is not signed"),
    }
    let id = received.id().unwrap_or_else(|| EventId::parse("res_1:3").expect("an event id"));
    let signed = Received::signed(&secrets, id.as_str(), NOW.seconds(), body);
    signed_is_judged_by_its_content(&signed, &id);
    what_was_signed_is_only_that(&signed, &secrets);
}

/// A request as it was received.
#[derive(Clone)]
struct Received<'a> {
    headers: Vec<(HeaderName, HeaderValue)>,
    body: &'a [u8],
}

/// What a request says of itself, and whether it is so.
struct Claim {
    id: EventId,
    genuine: bool,
}

impl<'a> Received<'a> {
    fn of(lines: &[Line<'_>], body: &'a [u8]) -> Self {
        let header =
            |(name, value): &Line<'_>| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?));
        Self { headers: lines.iter().filter_map(header).collect(), body }
    }

    fn signed(secrets: &[Secret], id: &str, timestamp_s: i64, body: &'a [u8]) -> Self {
        let (stamp, signature) = (timestamp_s.to_string(), signature(secrets, id, timestamp_s, body));
        let received = Self { headers: Vec::new(), body };
        received.with("webhook-id", id).with("webhook-timestamp", &stamp).with("webhook-signature", &signature)
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(n, _)| n != name);
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_str(value).expect("visible")));
        self
    }

    fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        value.to_str().ok()
    }

    fn id(&self) -> Option<EventId> {
        EventId::parse(self.header("webhook-id")?).ok()
    }

    /// Verifies by signing once more, with one secret after the other: slower than the receiver, and simpler.
    fn claim(&self, secrets: &[Secret]) -> Option<Claim> {
        let (id, offered) = (self.id()?, self.header("webhook-signature")?);
        let timestamp_s: i64 = self.header("webhook-timestamp")?.parse().ok()?;
        let ours = signature(secrets, id.as_str(), timestamp_s, self.body);
        let matches = ours.split(' ').any(|one| offered.split(' ').any(|part| part == one));
        Some(Claim { id, genuine: matches && timestamp_s.abs_diff(NOW.seconds()) <= TOLERANCE_S })
    }

    /// The receiver's answer, and how often it called the store.
    fn answer(&self) -> (StatusCode, u32) {
        let calls = Cell::new(0);
        let secrets = SECRETS.map(|text| Secret::parse(text).expect("a secret")).to_vec();
        let receiver = Receiver { store: Counting(&calls), clock: Still, chance: NoChance, secrets };
        let mut request = Request::new(Body::from(self.body.to_vec()));
        *request.method_mut() = Method::POST;
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        let answering = pin!(handle(&receiver, request));
        let Poll::Ready(response) = answering.poll(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("nothing here waits")
        };
        (response.map_or_else(|never| match never {}, |response| response.status()), calls.get())
    }

    #[track_caller]
    fn is_refused(&self, expected: StatusCode, why: &str) {
        let (status, calls) = self.answer();
        assert_eq!(status, expected, "{why}");
        assert_eq!(calls, 0, "the store was called although {why}");
    }
}

/// RCV-1, RCV-5: the signature holds, so that only the event and the clock decide.
fn signed_is_judged_by_its_content(received: &Received<'_>, id: &EventId) {
    let (status, calls) = received.answer();
    let event = Event::parse(id.clone(), received.body);
    let (expected, stored) = match &event {
        Err(_) => (StatusCode::BAD_REQUEST, 0),
        Ok(event) if event.early_by(NOW).is_some() => (StatusCode::TOO_EARLY, 0),
        Ok(_) => (StatusCode::OK, 1),
    };
    assert_eq!((status, calls), (expected, stored), "{event:?}");
    if let Ok(event) = event {
        assert_eq!(id.as_str(), format!("{}:{}", event.reservation, event.version), "RCV-2: one event has one id");
    }
}

/// RCV-1: a signature is for one id, one instant and one body.
fn what_was_signed_is_only_that(signed: &Received<'_>, secrets: &[Secret]) {
    let is_refused = |received: Received<'_>, why| received.is_refused(StatusCode::UNAUTHORIZED, why);
    let id = signed.header("webhook-id").expect("signed");
    let (kept, last) = id.split_at(id.len() - 1);
    let other = format!("{kept}{}", if last == "0" { "1" } else { "0" });
    is_refused(signed.clone().with("webhook-id", &other), "its id was changed");
    let later = (NOW.seconds() + 1).to_string();
    is_refused(signed.clone().with("webhook-timestamp", &later), "its timestamp was changed");
    let longer = [signed.body, b" "].concat();
    is_refused(Received { body: &longer, ..signed.clone() }, "a byte was added");
    if let [first, rest @ ..] = signed.body {
        let changed = [&[first ^ 1], rest].concat();
        is_refused(Received { body: &changed, ..signed.clone() }, "a bit was changed");
    }
    let limit = i64::try_from(TOLERANCE_S).expect("minutes");
    for timestamp_s in [i64::MIN, NOW.seconds() - limit - 1, NOW.seconds() + limit + 1, i64::MAX] {
        is_refused(Received::signed(secrets, id, timestamp_s, signed.body), "it was signed at another time");
    }
}

/// A store that writes whatever it is asked to.
struct Counting<'a>(&'a Cell<u32>);

impl Counting<'_> {
    fn count(&self) {
        self.0.set(self.0.get() + 1);
    }
}

impl Reservations for Counting<'_> {
    async fn release(&self, _: &Event, _: Timestamp) -> Result<Stored, Unavailable> {
        self.count();
        Ok(Stored::Yes)
    }

    async fn refuse(&self, _: &Event, _: Refusal, _: Timestamp) -> Result<Stored, Unavailable> {
        self.count();
        Ok(Stored::Yes)
    }

    async fn decision(&self, _: &EventId) -> Result<Option<Decision>, Unavailable> {
        self.count();
        Ok(None)
    }

    async fn reservation(&self, _: &str) -> Result<Option<Reservation>, Unavailable> {
        self.count();
        Ok(None)
    }
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

struct NoChance;

impl Chance for NoChance {
    fn draw(&self) -> f64 {
        0.0
    }

    fn token(&self) -> String {
        String::new()
    }
}
