//! OBS-4, SEC-4: what is never in a log.

use anyhow::Result;
use lapse_local::driver::Event;
use lapse_local::partner::{Lose, Partner, Reply, Script};
use lapse_local::{Function, LOCAL_SECRET};
use lapse_policy::ledger::State;
use lapse_tests::ground::{event, row};
use lapse_tests::witness::{Answer, Witness};
use serde_json::json;

use crate::play;

/// In every payload of this test.
const CANARY: &str = "canary-5f0c2d";
/// In a header of the destination's own.
const TOKEN: &str = "token-91b7aa";
/// In the query of every URL.
const QUERY: &str = "query-3d18e6";
/// In the body of an answer that ends a delivery, and of one that is tried again.
const ANSWER: &str = "answer-c40b77";

#[test]
fn obs_4_no_payload_header_query_answer_or_secret_is_in_any_log() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let answers = [400, 500].map(|status| Answer { status, body: ANSWER, ..Answer::default() });
        let [refuses, fails] = answers;
        let (refuses, fails) = (Witness::start([refuses]).await?, Witness::start([fails]).await?);
        let says = |witness: &Witness| Script::Forward { url: witness.url.clone(), lose_answers: Lose::First(0) };
        let scripts = [
            ("says-no", says(&refuses)),
            ("says-later", says(&fails)),
            ("well", Script::Accept),
            ("shy", Script::Sequence([500, 200].map(Reply::status).to_vec())),
            ("unwell", Script::Sequence(vec![Reply::status(400)])),
            ("cut-off", Script::Reset),
            ("decides", Script::Forward { url: ground.stack.receiver_url()?, lose_answers: Lose::First(0) }),
        ];
        let headers = json!({"headers": {"x-token": TOKEN}, "policy": {"max_attempts": 2}});
        let mut events: Vec<Event> = Vec::new();
        for (name, script) in scripts {
            partner.set(name, script);
            let row = row(&format!("{}?key={QUERY}", partner.url(name)), &headers);
            ground.driver.put_destination(name, &row).await?;
            events.push(event(name, "secret:1"));
        }
        // Nobody listens there: the client's own error must not show the URL.
        let closed = row(&format!("http://127.0.0.1:9/?key={QUERY}"), &headers);
        ground.driver.put_destination("closed-port", &closed).await?;
        events.push(event("closed-port", "secret:1"));
        let invalid = row(&format!("ftp://127.0.0.1/?key={QUERY}"), &headers);
        ground.driver.put_destination_unchecked("bad-url-key", &invalid).await?;
        events.push(event("bad-url-key", "secret:1"));
        // A row whose secret is wrong is complained of without it.
        let bad = row(&partner.url("bad-secret"), &json!({"secrets": [format!("whsec_{CANARY}!")]}));
        ground.driver.put_destination_unchecked("bad-secret", &bad).await?;
        events.push(event("bad-secret", "secret:1"));
        for event in &mut events {
            event.payload = json!({"who": CANARY, "reservation_id": CANARY}).to_string();
        }
        ground.driver.send(&events).await?;
        let malformed = [format!("{CANARY} is no JSON"), event("well", "x:1").body().replace("payload", CANARY)];
        ground.driver.send_bodies(&malformed, 0).await?;
        for event in &events {
            let state =
                if ["well", "shy"].contains(&event.destination.as_str()) { State::Delivered } else { State::Dead };
            ground.reaches(event, state).await?;
            if state == State::Dead {
                ground.letter_of(event).await?;
            }
            if event.destination.starts_with("says") {
                let record = ground.record(event).await?;
                let kept = record.and_then(|record| record.last_error);
                assert_eq!(kept.as_deref(), Some(ANSWER), "the record keeps it for the operator");
            }
        }
        ground.letter("no JSON", |letter| letter.text.contains("is no JSON") && letter.text.contains(CANARY)).await?;

        let key = LOCAL_SECRET.trim_start_matches("whsec_");
        for function in Function::ALL {
            let lines = ground.stack.logs(function).await?;
            for forbidden in [CANARY, TOKEN, QUERY, ANSWER, key] {
                let found = lines.iter().find(|line| line.contains(forbidden));
                assert_eq!(found, None, "{function} logs {forbidden}");
            }
        }
        assert!(!ground.log_of(&events[0]).await?.is_empty(), "it does log");
        Ok(())
    })
}
