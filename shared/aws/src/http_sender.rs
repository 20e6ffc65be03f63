//! SEC-1, SEC-2, CLS-1, CLS-5 to CLS-7, RET-1: one attempt over HTTP.
//!
//! Owns: the HTTP client, what a request carries, and how its end becomes an `Outcome`. Must not: follow a redirect,
//! use a proxy, send a request twice, or decide what an outcome means.
//!
//! Absent: retries. The client's own are switched off, so that an attempt is one request at the receiver (LIM-5,
//! I8). One thing looks like a retry and is none: a request that met a pooled connection which the peer had closed,
//! and of which nothing was written, goes out on another connection. Whatever closed while the sandbox was frozen is
//! met that way, because the event loop has a turn before each request.

use std::sync::Arc;
use std::time::Duration;

use lapse_policy::classifier::{Answer, Failure, Outcome};
use lapse_policy::guard::{AllowList, Scheme, judge_url};
use lapse_policy::ports::{Attempt, Sender, Sent};
use lapse_policy::retry_after;
use lapse_policy::timestamp::Timestamp;
use reqwest::dns::Resolve;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url, redirect, retry};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::guarded_resolver::{GuardedResolver, SystemResolver};
use crate::request_body::{Begun, RequestBody};
use crate::{answer_body, attempt_failure, excerpt, signer};

/// Name lookup, TCP and TLS together: a receiver further away than this is not reached in time anyway.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Shorter than the 5 s after which common servers close idle connections: a request written to a connection that
/// is just being closed has an unknown outcome.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// The longest name of a host (RFC 1035 2.3.4), as text.
const LONGEST_HOST: usize = 253;
/// What a receiver's log shows.
const USER_AGENT: &str = concat!("lapse/", env!("CARGO_PKG_VERSION"));

/// The HTTP client could not be set up: no root certificates, for one.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client could not be set up")]
pub struct SetupError(#[from] reqwest::Error);

/// The sender: one client, whose connections are shared by all attempts of a sandbox.
#[derive(Debug, Clone)]
pub struct HttpSender {
    client: Client,
    allowed: Arc<AllowList>,
}

impl HttpSender {
    /// A sender that resolves names as the system does.
    pub fn new(allow: AllowList) -> Result<Self, SetupError> {
        Self::with_resolver(allow, Arc::new(SystemResolver))
    }

    /// A sender that resolves names by `resolver`; its answers are judged as any others.
    pub fn with_resolver(allow: AllowList, resolver: Arc<dyn Resolve>) -> Result<Self, SetupError> {
        // The client takes the process's provider. A second call finds one installed, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allowed = Arc::new(allow);
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .dns_resolver(GuardedResolver::new(resolver, Arc::clone(&allowed)))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            // `answer_body` undoes the coding, and bounds what is read for it.
            .no_gzip()
            .no_proxy()
            .build()?;
        Ok(Self { client, allowed })
    }
}

impl Sender for HttpSender {
    async fn send(&self, attempt: &Attempt) -> Sent {
        let start = Instant::now();
        let deadline = start + attempt.destination.timeout;
        let scheme = if attempt.destination.allow_http { Scheme::HttpToo } else { Scheme::Https };
        let url = match judge_url(&attempt.destination.url, scheme, &self.allowed) {
            Ok(url) => url,
            Err(refusal) => return failed(attempt_failure::of_refusal(refusal), excerpt::of_error(&refusal)),
        };
        let headers = match headers(attempt) {
            Ok(headers) => headers,
            // Not met: a destination's own headers are checked when its row is read.
            Err(error) => return failed(Failure::InvalidUrl, excerpt::of_error(&error)),
        };
        // A sandbox that was frozen learns in the loop's next turn which of its connections are gone. A request written
        // to one of them would have an unknown outcome (CLS-6) although no one could read it.
        yield_now().await;
        let begun = Begun::default();
        let body = reqwest::Body::wrap(RequestBody::new(&attempt.payload, begun.clone()));
        let request = self.client.post(url.clone()).headers(headers).body(body);
        match timeout_at(deadline, request.send()).await {
            Ok(Ok(response)) => {
                let answer = answer(&response, &url, attempt.at.plus(start.elapsed()));
                let excerpt = excerpt::of_body(&answer_body::start(response, deadline).await);
                Sent { outcome: Outcome::Answered(answer), excerpt }
            }
            Ok(Err(error)) => {
                let failure = attempt_failure::of_error(&error, &begun);
                // The URL's path and query may hold credentials (OBS-4).
                failed(failure, excerpt::of_error(&error.without_url()))
            }
            Err(elapsed) => failed(attempt_failure::of_timeout(&begun), excerpt::of_error(&elapsed)),
        }
    }
}

fn failed(failure: Failure, excerpt: String) -> Sent {
    Sent { outcome: Outcome::Failed(failure), excerpt: Some(excerpt) }
}

/// A header that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("a header cannot be sent")]
struct InvalidHeader(#[from] http::Error);

/// The destination's own headers, then ours, which win. The client adds those of framing and `user-agent`.
fn headers(attempt: &Attempt) -> Result<HeaderMap, InvalidHeader> {
    let mut headers = HeaderMap::new();
    for own in &attempt.destination.headers {
        let mut value = HeaderValue::from_str(own.value()).map_err(http::Error::from)?;
        // It may be a credential: not shown, and not kept in HPACK's table.
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(own.name().as_bytes()).map_err(http::Error::from)?, value);
    }
    let (id, stamp) = (attempt.id.as_str(), attempt.at.seconds());
    let signature = signer::signature(&attempt.destination.secrets, id, stamp, attempt.payload.as_bytes());
    let id = HeaderValue::from_str(id).map_err(http::Error::from)?;
    headers.insert(ACCEPT_ENCODING, answer_body::CODINGS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("webhook-id", id.clone());
    headers.insert("idempotency-key", id);
    headers.insert("webhook-timestamp", HeaderValue::from(stamp));
    headers.insert("webhook-attempt", HeaderValue::from(attempt.number));
    headers.insert("webhook-signature", HeaderValue::from_str(&signature).map_err(http::Error::from)?);
    Ok(headers)
}

fn answer(response: &Response, url: &Url, now: Timestamp) -> Answer {
    let headers: Vec<_> = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    Answer {
        status: response.status().as_u16(),
        asked: retry_after::asked(headers.into_iter(), now),
        location_host: response.status().is_redirection().then(|| location_host(response, url)).flatten(),
    }
}

/// Where a redirect would have led (CLS-7); a relative one leads to the destination itself.
fn location_host(response: &Response, url: &Url) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let target = url.join(location).ok()?;
    target.host_str().map(|host| host.chars().take(LONGEST_HOST).collect())
}
