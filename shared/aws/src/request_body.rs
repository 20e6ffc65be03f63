//! The body of an attempt, which knows whether the HTTP client has begun to write the request.
//!
//! Owns: the payload's bytes on their way out (I2), and the one fact on which CLS-5 and CLS-6 differ.
//! Must not: change the bytes.
//!
//! Before it queues a request's head, an HTTP/1 or HTTP/2 connection asks the body whether it is empty, and only
//! a connection asks. A request is therefore begun from then on, or from when its bytes are taken; until then
//! nothing of it was written. Should a later client ask earlier, then more outcomes count as unknown: the safe side.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Whether a request was handed to a connection for writing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Begun(Arc<AtomicBool>);

impl Begun {
    /// Whether some of the request may have been written.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The payload as a request's body of known length.
pub(crate) struct RequestBody {
    bytes: Option<Bytes>,
    begun: Begun,
}

impl RequestBody {
    /// The payload's own bytes.
    pub(crate) fn new(payload: &str, begun: Begun) -> Self {
        Self { bytes: Some(Bytes::copy_from_slice(payload.as_bytes())), begun }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.set();
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.begun.set();
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(left).unwrap_or(u64::MAX))
    }
}
