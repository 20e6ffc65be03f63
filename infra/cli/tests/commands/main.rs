//! The `lapse` command as a person and a script meet it: the real binary, its output and its exit codes.
//!
//! Owns: running it. Must not: hold vectors; these are in `tests/data`.

#![expect(clippy::expect_used, reason = "a helper of tests fails the test it is called from")]

mod check;
mod delivery;
mod explain;
mod guard;
mod schedule;
mod sign;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a run printed, and its exit code.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs `lapse` with this standard input.
fn lapse_with(arguments: &[&str], input: &str, variables: &[(&str, &str)]) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lapse"))
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A run that has no use for it may have ended before it was written.
    let written = stdin.write_all(input.as_bytes()).map_err(|error| error.kind());
    assert!(matches!(written, Ok(()) | Err(ErrorKind::BrokenPipe)), "{written:?}");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn lapse(arguments: &[&str]) -> Ran {
    lapse_with(arguments, "", &[])
}

/// A file with this content, for a flag that takes one.
fn file(name: &str, content: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("a file is written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A wrong use: exit code 2, nothing on standard output, and an error with each of these texts.
#[track_caller]
fn check_usage(arguments: &[&str], named: &[&str]) {
    let ran = lapse(arguments);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.err);
    for text in named {
        assert!(ran.err.contains(text), "{arguments:?} does not name {text}: {}", ran.err);
    }
}

#[test]
fn vectors_pass_from_standard_input_to_standard_output() {
    for (command, vectors) in [
        ("explain", include_str!("../../../../tests/data/explain.jsonl")),
        ("guard", include_str!("../../../../tests/data/guard.jsonl")),
        ("sign", include_str!("../../../../tests/data/sign.jsonl")),
    ] {
        let ran = lapse_with(&[command, "--jsonl"], vectors, &[]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{command}");
        assert_eq!(ran.out.lines().count(), vectors.lines().count(), "{command}: a line for a line");
        let broken = lapse_with(&[command, "--jsonl"], &format!("no JSON\n{vectors}"), &[]);
        assert_eq!(broken.code, Some(1), "{command}");
        let (error, rest) = broken.out.split_once('\n').expect("lines");
        assert!(error.starts_with(r#"{"error":"no JSON object"#), "{command}: {error}");
        assert_eq!(rest, ran.out, "{command}: the run goes on");
        check_usage(&[command, "--jsonl", "--json"], &["--jsonl"]);
        let help = lapse(&[command, "--help"]);
        assert_eq!(help.code, Some(0), "{command}");
        assert!(help.out.contains("Examples:") && help.out.contains("Exit codes:"), "{command}");
    }
}
