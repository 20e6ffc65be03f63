//! A partner: a server whose destinations behave as a test or the demo says, and that remembers what it saw.
//!
//! Owns: the server and its life. Must not: know anything of Lapse but the names of its headers; listen on
//! anything but 127.0.0.1; outlive its owner.
//!
//! It runs on a thread of its own: a caller that is busy does not make it answer late, and it works from inside
//! any kind of test. `script` says what a destination can do, `seen` what is asked about its caller.

mod forward;
mod script;
mod seen;
mod stage;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Response, StatusCode, header};
use tokio::sync::oneshot;

pub use script::{Lose, Reply, Script};
pub use seen::{Checks, Ending, Seen};
pub use stage::{MOST_BODY, MOST_REQUESTS};

use forward::Forwarder;
use stage::{Act, Flight, Stage, Unserved};
use wire::{Switch, Wires};

/// The longest body that is read: more than a message may have.
const LONGEST_BODY: usize = 1024 * 1024;
/// How long a partner that ends waits for a name's resolution that it began.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// A partner that runs until it is dropped.
#[derive(Debug)]
pub struct Partner {
    address: SocketAddr,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Partner {
    /// Starts one without destinations on a free port.
    pub fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for a partner")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage::new());
        let server = Server { stage: Arc::clone(&stage), forwarder: Forwarder::new()? };
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("partner".to_owned())
            .spawn(move || run(listener, server, stopped, &ready))
            .context("no thread for a partner")?;
        started.recv().context("the partner's thread ended at once")??;
        Ok(Self { address, stage, stop: Some(stop), thread: Some(thread) })
    }

    /// Sets what a destination does from now on, for every event from the beginning. What it saw stays.
    pub fn set(&self, name: &str, script: Script) {
        self.stage.set(name, script);
    }

    /// The URL of a destination.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// All requests of a destination, in the order of their arrival.
    #[must_use]
    pub fn requests(&self, name: &str) -> Vec<Seen> {
        self.stage.seen(name)
    }

    /// What those say about their caller.
    #[must_use]
    pub fn checks(&self, name: &str) -> Checks {
        Checks::of(&self.requests(name))
    }

    /// Requests that were refused with 507 because [`MOST_REQUESTS`] are remembered already.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.stage.refused()
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // The other side is gone only if the thread is.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Debug, Clone)]
struct Server {
    stage: Arc<Stage>,
    forwarder: Forwarder,
}

fn run(
    listener: std::net::TcpListener,
    server: Server,
    stopped: oneshot::Receiver<()>,
    ready: &mpsc::Sender<std::io::Result<()>>,
) {
    let prepare = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(entered);
        Ok((runtime, listener))
    };
    let (runtime, listener) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let routes = Router::new().fallback(handle).with_state(server);
    runtime.block_on(async move {
        tokio::select! {
            _ = axum::serve(Wires(listener), routes.into_make_service_with_connect_info::<Switch>()) => {}
            _ = stopped => {}
        }
    });
    // Whatever still hangs ends here.
    runtime.shutdown_timeout(LAST_WAIT);
}

async fn handle(
    State(server): State<Server>,
    ConnectInfo(switch): ConnectInfo<Switch>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LONGEST_BODY).await else { return empty(StatusCode::PAYLOAD_TOO_LARGE) };
    let name = parts.uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
    let (act, flight) = match server.stage.arrive(name, &parts.headers, &body) {
        Ok(arrived) => arrived,
        Err(Unserved::Unknown) => return empty(StatusCode::NOT_FOUND),
        Err(Unserved::Full) => return empty(StatusCode::INSUFFICIENT_STORAGE),
    };
    match act {
        Act::Answer(reply) => answer(reply, flight).await,
        // The client's leaving drops this future, and the flight with it.
        Act::Hang => std::future::pending().await,
        Act::Reset => {
            switch.reset();
            flight.ended(Ending::Reset);
            empty(StatusCode::OK)
        }
        Act::Forward(url) => {
            let response = server.forwarder.forward(&url, parts.method, parts.headers, body).await;
            let status = response.status();
            if status.is_success() && flight.loses() {
                switch.close();
                flight.ended(Ending::Lost(status.as_u16()));
            } else {
                flight.answered(status.as_u16(), forward::retry_after(&response));
            }
            response
        }
    }
}

async fn answer(reply: Reply, flight: Flight) -> Response<Body> {
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    let mut response = empty(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if let Some(seconds) = reply.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    flight.answered(response.status().as_u16(), reply.retry_after);
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
