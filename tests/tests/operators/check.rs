//! `lapse check` on a stack that is as it was meant, but for what the emulator does not keep, and with one fault.

use anyhow::{Context, Result};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;

use crate::{lapse, play};

fn errors(report: &str) -> Result<Vec<String>> {
    let report: Value = serde_json::from_str(report).context("no JSON")?;
    let findings = report["findings"].as_array().context("findings")?;
    let errors = findings.iter().filter(|finding| finding["severity"] == "error");
    Ok(errors.filter_map(|finding| finding["what"].as_str().map(str::to_owned)).collect())
}

#[test]
fn a_visibility_below_six_timeouts_is_found_and_nothing_else_changes() -> Result<()> {
    play(async |ground| {
        let before = errors(&lapse(ground, &["check", "--json"])?.out)?;
        assert!(before.iter().all(|what| !what.starts_with("queue ")), "{before:?}");
        let queue = ground.stack.output("FailuresQueueUrl")?;
        let set = async |seconds: &str| {
            let request = ground.sqs.set_queue_attributes().queue_url(queue);
            request.attributes(QueueAttributeName::VisibilityTimeout, seconds).send().await
        };
        set("30").await?;
        let ran = lapse(ground, &["check", "--json"]);
        set("180").await?;
        let ran = ran?;
        let mut found = errors(&ran.out)?;
        found.retain(|what| !before.contains(what));
        assert_eq!((ran.code, found), (1, vec!["queue failures: visibility is 30 s, less than 180 s".to_owned()]));
        Ok(())
    })
}
