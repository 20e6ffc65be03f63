//! Plain HTTP to the emulator, for the services that have no SDK crate in the workspace.
//!
//! Owns: the client, and turning an answer that is no success into an error.
//! Must not: leave the loopback interface, or go through a proxy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::Value;

/// Longer than the longest function may run (55 s), because an invocation answers at its end.
const TIMEOUT: Duration = Duration::from_secs(70);

/// The emulator's HTTP interface.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client,
    endpoint: String,
}

impl Http {
    /// A client of the emulator at `endpoint` (`http://127.0.0.1:PORT`).
    pub(crate) fn new(endpoint: &str) -> Result<Self> {
        // The client wants a TLS configuration even for plain HTTP. One without any roots shows
        // that nothing else is ever asked.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
            .context("cannot make an HTTP client for the local stack")?;
        Ok(Self { client, endpoint: endpoint.to_owned() })
    }

    /// The emulator's account of itself, or why there is none.
    pub(crate) async fn health(&self) -> Result<Value> {
        let request = self.request(Method::GET, "/_ministack/health").timeout(Duration::from_secs(2));
        json(self.send(request).await?).await
    }

    /// Whether all of its services are loaded.
    pub(crate) async fn ready(&self) -> bool {
        let request = self.request(Method::GET, "/_ministack/ready").timeout(Duration::from_secs(2));
        self.send(request).await.is_ok()
    }

    /// PUT of bytes.
    pub(crate) async fn put(&self, path: &str, body: Vec<u8>) -> Result<()> {
        self.send(self.request(Method::PUT, path).body(body)).await?;
        Ok(())
    }

    /// PUT of JSON.
    pub(crate) async fn put_json(&self, path: &str, body: &Value) -> Result<()> {
        let request = self.request(Method::PUT, path).header("content-type", "application/json");
        self.send(request.body(body.to_string())).await?;
        Ok(())
    }

    /// GET of JSON.
    pub(crate) async fn get_json(&self, path: &str) -> Result<Value> {
        json(self.send(self.request(Method::GET, path)).await?).await
    }

    /// POST of bytes; the answer with its headers.
    pub(crate) async fn post(&self, path: &str, body: Vec<u8>) -> Result<Response> {
        self.send(self.request(Method::POST, path).body(body)).await
    }

    /// A call of a service that takes the operation in a header (`Logs_20140328.FilterLogEvents`).
    pub(crate) async fn call(&self, target: &str, body: &Value) -> Result<Value> {
        let request = self
            .request(Method::POST, "/")
            .header("content-type", "application/x-amz-json-1.1")
            .header("x-amz-target", target);
        json(self.send(request.body(body.to_string())).await?).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.endpoint))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.with_context(|| {
            format!(
                "the local stack does not answer at {}; see whether it runs with `lapse local status`",
                self.endpoint
            )
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let path = response.url().path().to_owned();
        let body = response.text().await.unwrap_or_default();
        bail!("the local stack answered {status} to {path}: {body}")
    }
}

async fn json(response: Response) -> Result<Value> {
    let path = response.url().path().to_owned();
    let body = response.bytes().await.with_context(|| format!("the answer to {path} broke off"))?;
    serde_json::from_slice(&body).with_context(|| format!("the answer to {path} is no JSON"))
}
