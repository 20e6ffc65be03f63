//! `lapse destination`: rows are checked before they are written, secrets stay secret, and a pause holds.

use anyhow::Result;
use lapse_local::LOCAL_SECRET;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::event;
use serde_json::json;

use crate::{lapse, play};

#[test]
fn a_destination_is_created_changed_and_shown_without_its_secret() -> Result<()> {
    play(async |ground| {
        let put = lapse(
            ground,
            &["destination", "put", "made", "--url", "https://made.example/x", "--generate-secret", "--json"],
        )?;
        let secret = put.object()?["secret"].as_str().unwrap_or_default().to_owned();
        assert!(secret.starts_with("whsec_"), "{put:?}");
        let again = lapse(ground, &["destination", "put", "made", "--timeout-ms", "5000"])?;
        assert!(again.out.contains("timeout_ms: none -> 5000"), "{again:?}");
        let same = lapse(ground, &["destination", "put", "made", "--timeout-ms", "5000", "--json"])?;
        assert_eq!(same.object()?["outcome"], "nothing changes");
        let limit = lapse(ground, &["destination", "limit", "made", "--rate", "50/60", "--burst", "5", "--json"])?;
        assert_eq!(limit.object()?["changes"][0]["to"], r#"{"burst":5,"limit":50,"per_seconds":60}"#);
        let get = lapse(ground, &["destination", "get", "made", "--json"])?;
        let row = &get.object()?["row"];
        assert_eq!((&row["rate"]["limit"], &row["timeout_ms"]), (&json!(50), &json!(5000)));
        let list = lapse(ground, &["destination", "list"])?;
        assert!(
            list.out.lines().any(|line| line.starts_with("made ") && line.contains("50/60 s, burst 5")),
            "{list:?}"
        );
        for ran in [&again, &same, &limit, &get, &list] {
            assert!(!format!("{ran:?}").contains(&secret), "SEC-4: {ran:?}");
        }
        Ok(())
    })
}

#[test]
fn dst_1_a_row_that_does_not_parse_is_not_written_and_the_field_is_named() -> Result<()> {
    play(async |ground| {
        let put = |more: &[&str]| {
            let mut arguments =
                vec!["destination", "put", "wrong", "--url", "https://wrong.example/", "--generate-secret"];
            arguments.extend(more);
            lapse(ground, &arguments)
        };
        for (more, field) in [
            (["--timeout-ms", "60000"], "timeout_ms"),
            (["--rate", "0"], "rate.limit"),
            (["--header", "webhook-id: x"], "headers"),
        ] {
            let ran = put(&more)?;
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(ran.err.contains(field), "{field}: {ran:?}");
        }
        let get = lapse(ground, &["destination", "get", "wrong"])?;
        assert_eq!((get.code, get.err.as_str()), (1, "error: there is no destination wrong\n"), "nothing was written");
        let dry = put(&["--dry-run"])?;
        assert!(dry.out.starts_with("wrong: would be created"), "{dry:?}");
        assert_eq!(lapse(ground, &["destination", "get", "wrong"])?.code, 1);
        Ok(())
    })
}

#[test]
fn dst_2_a_paused_destination_gets_nothing_until_it_is_resumed() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("held", Script::Sequence(vec![Reply::status(200)]));
        ground.destination(&partner, "held", &json!({})).await?;
        let pause = lapse(ground, &["destination", "pause", "held", "--until", "+10m", "--json"])?;
        assert_eq!(pause.object()?["from"], "none");
        let shorter = lapse(ground, &["destination", "pause", "held", "--until", "+1m"])?;
        assert!(shorter.out.contains("A pause is only ever made longer"), "LIM-7: {shorter:?}");
        let event = event("held", "held:1");
        ground.driver.send(std::slice::from_ref(&event)).await?;
        ground.reaches(&event, State::Waiting).await?;
        assert!(partner.requests("held").is_empty());
        let shown = lapse(ground, &["delivery", "show", "held", "held:1"])?;
        assert!(shown.out.contains("the destination is paused until "), "{shown:?}");
        let resume = lapse(ground, &["destination", "resume", "held", "--json"])?;
        assert_eq!(resume.object()?["to"], "none");
        let clocks = lapse(ground, &["destination", "get", "held", "--json"])?.object()?;
        assert_eq!(clocks["pause"], "none");
        let nobody = lapse(ground, &["destination", "pause", "nobody-here"])?;
        assert_eq!((nobody.code, nobody.err.as_str()), (1, "error: there is no destination nobody-here\n"));
        Ok(())
    })
}

#[test]
fn a_rotation_signs_with_both_secrets_until_it_is_finished_and_a_test_shows_that_the_receiver_trusts() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("turning", Script::Sequence(vec![Reply::status(200)]));
        ground.destination(&partner, "turning", &json!({})).await?;
        let rotate = lapse(ground, &["destination", "rotate-secret", "turning", "--json"])?;
        assert_eq!(rotate.object()?["secrets"].as_array().map(Vec::len), Some(2));
        assert!(!format!("{rotate:?}").contains(LOCAL_SECRET), "SEC-4: the old one is not shown");
        let test = ["destination", "test", "turning", "--allow-cidr", "127.0.0.0/8", "--json"];
        let answered = lapse(ground, &test)?.object()?;
        assert_eq!((&answered["status"], &answered["class"]), (&json!("200"), &json!("delivered")));
        partner.set("turning", Script::Sequence(vec![Reply::status(503)]));
        let refused = lapse(ground, &test)?;
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.out.contains("it is tried again in "), "{refused:?}");
        let blocked = lapse(ground, &["destination", "test", "turning"])?;
        assert!(blocked.code == 1 && blocked.out.contains("blocked_address"), "SEC-2: {blocked:?}");
        let finish = lapse(ground, &["destination", "rotate-secret", "turning", "--finish", "--json"])?;
        assert_eq!(finish.object()?["secrets"].as_array().map(Vec::len), Some(1));
        Ok(())
    })
}
