//! DynamoDB Local's process: where it listens, what it keeps, and that it ends.
//!
//! Owns: those checks. Must not: test what the engine answers; the adapters' suites do.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::fs;
use std::net::TcpStream;

use lapse_engines::{client, dynamodb_local};
use lapse_local::dynamodb_local::{DynamoDbLocal, Storage};

async fn tables(engine: &DynamoDbLocal) -> Vec<String> {
    client(&engine.endpoint()).list_tables().send().await.unwrap().table_names().to_vec()
}

/// The addresses that someone listens on at this port, as the kernel writes them.
fn listening(port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        (state == "0A").then(|| local.strip_suffix(&port).map(str::to_owned))?
    };
    let sockets = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    sockets.iter().flat_map(|text| text.lines()).filter_map(listens).collect()
}

#[tokio::test]
async fn it_listens_on_127_0_0_1_alone_ends_with_its_value_and_finds_its_data_again() {
    let Some(installed) = dynamodb_local() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Folder(folder.path().to_owned());
    let first = installed.start(&storage, None).unwrap();
    let port = first.port();
    if cfg!(target_os = "linux") {
        assert_eq!(listening(port), ["0100007F"]);
    }
    let table = lapse_engines::table(&client(&first.endpoint()), "limits").await;
    drop(first);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "no one listens any more");
    let second = installed.start(&storage, Some(port)).unwrap();
    assert_eq!((second.port(), tables(&second).await), (port, vec![table]));
    let other = installed.start(&Storage::Memory, None).unwrap();
    assert_eq!(tables(&other).await, Vec::<String>::new(), "an engine of its own");
    let taken = installed.start(&Storage::Memory, Some(port)).unwrap_err().to_string();
    assert!(taken.contains("ended while it started") && taken.contains("in use"), "{taken}");
}
