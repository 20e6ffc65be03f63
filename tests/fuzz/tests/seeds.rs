//! Every target, always: over its seeds, over what is near them, and over arbitrary bytes.
//!
//! Owns: the runs of `cargo test`, and that programs, seeds and targets are the same list.
//! Must not: say what must hold; that is in `src`.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lapse_fuzz::{destination, message, request, retry_after};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestRunner};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names in a folder, without what follows their dot.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned();
    entries.map(|entry| name(entry.expect("an entry"))).collect()
}

/// A target's seeds in the order of their names.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder("seeds").join(target);
    let read = |name: String| {
        let bytes = fs::read(folder.join(&name)).expect("a seed; its name has no dot");
        (name, bytes)
    };
    names(&folder).into_iter().map(read).collect()
}

/// One change to an input: at a place, so many bytes are taken out and others put in.
type Edit = (Index, usize, Vec<u8>);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let bytes = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..4),
        2 => "[ -~]{0,8}".prop_map(String::into_bytes),
    ];
    prop::collection::vec((any::<Index>(), 0..6_usize, bytes), 1..5)
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for (at, taken, put) in edits {
        let at = at.index(bytes.len() + 1);
        let end = (at + taken).min(bytes.len());
        bytes.splice(at..end, put.iter().copied());
    }
    bytes
}

/// Runs one target over what a strategy gives; an input that breaks a promise is made small and kept.
fn over(check: fn(&[u8]), inputs: impl Strategy<Value = Vec<u8>>) {
    let beside = FileFailurePersistence::WithSource("regressions");
    let config = ProptestConfig {
        cases: 1024,
        source_file: Some(file!()),
        failure_persistence: Some(Box::new(beside)),
        ..ProptestConfig::default()
    };
    let case = |input: Vec<u8>| {
        check(&input);
        Ok::<_, TestCaseError>(())
    };
    TestRunner::new(config).run(&inputs, case).expect("a promise is broken");
}

fn run(target: &str, check: fn(&[u8])) {
    let seeds = seeds(target);
    for (seed, bytes) in &seeds {
        announce(target, seed);
        check(bytes);
    }
    over(check, prop::collection::vec(any::<u8>(), 0..600));
    let seed = prop::sample::select(seeds).prop_map(|(_, bytes)| bytes);
    over(check, (seed, edits()).prop_map(|(bytes, edits)| edited(bytes, &edits)));
}

#[expect(clippy::print_stdout, reason = "shown where the test fails")]
fn announce(target: &str, seed: &str) {
    println!("tests/fuzz/seeds/{target}/{seed}");
}

#[test]
fn programs_and_seeds_are_those_of_the_targets() {
    let targets = TARGETS.map(str::to_owned).into();
    assert_eq!(names(&folder("fuzz_targets")), targets);
    assert_eq!(names(&folder("seeds")), targets);
}

const TARGETS: [&str; 4] = ["destination", "message", "request", "retry_after"];

#[test]
fn any_row_is_a_sound_destination_or_none() {
    run("destination", destination::check);
}

#[test]
fn any_body_keeps_its_bytes_in_message_and_letter() {
    run("message", message::check);
}

#[test]
fn any_request_that_is_not_signed_is_refused() {
    run("request", request::check);
}

#[test]
fn any_headers_ask_for_a_bounded_wait_or_none() {
    run("retry_after", retry_after::check);
}
