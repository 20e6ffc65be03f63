//! A server that keeps all it hears, headers too, and answers with a body: to stand behind a partner.
//!
//! Owns: its answers, one after another whatever the event. Must not: outlive its owner.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use lapse_aws::signer;
use lapse_policy::secret::Secret;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::ground::now;

/// One request.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// One answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After`.
    pub retry_after: Option<&'static str>,
    /// The body.
    pub body: &'static str,
}

/// A witness.
#[derive(Debug)]
pub struct Witness {
    /// Where it listens.
    pub url: String,
    memory: Arc<Memory>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Memory {
    heard: Mutex<Vec<Heard>>,
    answers: Mutex<VecDeque<Answer>>,
}

impl Witness {
    /// Starts one. The last answer repeats.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port for a witness")?;
        let url = format!("http://{}/", listener.local_addr()?);
        let memory = Arc::new(Memory { answers: Mutex::new(answers.into_iter().collect()), ..Memory::default() });
        let routes = Router::new().fallback(hear).with_state(Arc::clone(&memory));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { url, memory, server })
    }

    /// All requests so far.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.memory.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn hear(State(memory): State<Arc<Memory>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    memory.heard.lock().unwrap_or_else(PoisonError::into_inner).push(Heard { headers, body });
    let answer = {
        let mut answers = memory.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let last = answers.len() <= 1;
        if last { answers.front().cloned() } else { answers.pop_front() }
    };
    let answer = answer.unwrap_or(Answer { status: 200, ..Answer::default() });
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(retry_after) = answer.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static(retry_after));
    }
    response
}

impl Heard {
    /// A header as text.
    pub fn header(&self, name: &str) -> Result<&str> {
        let value = self.headers.get(name).with_context(|| format!("the request has no {name}"))?;
        Ok(value.to_str()?)
    }

    /// Checks the signature as a receiver with this secret would (RCV-1).
    pub fn verify(&self, secret: &str) -> Result<()> {
        let secrets = [Secret::parse(secret)?];
        let stamp = self.header("webhook-timestamp")?.parse()?;
        let (id, signature) = (self.header("webhook-id")?, self.header("webhook-signature")?);
        Ok(signer::verify(&secrets, id, stamp, &self.body, signature, now().seconds())?)
    }
}
