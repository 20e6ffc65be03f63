//! A receiver on 127.0.0.1 that does what a test says, down to the byte, and tells what it was sent.
//!
//! Owns: sockets and their ends. Must not: know Lapse, nor be a proper HTTP server: most of what it does is wrong.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

/// What a drip waits before each byte: many come within the timeouts of the tests that are to end by them.
const PAUSE: Duration = Duration::from_millis(10);

/// What the receiver does with a request once it has read it.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    /// Writes and waits for the next request on the connection.
    Answer(Vec<u8>),
    /// Writes, then closes.
    Close(Vec<u8>),
    /// Writes, then resets.
    Reset(Vec<u8>),
    /// Writes, then says nothing more until the connection is gone.
    Hang(Vec<u8>),
    /// Writes the first part, then the second again and again, until the connection is gone.
    Flood(Vec<u8>, Vec<u8>),
    /// Writes the first part, then this byte again and again, each after a pause, until the connection is gone.
    Drip(Vec<u8>, u8),
    /// Does that without having read the request's body.
    Early(Box<Self>),
    /// Writes, and does the other thing without a request once the test says [`Peer::go`].
    Later(Vec<u8>, Box<Self>),
}

/// What the receiver did: the tests wait for it rather than for time to pass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has closed or reset a connection.
    Ended,
    /// It has seen that a connection is gone.
    Gone,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    head: String,
    /// The body's bytes.
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The request line.
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The `content-length`.
    fn length(&self) -> usize {
        self.values("content-length").first().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// All values of a header.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

/// The receiver; it ends with the test's runtime.
pub(crate) struct Peer {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    stage: Arc<Stage>,
    events: mpsc::UnboundedReceiver<Event>,
}

/// What the connections of a receiver share.
#[derive(Debug)]
struct Stage {
    script: Vec<Then>,
    requests: Mutex<Vec<Request>>,
    poured: AtomicUsize,
    go: Notify,
}

impl Peer {
    /// Starts a receiver that does these things with its requests, in order; the last one repeats.
    pub(crate) async fn start(script: impl Into<Vec<Then>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (tell, events) = mpsc::unbounded_channel();
        let connections = Arc::new(AtomicUsize::new(0));
        let stage = Stage { script: script.into(), requests: Mutex::default(), poured: 0.into(), go: Notify::new() };
        let peer = Self { address, connections: Arc::clone(&connections), stage: Arc::new(stage), events };
        let stage = Arc::clone(&peer.stage);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::AcqRel);
                let (stage, tell) = (Arc::clone(&stage), tell.clone());
                tokio::spawn(async move {
                    let event = stage.serve(stream).await.unwrap_or(Event::Gone);
                    // A test need not listen.
                    let _ = tell.send(event);
                });
            }
        });
        peer
    }

    /// A URL of it; its host is an address, so that no name is resolved.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?key=hidden", self.address)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.stage.requests.lock().expect("not poisoned").clone()
    }

    /// The connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// How many bytes it has tried to write of what it repeats.
    pub(crate) fn poured(&self) -> usize {
        self.stage.poured.load(Ordering::Acquire)
    }

    /// Lets it do what was to be done later.
    pub(crate) fn go(&self) {
        self.stage.go.notify_one();
    }

    /// Waits for the end of a connection.
    pub(crate) async fn event(&mut self) -> Event {
        self.events.recv().await.expect("the receiver runs")
    }
}

impl Stage {
    async fn serve(&self, mut stream: TcpStream) -> io::Result<Event> {
        loop {
            let mut request = read_head(&mut stream).await?;
            let then = self.next();
            let mut unread = request.length();
            if !matches!(then, Then::Early(_)) {
                request.body.resize(unread, 0);
                stream.read_exact(&mut request.body).await?;
                unread = 0;
            }
            self.requests.lock().expect("not poisoned").push(request);
            if let Some(event) = self.act(&mut stream, then).await? {
                return Ok(event);
            }
            stream.read_exact(&mut vec![0; unread]).await?;
        }
    }

    fn next(&self) -> Then {
        let so_far = self.requests.lock().expect("not poisoned").len();
        self.script.get(so_far).or(self.script.last()).expect("a script").clone()
    }

    /// Gives how the connection ended, if it did.
    async fn act(&self, stream: &mut TcpStream, then: Then) -> io::Result<Option<Event>> {
        match then {
            Then::Answer(bytes) => stream.write_all(&bytes).await?,
            Then::Close(bytes) => {
                stream.write_all(&bytes).await?;
                return Ok(Some(Event::Ended));
            }
            Then::Reset(bytes) => {
                stream.write_all(&bytes).await?;
                stream.set_zero_linger()?;
                return Ok(Some(Event::Ended));
            }
            Then::Hang(bytes) => {
                stream.write_all(&bytes).await?;
                while stream.read(&mut [0; 4096]).await? > 0 {}
                return Ok(Some(Event::Gone));
            }
            Then::Flood(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    self.poured.fetch_add(again.len(), Ordering::AcqRel);
                    stream.write_all(&again).await?;
                }
            }
            Then::Drip(first, byte) => {
                stream.write_all(&first).await?;
                loop {
                    tokio::time::sleep(PAUSE).await;
                    stream.write_all(&[byte]).await?;
                }
            }
            Then::Later(bytes, then) => {
                stream.write_all(&bytes).await?;
                self.go.notified().await;
                return Box::pin(self.act(stream, *then)).await;
            }
            Then::Early(then) => return Box::pin(self.act(stream, *then)).await,
        }
        Ok(None)
    }
}

/// Reads a request up to its body.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    Ok(Request { head, body: Vec::new() })
}

/// An answer of that status with these headers and this body.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let own: String = headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{own}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
