//! The function URL's event, and the answer to it.
//!
//! Owns: methods, headers, statuses and bodies, and the one log line of a request (OBS-4: no payload in it).
//! Must not: decide, or answer 2xx for anything but a decision (RCV-4).

use std::convert::Infallible;
use std::time::Duration;

use lambda_http::http::{HeaderMap, Method, StatusCode, header};
use lambda_http::{Body, Request, Response};
use lapse_policy::message::Malformed;
use lapse_policy::names::EventId;
use lapse_policy::ports::{Chance, Clock};
use serde_json::{Value, json};

use crate::event::malformed;
use crate::receive::{Answer, Delivery, Receiver, Reservations};

/// Answers one request.
pub async fn handle<S: Reservations, C: Clock, R: Chance>(
    receiver: &Receiver<S, C, R>,
    request: Request,
) -> Result<Response<Body>, Infallible> {
    if request.method() != Method::POST {
        let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": "method", "accepted": "POST" }));
        response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST"));
        return Ok(response);
    }
    let began = receiver.clock.now();
    let delivery = match read(request) {
        Ok(delivery) => delivery,
        Err(malformed) => {
            tracing::warn!(%malformed, status = 400, "refused");
            return Ok(bad_request(&malformed));
        }
    };
    let id = delivery.id.clone();
    let answer = receiver.receive(delivery).await;
    let duration = receiver.clock.now().since(began);
    log(&id, &answer, duration);
    Ok(response(&id, &answer))
}

fn read(request: Request) -> Result<Delivery, Malformed> {
    let (parts, body) = request.into_parts();
    let header = |name| header(&parts.headers, name);
    let id = EventId::parse(header("webhook-id")?).map_err(|e| malformed("webhook-id", e.to_string()))?;
    let timestamp_s = header("webhook-timestamp")?
        .parse()
        .map_err(|_| malformed("webhook-timestamp", "must be a whole number of seconds"))?;
    let signature = header("webhook-signature")?.to_owned();
    Ok(Delivery { id, timestamp_s, signature, body: body.to_vec() })
}

fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Malformed> {
    let value = headers.get(name).ok_or_else(|| malformed(name, "is missing"))?;
    value.to_str().map_err(|_| malformed(name, "must be visible ASCII"))
}

fn response(id: &EventId, answer: &Answer) -> Response<Body> {
    match answer {
        Answer::Decided { decision, repeated } => respond(
            StatusCode::OK,
            &json!({
                "event_id": id.as_str(),
                "decision": decision.name(),
                "reason": decision.reason(),
                "repeated": repeated,
            }),
        ),
        Answer::Early(left) => {
            let seconds = left.as_millis().div_ceil(1000);
            let mut response = respond(StatusCode::TOO_EARLY, &json!({ "error": "early", "seconds": seconds }));
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            response
        }
        Answer::Forged(refused) => {
            respond(StatusCode::UNAUTHORIZED, &json!({ "error": "signature", "problem": refused.to_string() }))
        }
        Answer::Malformed(malformed) => bad_request(malformed),
        // No Retry-After: to the sender this is no ask for less, only an attempt that failed.
        Answer::Busy => respond(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": "busy" })),
        Answer::Unavailable(_) => respond(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": "unavailable" })),
    }
}

fn bad_request(Malformed { field, problem }: &Malformed) -> Response<Body> {
    respond(StatusCode::BAD_REQUEST, &json!({ "error": "malformed", "field": field, "problem": problem }))
}

fn respond(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Text(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn log(id: &EventId, answer: &Answer, duration: Duration) {
    let event_id = id.as_str();
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match answer {
        Answer::Decided { decision, repeated } => tracing::info!(
            event_id,
            decision = decision.name(),
            reason = decision.reason(),
            repeated,
            duration_ms,
            "decided"
        ),
        Answer::Early(left) => {
            let early_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(event_id, early_ms, duration_ms, status = 425, "early");
        }
        Answer::Forged(refused) => tracing::warn!(event_id, %refused, duration_ms, status = 401, "refused"),
        Answer::Malformed(malformed) => tracing::warn!(event_id, %malformed, duration_ms, status = 400, "refused"),
        Answer::Busy => tracing::warn!(event_id, duration_ms, status = 503, "busy"),
        Answer::Unavailable(unavailable) => {
            tracing::error!(event_id, %unavailable, duration_ms, status = 503, "unavailable");
        }
    }
}
