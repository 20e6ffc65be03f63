//! The event source mappings of the stack, by the emulator's Lambda API.
//!
//! Owns: listing them, switching them, and one mend of the emulator. Must not: make or delete any.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::http::Http;

const PATH: &str = "/2015-03-31/event-source-mappings";

async fn of(http: &Http, function: &str) -> Result<Vec<Value>> {
    let listed = http.get_json(&format!("{PATH}/?FunctionName={function}")).await?;
    Ok(listed["EventSourceMappings"].as_array().cloned().unwrap_or_default())
}

async fn update(http: &Http, mapping: &Value, change: &Value) -> Result<()> {
    let id = mapping["UUID"].as_str().unwrap_or_default();
    http.put_json(&format!("{PATH}/{id}"), change).await?;
    Ok(())
}

/// Switches all mappings of a function on or off.
pub(crate) async fn set_enabled(http: &Http, function: &str, enabled: bool) -> Result<()> {
    let mappings = of(http, function).await?;
    ensure!(!mappings.is_empty(), "{function} has no event source; only deliver and triage read a queue");
    for mapping in mappings {
        update(http, &mapping, &json!({ "Enabled": enabled })).await?;
    }
    Ok(())
}

/// A parameter of a template is text, on AWS too, where the API then takes it as the number that it is meant to be.
/// The emulator keeps the text, and its poller then compares it with a number and fails.
pub(crate) async fn mend_concurrency(http: &Http, function: &str) -> Result<()> {
    for mapping in of(http, function).await? {
        let stored = mapping["ScalingConfig"]["MaximumConcurrency"].as_str();
        if let Some(most) = stored.and_then(|text| text.parse::<u32>().ok()) {
            update(http, &mapping, &json!({ "ScalingConfig": { "MaximumConcurrency": most } })).await?;
        }
    }
    Ok(())
}
