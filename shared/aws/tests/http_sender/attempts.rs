//! Attempts, senders and the reading of how an attempt ended.
//!
//! Owns: what all tests of the sender start from. Must not: open a socket.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lapse_aws::http_sender::HttpSender;
use lapse_policy::classifier::{Answer, Context, Failure, Outcome, StatusLists, classify};
use lapse_policy::destination::Destination;
use lapse_policy::guard::AllowList;
use lapse_policy::names::{DestinationName, EventId};
use lapse_policy::ports::{Attempt, Sender as _, Sent};
use lapse_policy::timestamp::Timestamp;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::{Value, json};

/// The payload of every attempt: odd white space and escapes, which must arrive as they are.
pub(crate) const PAYLOAD: &str = "{ \"n\" : 1.0e2,\t\"name\": \"Zo\u{eb} \\u00e9\" }";
/// The destination's secret.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// When every attempt starts.
pub(crate) fn start() -> Timestamp {
    Timestamp::parse("2026-03-01T12:00:00Z").expect("valid")
}

/// An attempt at a URL, with these fields of the destination's row.
pub(crate) fn attempt(url: &str, fields: &Value) -> Attempt {
    // The row's own check would refuse a URL that the sender must refuse as well: it is put in afterwards.
    let fine = "https://hooks.example.com/";
    let mut row = json!({"url": fine, "secrets": [SECRET], "allow_http": true, "timeout_ms": 20_000});
    let fields = fields.as_object().expect("an object").clone();
    let row = row.as_object_mut().expect("an object");
    row.extend(fields);
    let name = DestinationName::parse("catalog").expect("valid");
    let destination = Destination::parse(&name, row).expect("a destination");
    Attempt {
        destination: Arc::new(Destination { url: url.to_owned(), ..destination }),
        id: EventId::parse("res_8472:3").expect("valid"),
        payload: PAYLOAD.into(),
        number: 2,
        at: start(),
    }
}

/// A sender that may call 127.0.0.0/8 and knows the names that a test gives it.
pub(crate) fn sender(names: impl Resolve + 'static) -> HttpSender {
    let allow = AllowList::parse("127.0.0.0/8").expect("a range");
    HttpSender::with_resolver(allow, Arc::new(names)).expect("a sender")
}

/// A sender that may call no address but public ones.
pub(crate) fn strict_sender(names: impl Resolve + 'static) -> HttpSender {
    HttpSender::with_resolver(AllowList::default(), Arc::new(names)).expect("a sender")
}

/// A sender that may call 127.0.0.0/8 and knows no names. It reads the system's root certificates, so a test makes
/// one for all its cases.
pub(crate) fn local_sender() -> HttpSender {
    sender(Names::default())
}

/// Sends one attempt to a URL with an address in it.
pub(crate) async fn send(sender: &HttpSender, url: &str) -> Sent {
    sender.send(&attempt(url, &json!({}))).await
}

/// The same with a timeout that is to end it: short for the test's sake, long enough for all that comes before it.
pub(crate) async fn send_in_short(sender: &HttpSender, url: &str) -> Sent {
    sender.send(&attempt(url, &json!({"timeout_ms": 2000}))).await
}

/// The id of the rule that classifies it, and the status if there was one.
pub(crate) fn ruled(sent: &Sent) -> (&'static str, Option<u16>) {
    let context = Context { statuses: &StatusLists::default(), require_decision: false, unknown_before: false };
    let status = match &sent.outcome {
        Outcome::Answered(answer) => Some(answer.status),
        Outcome::Failed(_) => None,
    };
    (classify(&sent.outcome, context).rule, status)
}

/// The answer that must have come.
#[track_caller]
pub(crate) fn answered(sent: &Sent) -> &Answer {
    match &sent.outcome {
        Outcome::Answered(answer) => answer,
        Outcome::Failed(failure) => panic!("{failure:?}: {:?}", sent.excerpt),
    }
}

/// The failure that must have been.
#[track_caller]
pub(crate) fn failure(sent: &Sent) -> Failure {
    match sent.outcome {
        Outcome::Failed(failure) => failure,
        Outcome::Answered(ref answer) => panic!("{answer:?}: {:?}", sent.excerpt),
    }
}

/// A resolver that knows these names and no others.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<&'static str, Vec<IpAddr>>);

impl Names {
    /// One name and its addresses.
    pub(crate) fn of(name: &'static str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
        Self(HashMap::from([(name, addresses)]))
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.0.get(name.as_str()).cloned();
        Box::pin(async move {
            let found = found.ok_or_else(|| std::io::Error::other("no such name"))?;
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
