//! Dynoxide, a DynamoDB engine as a library.
//!
//! Owns: its server on 127.0.0.1, on a thread of its own: a test's runtime ends with the test.

use std::net::{Ipv4Addr, TcpListener};
use std::thread;

/// Starts one that ends with the process, and tells its address.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a socket that does not block");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("the listener");
            dynoxide::server::serve_on(listener, dynoxide::Database::memory().expect("an empty database")).await;
        });
    });
    format!("http://{address}")
}
