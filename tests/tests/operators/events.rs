//! `lapse send` and `lapse schedule`: what goes in is what is delivered, and a bad line is told and harms no other.

use std::fs;

use anyhow::Result;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_policy::ledger::State;
use lapse_tests::ground::event;
use serde_json::json;

use crate::{lapse, play};

#[test]
fn an_event_from_flags_is_delivered_with_its_payloads_own_bytes() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("typed", Script::Sequence(vec![Reply::status(200)]));
        ground.destination(&partner, "typed", &json!({})).await?;
        let arguments = ["--id", "typed:1", "--destination", "typed", "--type", "order.created"];
        let payload = r#"{"b" : 1, "a":[ 2 ]}"#;
        let send = [&["send"], &arguments[..], &["--payload", payload, "--json"]].concat();
        assert_eq!(lapse(ground, &send)?.object()?, json!({"accepted": 1, "refused": 0}));
        ground.reaches(&event("typed", "typed:1"), State::Delivered).await?;
        assert!(partner.checks("typed").changed.is_empty(), "I2");
        for (id, payload, named) in [("x:1", "{", "--payload must be JSON"), ("a.b", "1", "--id")] {
            let wrong = ["send", "--destination", "typed", "--type", "t", "--id", id, "--payload", payload];
            let ran = lapse(ground, &wrong)?;
            assert!(ran.code == 2 && ran.err.contains(named), "{ran:?}");
        }
        Ok(())
    })
}

#[test]
fn a_line_that_is_no_message_is_told_by_its_number_and_the_others_are_sent() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        partner.set("filed", Script::Sequence(vec![Reply::status(200)]));
        ground.destination(&partner, "filed", &json!({})).await?;
        let (one, two) = (event("filed", "filed_1:1"), event("filed", "filed_2:1"));
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events.jsonl");
        let no_id = one.body().replace(r#""id":"filed_1:1","#, "");
        fs::write(&path, format!("{}\nhello\n\n{no_id}\n{}\n", one.body(), two.body()))?;
        let ran = lapse(ground, &["send", "--json", "--file", &path.display().to_string()])?;
        assert_eq!((ran.code, ran.out.trim()), (1, r#"{"accepted":2,"refused":2}"#), "{ran:?}");
        assert!(ran.err.contains("line 2: ") && ran.err.contains("line 4: id is missing"), "{ran:?}");
        for event in [&one, &two] {
            ground.reaches(event, State::Delivered).await?;
        }
        Ok(())
    })
}

#[test]
fn emt_3_what_is_scheduled_is_listed_and_can_be_taken_back_once() -> Result<()> {
    play(async |ground| {
        let put = ["schedule", "put", "--due", "+2h", "--id", "planned:1", "--destination", "planned", "--type", "t"];
        let put = [&put[..], &["--payload", "1", "--json"]].concat();
        assert_eq!(lapse(ground, &put)?.object()?, json!({"accepted": 1, "refused": 0}));
        let list = ["schedule", "list", "--destination", "planned", "--before", "+3h", "--json"];
        let row = lapse(ground, &list)?.object()?;
        assert_eq!((&row["delivery"], &row["kind"]), (&json!("planned#planned:1"), &json!("new")));
        let sooner = lapse(ground, &["schedule", "list", "--destination", "planned", "--before", "+1h"])?;
        assert!(!sooner.out.contains("planned:1"), "{sooner:?}");
        let cancel = ["schedule", "cancel", "planned", "planned:1"];
        let ran = lapse(ground, &cancel)?;
        assert_eq!((ran.code, ran.out.as_str()), (0, "planned#planned:1: taken back\n"));
        let again = lapse(ground, &cancel)?;
        assert!(again.code == 1 && again.out.contains("it is not in the schedule"), "{again:?}");
        assert_eq!(lapse(ground, &list)?.out, "");
        Ok(())
    })
}
