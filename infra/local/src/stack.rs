//! A local stack and what can be asked of it.
//!
//! Owns: [`start`], [`up`], [`down`], [`status`], and the helpers of [`Stack`] that tests and the
//! demo need and no SDK crate of the workspace offers.
//! Must not: know the emulator's command line or the template's content.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_cloudformation::config::{Credentials, SharedCredentialsProvider};
use serde_json::json;

use crate::emulator::{Emulator, is_ours};
use crate::http::Http;
use crate::processes::{self, MARK};
use crate::record::{self, State};
use crate::{Function, Options, Progress, REGION, binaries, deploy, mappings, python};

/// A stack that runs. One from [`start`] ends with this value, one from [`up`] does not.
#[derive(Debug)]
pub struct Stack {
    /// Where it listens: `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// The region of its resources.
    pub region: String,
    /// The template's outputs by name.
    pub outputs: BTreeMap<String, String>,
    http: Http,
    mark: String,
    /// The emulator ends before the lock is given back.
    owned: Option<(Emulator, File)>,
}

/// Builds, starts and deploys a stack that belongs to the caller: it ends when the value is
/// dropped, and also when the caller's process ends in any other way.
pub async fn start(options: &Options, progress: Progress<'_>) -> Result<Stack> {
    let lock = record::lock(&options.state)?;
    if let Some(state) = running(&options.state).await? {
        bail!(
            "`lapse local up` left a stack running in {} on port {}; end it with `lapse local down`, or use another state directory",
            options.state.display(),
            state.port
        );
    }
    let (emulator, outputs) = launch(options, progress).await?;
    let mut stack = Stack::at(&emulator.endpoint(), outputs, &emulator.mark)?;
    stack.owned = Some((emulator, lock));
    Ok(stack)
}

/// Makes sure that a stack with the code and the template as they are now runs on after this
/// command. One that runs already keeps its data and gets what has changed.
pub async fn up(options: &Options, progress: Progress<'_>) -> Result<Stack> {
    let _lock = record::lock(&options.state)?;
    let Some(mut state) = running(&options.state).await? else {
        let (emulator, outputs) = launch(options, progress).await?;
        let stack = Stack::at(&emulator.endpoint(), outputs, &emulator.mark)?;
        let state = State {
            pid: emulator.pid(),
            pgid: emulator.group(),
            port: emulator.port,
            endpoint: emulator.endpoint(),
            outputs: stack.outputs.clone(),
            mark: emulator.mark.clone(),
        };
        // Once the record is written, `down` can end what the next line lets go.
        state.write(&options.state)?;
        emulator.keep()?;
        return Ok(stack);
    };
    if let Some(port) = options.port.filter(|port| *port != state.port) {
        bail!("a stack already runs on port {} and not on {port}; end it with `lapse local down` first", state.port);
    }
    let packages = binaries::build(options, progress).await?;
    let mut stack = Stack::at(&state.endpoint, BTreeMap::new(), &state.mark)?;
    stack.outputs = deploy::deploy(options, &packages, &stack.http, &stack.sdk_config(), progress).await?;
    state.outputs.clone_from(&stack.outputs);
    state.write(&options.state)?;
    Ok(stack)
}

/// Ends the stack that [`up`] left running, and whatever its functions left behind. Returns
/// whether there was one.
pub async fn down(state: &Path) -> Result<bool> {
    if !state.exists() {
        return Ok(false);
    }
    let _lock = record::lock(state)?;
    let Some(record) = State::read(state)? else {
        return Ok(false);
    };
    let http = Http::new(&record.endpoint)?;
    let mut found = false;
    // The group's id is only ours while its emulator answers with our mark.
    if is_ours(&http, &record.mark).await {
        found = true;
        processes::signal_group(record.pgid, processes::Signal::TERM);
        let until = Instant::now() + processes::GRACE;
        while Instant::now() < until && is_ours(&http, &record.mark).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let mark = record.mark;
    found |= tokio::task::spawn_blocking(move || processes::end_marked(&mark)).await?;
    State::remove(state)?;
    let scratch = state.join("tmp");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    }
    Ok(found)
}

/// The stack that [`up`] left running, if it still does.
pub async fn status(state: &Path) -> Result<Option<State>> {
    running(state).await
}

async fn running(state: &Path) -> Result<Option<State>> {
    let Some(record) = State::read(state)? else {
        return Ok(None);
    };
    let http = Http::new(&record.endpoint)?;
    Ok(is_ours(&http, &record.mark).await.then_some(record))
}

async fn launch(options: &Options, progress: Progress<'_>) -> Result<(Emulator, BTreeMap<String, String>)> {
    let template = options.template();
    ensure!(
        template.exists(),
        "there is no SAM template at {}; run this in the root of the workspace",
        template.display()
    );
    // An emulator that was killed may have left functions behind that still wait for something.
    if let Some(gone) = State::read(&options.state)? {
        tokio::task::spawn_blocking(move || processes::end_marked(&gone.mark)).await?;
        State::remove(&options.state)?;
    }
    let python = python::interpreter(&options.root, progress).await?;
    let packages = binaries::build(options, progress).await?;
    progress("starting the emulator");
    let emulator = Emulator::start(options, &python).await?;
    let http = Http::new(&emulator.endpoint())?;
    let outputs = deploy::deploy(options, &packages, &http, &sdk_config(&emulator.endpoint()), progress).await?;
    Ok((emulator, outputs))
}

