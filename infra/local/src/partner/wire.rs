//! Connections that can be cut: what a partner needs to give no answer.
//!
//! Owns: the listener and the [`Switch`] of each connection. Must not: know when to cut.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

const WHOLE: u8 = 0;
const CLOSE: u8 = 1;
const RESET: u8 = 2;

/// Cuts one connection: whatever answer is written afterwards, not a byte of it leaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Switch(Arc<AtomicU8>);

impl Switch {
    /// Ends the connection in order, without an answer.
    pub(crate) fn close(&self) {
        self.0.store(CLOSE, Ordering::Relaxed);
    }

    /// Breaks the connection.
    pub(crate) fn reset(&self) {
        self.0.store(RESET, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, Wires>> for Switch {
    fn connect_info(stream: IncomingStream<'_, Wires>) -> Self {
        stream.io().switch.clone()
    }
}

/// A listener whose connections have a switch.
#[derive(Debug)]
pub(crate) struct Wires(pub(crate) TcpListener);

impl Listener for Wires {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((stream, address)) => {
                    // Answers are small and waited for; a failure only makes them later.
                    let _ = stream.set_nodelay(true);
                    return (Wire { stream, switch: Switch::default() }, address);
                }
                // The process is out of descriptors, or the client went: neither ends the partner.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection with a switch.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    switch: Switch,
}

impl Wire {
    /// The error that makes the server drop this connection, if it was cut.
    fn cut(&self) -> io::Result<()> {
        match self.switch.0.load(Ordering::Relaxed) {
            WHOLE => Ok(()),
            RESET => {
                self.stream.set_zero_linger()?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
            _ => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.cut()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
