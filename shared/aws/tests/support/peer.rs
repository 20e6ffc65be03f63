//! A receiver on 127.0.0.1 that does what a test says, down to the byte, and tells what it was sent.
//!
//! Owns: sockets and their ends. Must not: know Lapse, nor be a proper HTTP server: most of what it does is wrong.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the receiver does with a request once it has read it.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    /// Writes and waits for the next request on the connection.
    Answer(Vec<u8>),
    /// Writes, then closes.
    Close(Vec<u8>),
    /// Writes, then resets.
    Reset(Vec<u8>),
    /// Writes the first part, then the second again and again, until the connection is gone.
    Flood(Vec<u8>, Vec<u8>),
    /// Says nothing until the connection is gone.
    Hang,
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
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<Mutex<usize>>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Peer {
    /// Starts a receiver that does these things with its requests, in order; the last one repeats.
    pub(crate) async fn start(script: impl Into<Vec<Then>>) -> Self {
        let script = Arc::new(script.into());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (tell, events) = mpsc::unbounded_channel();
        let (requests, connections) = (Arc::default(), Arc::default());
        let peer = Self { address, requests: Arc::clone(&requests), connections: Arc::clone(&connections), events };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *connections.lock().expect("not poisoned") += 1;
                let (script, requests, tell) = (Arc::clone(&script), Arc::clone(&requests), tell.clone());
                tokio::spawn(async move {
                    let event = serve(stream, &script, &requests).await.unwrap_or(Event::Gone);
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
        self.requests.lock().expect("not poisoned").clone()
    }

    /// The connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().expect("not poisoned")
    }

    /// Waits for the end of a connection.
    pub(crate) async fn event(&mut self) -> Event {
        self.events.recv().await.expect("the receiver runs")
    }
}

async fn serve(mut stream: TcpStream, script: &[Then], requests: &Mutex<Vec<Request>>) -> io::Result<Event> {
    loop {
        let request = read_request(&mut stream).await?;
        let then = {
            let mut requests = requests.lock().expect("not poisoned");
            requests.push(request);
            script.get(requests.len() - 1).or(script.last()).expect("a script").clone()
        };
        match then {
            Then::Answer(bytes) => stream.write_all(&bytes).await?,
            Then::Close(bytes) => {
                stream.write_all(&bytes).await?;
                return Ok(Event::Ended);
            }
            Then::Reset(bytes) => {
                stream.write_all(&bytes).await?;
                stream.set_zero_linger()?;
                return Ok(Event::Ended);
            }
            Then::Flood(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
            Then::Hang => {
                stream.read_u8().await?;
            }
        }
    }
}

/// Reads a head and as many bytes as its `content-length` says.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    let mut request = Request { head, body: Vec::new() };
    let length = request.values("content-length").first().and_then(|text| text.parse().ok()).unwrap_or(0);
    request.body.resize(length, 0);
    stream.read_exact(&mut request.body).await?;
    Ok(request)
}

/// An answer of that status with these headers and this body.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let own: String = headers.iter().flat_map(|(name, value)| [*name, ": ", *value, "\r\n"]).collect();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{own}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