fn sdk_config(endpoint: &str) -> SdkConfig {
    // The emulator checks no credentials. Fixed ones keep the caller's own out of it.
    let credentials = Credentials::new("test", "test", None, None, "lapse-local");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build()
}

impl Stack {
    fn at(endpoint: &str, outputs: BTreeMap<String, String>, mark: &str) -> Result<Self> {
        Ok(Self {
            endpoint: endpoint.to_owned(),
            region: REGION.to_owned(),
            outputs,
            http: Http::new(endpoint)?,
            mark: mark.to_owned(),
            owned: None,
        })
    }

    /// The stack that [`up`] left running, as a [`Stack`]; `None` if there is none.
    pub async fn attach(state: &Path) -> Result<Option<Self>> {
        let Some(record) = running(state).await? else {
            return Ok(None);
        };
        Self::at(&record.endpoint, record.outputs, &record.mark).map(Some)
    }

    /// An output of the template by name, such as `DeliveriesQueueUrl`.
    pub fn output(&self, name: &str) -> Result<&str> {
        self.outputs
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("the stack has no output {name}; see infra/contract.json"))
    }

    /// Where the reference receiver takes webhooks. The function URL in the outputs is a public
    /// name; this is the same function on 127.0.0.1.
    pub fn receiver_url(&self) -> Result<String> {
        let public = self.output("ReceiverUrl")?;
        let id = url_id(public).with_context(|| format!("the function URL {public} has no host"))?;
        Ok(format!("{}/_aws/lambda-url/{id}/", self.endpoint))
    }

    /// Configuration for any SDK client of the stack.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.endpoint)
    }

    /// Invokes a function and waits for its answer. An error of the function is an error here.
    pub async fn invoke(&self, function: Function, payload: &str) -> Result<Vec<u8>> {
        let path = format!("/2015-03-31/functions/{}/invocations", self.name(function)?);
        let answer = self.http.post(&path, payload.as_bytes().to_vec()).await?;
        let failed = answer.headers().contains_key("x-amz-function-error");
        let body = answer.bytes().await.with_context(|| format!("the answer of {function} broke off"))?;
        ensure!(!failed, "{function} failed: {}", String::from_utf8_lossy(&body));
        Ok(body.to_vec())
    }

    /// Stops or resumes what a function gets from its queue. Messages wait meanwhile.
    pub async fn set_mapping_enabled(&self, function: Function, enabled: bool) -> Result<()> {
        mappings::set_enabled(&self.http, self.name(function)?, enabled).await
    }

    /// All that a function has logged, oldest first. The emulator stores an invocation's lines when
    /// it ends, not before.
    pub async fn logs(&self, function: Function) -> Result<Vec<String>> {
        let configuration =
            self.http.get_json(&format!("/2015-03-31/functions/{}/configuration", self.name(function)?)).await?;
        let group = configuration["LoggingConfig"]["LogGroup"]
            .as_str()
            .with_context(|| format!("{function} has no log group"))?;
        let mut lines = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut request = json!({ "logGroupName": group });
            if let Some(token) = &token {
                request["nextToken"] = json!(token);
            }
            let page = self.http.call("Logs_20140328.FilterLogEvents", &request).await?;
            let events = page["events"].as_array().into_iter().flatten();
            lines.extend(events.filter_map(|event| event["message"].as_str()).map(str::to_owned));
            let next = page["nextToken"].as_str().map(str::to_owned);
            if next.is_none() || next == token {
                return Ok(lines);
            }
            token = next;
        }
    }

    /// The live processes of a function: one for each invocation at once, kept for later ones.
    /// Empty on systems without `/proc`.
    pub fn processes(&self, function: Function) -> Result<Vec<u32>> {
        Ok(processes::with_environment(&[(MARK, &self.mark), ("AWS_LAMBDA_FUNCTION_NAME", self.name(function)?)]))
    }

    /// The function's name in the stack.
    pub fn name(&self, function: Function) -> Result<&str> {
        self.output(function.output())
    }

    /// Ends an owned stack and waits for that without holding up other tasks. Dropping it does the
    /// same, but holds up its thread for up to some seconds. A stack from [`up`] runs on.
    pub async fn stop(mut self) -> Result<()> {
        let owned = self.owned.take();
        tokio::task::spawn_blocking(move || drop(owned))
            .await
            .context("cannot end the local stack; run `lapse local down`")
    }
}

/// The id of a function URL: the first label of its host.
fn url_id(url: &str) -> Option<&str> {
    let (_, host) = url.split_once("://")?;
    host.split(['.', '/']).next().filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_url_is_on_the_loopback_interface_whatever_the_output_says() {
        let outputs = [("ReceiverUrl".to_owned(), "https://abc123.lambda-url.eu-west-1.on.aws/".to_owned())].into();
        let stack = Stack::at("http://127.0.0.1:4566", outputs, "lapse-1").unwrap();
        assert_eq!(stack.receiver_url().unwrap(), "http://127.0.0.1:4566/_aws/lambda-url/abc123/");
    }

    #[test]
    fn an_output_that_is_not_there_is_named() {
        let stack = Stack::at("http://127.0.0.1:4566", BTreeMap::new(), "lapse-1").unwrap();
        let error = stack.name(Function::Triage).unwrap_err().to_string();
        assert!(error.contains("TriageFunctionName"), "{error}");
        assert!(url_id("nonsense").is_none() && url_id("https:///").is_none());
    }
}
