//! The deployment: zips to the emulator's S3, then the SAM template as a stack.
//!
//! Owns: creating and updating the stack, waiting for it, and saying which resource failed and why.
//! Must not: change the template but for where the code lies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aws_config::SdkConfig;
use aws_sdk_cloudformation::Client;
use aws_sdk_cloudformation::error::{DisplayErrorContext, ProvideErrorMetadata};
use aws_sdk_cloudformation::types::{Capability, Parameter, Stack, StackStatus};

use crate::binaries::Package;
use crate::http::Http;
use crate::{Function, LOCAL_SECRET, Options, Progress, mappings, template};

/// The stack's name; it begins the queues' names.
const STACK: &str = "lapse";

/// The bucket of the zips.
const BUCKET: &str = "lapse-code";

/// What has to be allowed before a template may make roles and use the SAM transform.
const CAPABILITIES: [Capability; 2] = [Capability::CapabilityIam, Capability::CapabilityAutoExpand];

/// Deploys the packages and the template: a new stack, or an update of the one that is there.
/// Returns the template's outputs.
pub(crate) async fn deploy(
    options: &Options,
    packages: &[Package],
    http: &Http,
    sdk: &SdkConfig,
    progress: Progress<'_>,
) -> Result<BTreeMap<String, String>> {
    let body = read_template(&options.template(), packages)?;
    let client = Client::new(sdk);
    let deployed = describe(&client).await?;
    progress("uploading the code");
    if deployed.is_none() {
        http.put(&format!("/{BUCKET}"), Vec::new()).await.context("cannot make the bucket for the code")?;
    }
    for package in packages {
        let path = format!("/{BUCKET}/{}", package.key);
        let upload = http.put(&path, package.zip.clone()).await;
        upload.with_context(|| format!("cannot upload the code of {}", package.function))?;
    }
    progress("deploying the template");
    let outputs = match deployed {
        None => create(&client, options, body).await?,
        Some(_) => update(&client, options, body).await?,
    };
    verify(http, &outputs, packages).await?;
    for name in [Function::Deliver, Function::Triage].iter().filter_map(|f| outputs.get(f.output())) {
        mappings::mend_concurrency(http, name).await?;
    }
    Ok(outputs)
}

fn read_template(path: &Path, packages: &[Package]) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read the SAM template {}", path.display()))?;
    template::with_code(&text, |function| {
        let package = packages.iter().find(|package| package.function == function);
        let package = package.with_context(|| format!("the function {function} was not built"))?;
        Ok(format!("s3://{BUCKET}/{}", package.key))
    })
}

async fn create(client: &Client, options: &Options, body: String) -> Result<BTreeMap<String, String>> {
    let request = client.create_stack().stack_name(STACK).template_body(body);
    let request = request.set_parameters(Some(parameters(options))).set_capabilities(Some(CAPABILITIES.to_vec()));
    if let Err(error) = request.send().await {
        bail!("the SAM template was refused: {}", reason(&error));
    }
    finish(client).await
}

async fn update(client: &Client, options: &Options, body: String) -> Result<BTreeMap<String, String>> {
    let request = client.update_stack().stack_name(STACK).template_body(body);
    let request = request.set_parameters(Some(parameters(options))).set_capabilities(Some(CAPABILITIES.to_vec()));
    if let Err(error) = request.send().await {
        let reason = reason(&error);
        // CloudFormation has no code of its own for this, only the sentence.
        ensure!(reason.contains("No updates are to be performed"), "the SAM template was refused: {reason}");
    }
    finish(client).await
}

/// Waits until the deployment has ended, and for nothing longer: the emulator answers
/// within seconds or has failed.
async fn finish(client: &Client) -> Result<BTreeMap<String, String>> {
    const POLL: Duration = Duration::from_millis(100);
    const POLLS: usize = 600;
    for _ in 0..POLLS {
        let stack = describe(client).await?.context("the stack vanished while it was deployed; try again")?;
        match stack.stack_status() {
            Some(
                StackStatus::CreateComplete
                | StackStatus::UpdateComplete
                | StackStatus::UpdateCompleteCleanupInProgress,
            ) => {
                return Ok(outputs(&stack));
            }
            Some(status) if status.as_str().ends_with("_IN_PROGRESS") => tokio::time::sleep(POLL).await,
            status => {
                let status = status.map_or("no status", StackStatus::as_str);
                bail!("the template could not be deployed ({status}):\n{}", failures(client, &stack).await);
            }
        }
    }
    bail!("the template was not deployed within a minute; see ministack.log in the state directory")
}

