//! `cargo sim`.

use std::process::ExitCode;

use clap::Parser as _;
use lapse_tests::sim::command::{Arguments, run};

fn main() -> ExitCode {
    run(&Arguments::parse())
}
