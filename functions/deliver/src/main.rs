//! The composition root of `deliver`.

use lambda_runtime::{Error, service_fn};
use lapse_aws::environment::Environment;
use lapse_aws::telemetry;
use lapse_deliver::config::Config;
use lapse_deliver::handler::Sandbox;

// One invocation at a time, on one thread: a sandbox has less than one vCPU.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init()?;
    let sandbox = Sandbox::new(Config::read(&Environment::of_process())?).await?;
    let sandbox = &sandbox;
    lambda_runtime::run(service_fn(|event| sandbox.handle(event))).await
}
