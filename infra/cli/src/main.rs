//! The `lapse` command.

use std::process::ExitCode;

use clap::Parser as _;
use lapse_cli::commands::Arguments;

#[tokio::main]
async fn main() -> ExitCode {
    lapse_cli::commands::run(Arguments::parse()).await
}
