//! The composition root of `triage`.

use lambda_runtime::{Error, service_fn};
use lapse_aws::environment::Environment;
use lapse_aws::telemetry;
use lapse_triage::config::Config;
use lapse_triage::handler::Sandbox;

// One invocation at a time, on one thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init()?;
    let sandbox = Sandbox::new(Config::read(&Environment::of_process())?).await;
    let sandbox = &sandbox;
    lambda_runtime::run(service_fn(|event| sandbox.handle(event))).await
}
