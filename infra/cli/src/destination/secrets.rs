//! SEC-4: secrets as a person handles them: made, told apart by a fingerprint, rotated.
//!
//! Owns: their order in a row: the newest first. Must not: print one that it did not make.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use lapse_policy::secret::Secret;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::rows::Rows;
use super::{RotateFlags, change};
use crate::commands::{show, usage};
use crate::deployed::Deployed;

/// A secret's random bytes (Standard Webhooks: 24 to 64).
const BYTES: usize = 32;
/// Shown of a fingerprint.
const SHOWN: usize = 4;

/// A new secret.
pub(super) fn generate() -> Result<String> {
    use base64::Engine as _;
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
    Ok(format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(bytes)))
}

/// The start of a secret's SHA-256: enough to tell two apart.
#[must_use]
pub(super) fn fingerprint(secret: &Value) -> String {
    let Some(text) = secret.as_str() else { return "not a text".to_owned() };
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(SHOWN).fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Adds a secret in front of the newest, or drops all but the newest.
pub(super) async fn rotate(flags: &RotateFlags) -> Result<ExitCode> {
    let name = flags.of.parse()?;
    if let Some(secret) = &flags.secret {
        Secret::parse(secret).map_err(|_| usage("--secret must be whsec_ and the base64 of 24 to 64 bytes"))?;
    }
    let stack = Deployed::find(&flags.of.stack).await?;
    let rows = Rows::of(&stack)?;
    let Some(before) = rows.read(&name).await? else { bail!("there is no destination {name}") };
    change::check(&name, &before).with_context(|| format!("{name} is invalid as it is; mend it with put first"))?;
    let secrets = before.get("secrets").and_then(Value::as_array).cloned().unwrap_or_default();
    let newest = secrets.first().cloned().context("it has no secret")?;
    let made = if flags.finish || flags.secret.is_some() { None } else { Some(generate()?) };
    let (after, next) = match flags.secret.as_ref().or(made.as_ref()) {
        Some(new) => (
            vec![json!(new), newest],
            "let the receiver trust the new one beside the old; then: lapse destination rotate-secret NAME --finish",
        ),
        None => (vec![newest], "done: requests have one signature within 30 s"),
    };
    let mut row = before.clone();
    row.insert("secrets".to_owned(), Value::Array(after.clone()));
    change::check(&name, &row)?;
    if row != before {
        rows.write(&name, Some(&before), &row).await?;
    }
    let prints: Vec<_> = after.iter().map(fingerprint).collect();
    let mut lines = vec![format!("{name} signs with {}, the newest first", prints.join(" and "))];
    lines.extend(made.iter().map(|secret| format!("the new one, shown this once: {secret}")));
    lines.push(next.to_owned());
    show(flags.of.stack.json, &json!({"destination": name.as_str(), "secrets": prints, "secret": made}), &lines)?;
    Ok(ExitCode::SUCCESS)
}
