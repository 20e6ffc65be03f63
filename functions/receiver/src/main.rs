//! The composition root of the receiver.

use aws_sdk_dynamodb::Client;
use lambda_http::{Error, service_fn};
use lapse_aws::environment::Environment;
use lapse_aws::system::{SystemChance, SystemClock};
use lapse_aws::{clients, telemetry};
use lapse_receiver::config::Config;
use lapse_receiver::handler;
use lapse_receiver::receive::Receiver;
use lapse_receiver::reservations::Table;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init()?;
    let config = Config::read(&Environment::of_process())?;
    let sdk = clients::sdk_config().await;
    let receiver = Receiver {
        store: Table::new(Client::new(&sdk), config.table),
        clock: SystemClock,
        chance: SystemChance,
        secrets: config.secrets,
    };
    lambda_http::run(service_fn(|request| handler::handle(&receiver, request))).await
}
