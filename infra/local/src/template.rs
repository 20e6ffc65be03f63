//! The SAM template, made fit for an emulator that has no `sam build`.
//!
//! Owns: pointing each function's `CodeUri` at its zip. Everything else of the template is deployed
//! as it is written: that it works locally is then a fact about the real one.
//! Must not: read or write files, or parse YAML, which would have to know the tags of templates.

use anyhow::{Result, bail, ensure};

use crate::Function;

/// The template with the `CodeUri` of every function replaced by what `code` says for it. The
/// function is the one whose `Binary` was named last before the `CodeUri`.
pub(crate) fn with_code(template: &str, code: impl Fn(Function) -> Result<String>) -> Result<String> {
    let mut rewritten = String::with_capacity(template.len());
    let mut binary = None;
    let mut seen = Vec::new();
    for (index, line) in template.lines().enumerate() {
        let number = index + 1;
        let text = line.trim_start();
        if let Some(name) = binary_in(text) {
            binary = Function::named(name);
            ensure!(
                binary.is_some(),
                "line {number} of the SAM template builds the unknown binary `{name}`; name it in infra/local/src/function.rs"
            );
        }
        if text.starts_with("CodeUri:") {
            let Some(function) = binary.take() else {
                bail!(
                    "line {number} of the SAM template has a CodeUri without a Binary before it; put the function's Metadata above its Properties"
                );
            };
            ensure!(
                !seen.contains(&function),
                "the SAM template has two functions that build `{function}`; the local stack expects one"
            );
            seen.push(function);
            let indent = &line[..line.len() - text.len()];
            rewritten.extend([indent, "CodeUri: ", &code(function)?]);
        } else {
            rewritten.push_str(line);
        }
        rewritten.push('\n');
    }
    if let Some(missing) = Function::ALL.into_iter().find(|function| !seen.contains(function)) {
        bail!(
            "the SAM template has no function that builds `{missing}`; add one, or take it out of infra/local/src/function.rs"
        );
    }
    Ok(rewritten)
}

/// The name after `Binary:` in a line that is no comment.
fn binary_in(text: &str) -> Option<&str> {
    if text.starts_with('#') {
        return None;
    }
    let (_, value) = text.split_once("Binary:")?;
    let value = value.trim_start();
    let end = value.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(value.len());
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = include_str!("../../sam/template.yaml");

    #[expect(clippy::unnecessary_wraps, reason = "the real one may fail")]
    fn code(function: Function) -> Result<String> {
        Ok(format!("s3://code/{function}.zip"))
    }

    #[test]
    fn the_real_template_gets_a_zip_for_every_function_and_no_other_change() {
        let rewritten = with_code(REAL, code).unwrap();
        let changed: Vec<_> =
            REAL.lines().zip(rewritten.lines()).filter(|(old, new)| old != new).map(|(_, new)| new.trim()).collect();
        assert_eq!(REAL.lines().count(), rewritten.lines().count());
        assert_eq!(
            changed,
            [
                "CodeUri: s3://code/deliver.zip",
                "CodeUri: s3://code/expiry.zip",
                "CodeUri: s3://code/triage.zip",
                "CodeUri: s3://code/receiver.zip"
            ]
        );
    }

    #[test]
    fn the_real_template_fits_into_one_request() {
        // CloudFormation quota: a TemplateBody has at most 51,200 bytes.
        assert!(with_code(REAL, code).unwrap().len() < 51_200);
    }

    #[track_caller]
    fn refused(case: &str, template: &str, with: &str) {
        let error = with_code(template, code).unwrap_err().to_string();
        assert!(error.contains(with), "{case}: {error}");
    }

    #[test]
    fn a_template_that_does_not_fit_is_refused_with_the_reason() {
        let (_, functions) = REAL.split_once("DeliverFunction:\n").unwrap();
        refused("no binary", "Properties:\n  CodeUri: ../../\n", "without a Binary");
        refused("unknown binary", "BuildProperties: { Binary: other }\n", "unknown binary `other`");
        refused("missing functions", &functions[..functions.find("TriageFunction:").unwrap()], "builds `triage`");
        refused("twice", &format!("{functions}\n{functions}"), "two functions that build `deliver`");
        refused("a comment is no binary", "# Binary: deliver\nCodeUri: ../../\n", "without a Binary");
    }
}