async fn describe(client: &Client) -> Result<Option<Stack>> {
    match client.describe_stacks().stack_name(STACK).send().await {
        Ok(answer) => Ok(answer.stacks.unwrap_or_default().into_iter().next()),
        // A stack that does not exist is an error of validation, like on AWS.
        Err(error) if error.code() == Some("ValidationError") => Ok(None),
        Err(error) => bail!("CloudFormation of the local stack does not answer: {}", DisplayErrorContext(&error)),
    }
}

fn outputs(stack: &Stack) -> BTreeMap<String, String> {
    stack
        .outputs()
        .iter()
        .filter_map(|output| Some((output.output_key()?.to_owned(), output.output_value()?.to_owned())))
        .collect()
}

/// One line per resource that failed.
async fn failures(client: &Client, stack: &Stack) -> String {
    let mut lines: Vec<String> =
        stack.stack_status_reason().filter(|reason| !reason.is_empty()).map(str::to_owned).into_iter().collect();
    if let Ok(events) = client.describe_stack_events().stack_name(STACK).send().await {
        lines.extend(events.stack_events().iter().filter_map(|event| {
            let status = event.resource_status()?.as_str();
            let resource = event.logical_resource_id().unwrap_or("?");
            status.ends_with("_FAILED").then(|| {
                format!("{resource} {status}: {}", event.resource_status_reason().unwrap_or("no reason given"))
            })
        }));
    }
    lines.join("\n")
}

/// The emulator deploys a function whose code it did not find, and answers for it. That would let
/// a test pass that never ran, so it is refused here.
async fn verify(http: &Http, outputs: &BTreeMap<String, String>, packages: &[Package]) -> Result<()> {
    for package in packages {
        let Some(name) = outputs.get(package.function.output()) else {
            // The receiver may be switched off by its parameter; the others may not.
            ensure!(
                package.function == Function::Receiver,
                "the SAM template has no output {}; add it",
                package.function.output()
            );
            continue;
        };
        let configuration = http.get_json(&format!("/2015-03-31/functions/{name}/configuration")).await?;
        let size = configuration["CodeSize"].as_u64().unwrap_or(0);
        ensure!(
            usize::try_from(size).ok() == Some(package.zip.len()),
            "the function {} was deployed with {size} bytes of code instead of {}; run `lapse local down` and try again",
            package.function,
            package.zip.len()
        );
    }
    Ok(())
}

fn parameters(options: &Options) -> Vec<Parameter> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    let mut values = BTreeMap::from([
        ("Architecture", architecture),
        ("AllowCidrs", "127.0.0.0/8"),
        // Each is a process here, not a sandbox in a data centre.
        ("DeliverMaximumConcurrency", "8"),
        ("ReceiverEnabled", "true"),
        ("ReceiverSecrets", LOCAL_SECRET),
    ]);
    values.extend(options.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    values
        .into_iter()
        .map(|(name, value)| Parameter::builder().parameter_key(name).parameter_value(value).build())
        .collect()
}

/// The sentence in an answer, or what kept it from coming.
fn reason<E>(error: &aws_sdk_cloudformation::error::SdkError<E>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    error.message().map_or_else(|| DisplayErrorContext(error).to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_parameters_win_over_the_local_defaults_and_the_rest_stay() {
        let options = Options::new(".", ".").parameter("ReceiverSecrets", "whsec_x").parameter("LogLevel", "debug");
        let values: BTreeMap<_, _> =
            parameters(&options).into_iter().filter_map(|p| Some((p.parameter_key?, p.parameter_value?))).collect();
        assert_eq!(values["ReceiverSecrets"], "whsec_x");
        assert_eq!(values["LogLevel"], "debug");
        assert_eq!(values["ReceiverEnabled"], "true");
        assert_eq!(values["AllowCidrs"], "127.0.0.0/8");
    }
}
