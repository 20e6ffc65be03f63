//! A deployed stack: how a command finds it, and the clients of its services.
//!
//! Owns: the flags that every such command has, credentials by the usual AWS means, and the outputs by name.
//! Must not: know what a command does with them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_cloudformation::error::{DisplayErrorContext, ProvideErrorMetadata as _};
use aws_smithy_http_client::{Builder, tls};
use clap::Args;

use crate::{commands, local};

/// A person waits: longer than a function would, and not for ever.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(20);

/// Which stack, and in which form to answer.
#[derive(Debug, Clone, Args)]
pub struct StackFlags {
    /// The stack's name in CloudFormation.
    #[arg(long, env = "LAPSE_STACK", default_value = "lapse", help_heading = "Stack")]
    pub stack: String,
    /// The stack that `lapse local up` left running.
    #[arg(long, help_heading = "Stack", conflicts_with_all = ["region", "profile", "endpoint_url"])]
    pub local: bool,
    /// The AWS region; else as the AWS CLI finds it.
    #[arg(long, help_heading = "Stack")]
    pub region: Option<String>,
    /// The profile of the AWS configuration.
    #[arg(long, help_heading = "Stack")]
    pub profile: Option<String>,
    /// Another endpoint for all services.
    #[arg(long, value_name = "URL", help_heading = "Stack")]
    pub endpoint_url: Option<String>,
    /// Print JSON on standard output.
    #[arg(long, help_heading = "Stack")]
    pub json: bool,
}

/// A stack that was found.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// Its name in CloudFormation.
    pub name: String,
    /// The template's outputs by name (infra/contract.json).
    pub outputs: BTreeMap<String, String>,
    sdk: SdkConfig,
}

impl Deployed {
    /// Finds it.
    pub async fn find(flags: &StackFlags) -> Result<Self> {
        if flags.local {
            let state = local::state(&commands::root()?);
            let stack = lapse_local::Stack::attach(&state).await?;
            let stack = stack.context("no local stack is running; start it with: lapse local up")?;
            return Ok(Self { name: flags.stack.clone(), sdk: stack.sdk_config(), outputs: stack.outputs });
        }
        let sdk = sdk_config(flags).await;
        ensure!(sdk.region().is_some(), "no AWS region is set: give --region, AWS_REGION or a profile that has one");
        let outputs = outputs(&sdk, &flags.stack).await?;
        Ok(Self { name: flags.stack.clone(), outputs, sdk })
    }

    /// An output of the template, such as `DeliveriesQueueUrl`.
    pub fn output(&self, name: &str) -> Result<&str> {
        let value = self.outputs.get(name).map(String::as_str);
        value.with_context(|| format!("the stack {} has no output {name}: is it a stack of Lapse?", self.name))
    }

    /// For the clients of services that are asked for once.
    #[must_use]
    pub fn sdk(&self) -> &SdkConfig {
        &self.sdk
    }

    /// A client of DynamoDB.
    #[must_use]
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        aws_sdk_dynamodb::Client::new(&self.sdk)
    }

    /// A client of SQS.
    #[must_use]
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(&self.sdk)
    }
}

async fn sdk_config(flags: &StackFlags) -> SdkConfig {
    let ring = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(Builder::new().tls_provider(ring).build_https())
        .timeout_config(TimeoutConfig::builder().operation_timeout(OPERATION_TIMEOUT).build());
    if let Some(region) = &flags.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &flags.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(url) = &flags.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    loader.load().await
}

async fn outputs(sdk: &SdkConfig, name: &str) -> Result<BTreeMap<String, String>> {
    let client = aws_sdk_cloudformation::Client::new(sdk);
    let region = sdk.region().map_or("no region", Region::as_ref);
    let stack = match client.describe_stacks().stack_name(name).send().await {
        Ok(answer) => answer.stacks.unwrap_or_default().into_iter().next(),
        // A stack that does not exist is an error of validation.
        Err(error) if error.code() == Some("ValidationError") => None,
        Err(error) => bail!("cannot look up the stack {name} in {region}: {}", DisplayErrorContext(&error)),
    };
    let stack = stack.with_context(|| format!("there is no stack {name} in {region}: see --stack and --region"))?;
    let pair = |output: &aws_sdk_cloudformation::types::Output| {
        Some((output.output_key()?.to_owned(), output.output_value()?.to_owned()))
    };
    Ok(stack.outputs().iter().filter_map(pair).collect())
}
