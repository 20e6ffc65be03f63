//! Passing a request on to another server, and its answer back.
//!
//! Owns: the client, and which headers belong to a connection and are not passed on (RFC 9110 7.6.1).
//! Must not: follow redirects, go through a proxy, or touch a body.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use reqwest::redirect::Policy;

/// Longer than a function may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);

const OF_A_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The client.
#[derive(Debug, Clone)]
pub(super) struct Forwarder(reqwest::Client);

impl Forwarder {
    pub(super) fn new() -> Result<Self> {
        // Only plain HTTP on this machine is ever asked, but the client wants a TLS configuration: one without roots.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .no_gzip()
            .redirect(Policy::none())
            .timeout(TIMEOUT)
            .build()
            .context("cannot make the HTTP client of a forwarding partner")?;
        Ok(Self(client))
    }

    /// The other server's answer; 502 where there is none, 504 where it takes too long.
    pub(super) async fn forward(&self, url: &str, method: Method, headers: HeaderMap, body: Bytes) -> Response<Body> {
        self.ask(url, method, headers, body).await.unwrap_or_else(|error| {
            let status = if error.is_timeout() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
            let mut response = Response::new(Body::from(format!("the server behind this partner: {error}")));
            *response.status_mut() = status;
            response
        })
    }

    async fn ask(&self, url: &str, method: Method, headers: HeaderMap, body: Bytes) -> reqwest::Result<Response<Body>> {
        let answer = self.0.request(method, url).headers(passed_on(headers)).body(body).send().await?;
        let (status, headers) = (answer.status(), passed_on(answer.headers().clone()));
        let mut response = Response::new(Body::from(answer.bytes().await?));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn passed_on(mut headers: HeaderMap) -> HeaderMap {
    for name in OF_A_CONNECTION {
        headers.remove(*name);
    }
    headers
}

/// `Retry-After`, where it is a number of seconds.
pub(super) fn retry_after(response: &Response<Body>) -> Option<u64> {
    response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}
