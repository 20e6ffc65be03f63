//! The `perf` command: `cargo perf NAME [--json]`.

use std::process::ExitCode;

use clap::Parser as _;
use lapse_tests::perf::Arguments;

#[tokio::main]
async fn main() -> ExitCode {
    lapse_tests::perf::run(Arguments::parse()).await
}
