//! RCV-1 to RCV-5 as a sender sees them: from the function URL's event to the answer, on a real DynamoDB engine.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

mod support;

use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use lapse_engines::each;
use lapse_policy::secret::Secret;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};
use support::{Answered, BODY, Fixed, NEW, NOW, OLD, Post, World, answering, nowhere};
use tokio::task::JoinSet;

fn decided(decision: &str, reason: &str, repeated: bool) -> Value {
    json!({ "event_id": "res_1:3", "decision": decision, "reason": reason, "repeated": repeated })
}

#[track_caller]
fn check(label: &str, answered: &Answered, status: u16, body: &Value) {
    assert_eq!((answered.status, &answered.body), (status, body), "{label}");
    assert_eq!(answered.headers["content-type"], "application/json", "{label}");
}

#[tokio::test]
async fn rcv_1_the_slot_is_released_with_its_decision() {
    for engine in each() {
        let world = World::new(engine).await;
        world.reserve("held", 3).await;
        check("first", &world.answer(&Post::genuine()).await, 200, &decided("released", "hold_expired", false));
        assert_eq!(world.status().await.as_deref(), Some("released"));
        assert_eq!(world.decisions().await, 1);
    }
}

#[tokio::test]
async fn rcv_2_a_repeated_event_gets_the_decision_that_was_made() {
    for engine in each() {
        let world = World::new(engine).await;
        world.reserve("held", 3).await;
        world.answer(&Post::genuine()).await;
        let later = Post::signed("res_1:3", BODY, OLD, NOW.seconds() + 60);
        check("again", &world.answer(&later).await, 200, &decided("released", "hold_expired", true));
        // The slot was sold anew since: the repeat changes nothing.
        world.reserve("held", 4).await;
        check("after a new hold", &world.answer(&later).await, 200, &decided("released", "hold_expired", true));
        assert_eq!(world.status().await.as_deref(), Some("held"));
        // Not even at the same version.
        world.reserve("held", 3).await;
        check("after a restore", &world.answer(&later).await, 200, &decided("released", "hold_expired", true));
        assert_eq!(world.status().await.as_deref(), Some("held"));
        assert_eq!(world.decisions().await, 1);
    }
}

async fn crowd(world: &Arc<World>) -> Vec<Answered> {
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let world = Arc::clone(world);
        tasks.spawn(async move { world.answer(&Post::genuine()).await });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn rcv_2_twenty_at_once_make_one_decision() {
    for engine in each() {
        let world = Arc::new(World::new(engine).await);
        for (label, status, decision, reason) in
            [("held", "held", "released", "hold_expired"), ("paid", "paid", "refused", "paid")]
        {
            let world = if label == "held" { Arc::clone(&world) } else { Arc::new(World::new(engine).await) };
            world.reserve(status, 3).await;
            let answers = crowd(&world).await;
            let first = answers.iter().filter(|answered| answered.body["repeated"] == false).count();
            assert_eq!((answers.len(), first), (20, 1), "{label}: one of them decided");
            for answered in &answers {
                let repeated = answered.body["repeated"] == true;
                check(label, answered, 200, &decided(decision, reason, repeated));
            }
            assert_eq!(world.decisions().await, 1, "{label}");
        }
    }
}

#[tokio::test]
async fn rcv_3_a_slot_that_is_not_this_events_is_refused_for_good() {
    for engine in each() {
        let cases = [
            ("paid", Some(("paid", 3)), "paid"),
            ("paid later", Some(("paid", 5)), "paid"),
            ("extended", Some(("held", 4)), "newer_version"),
            ("not at this version yet", Some(("held", 2)), "older_version"),
            ("released by hand", Some(("released", 3)), "already_released"),
            ("another status", Some(("cancelled", 3)), "not_held"),
            ("missing", None, "not_found"),
        ];
        for (label, row, reason) in cases {
            let world = World::new(engine).await;
            if let Some((status, version)) = row {
                world.reserve(status, version).await;
            }
            check(label, &world.answer(&Post::genuine()).await, 200, &decided("refused", reason, false));
            assert_eq!(world.status().await.as_deref(), row.map(|(status, _)| status), "{label}: untouched");
            // It stays refused, even where the slot could be released now.
            world.reserve("held", 3).await;
            check(label, &world.answer(&Post::genuine()).await, 200, &decided("refused", reason, true));
            assert_eq!(world.status().await.as_deref(), Some("held"), "{label}: I3");
            assert_eq!(world.decisions().await, 1, "{label}");
        }
    }
}

#[tokio::test]
async fn i3_a_payment_and_an_expiry_at_once_have_one_winner() {
    for engine in each() {
        let world = Arc::new(World::new(engine).await);
        for version in 3..13_u64 {
            world.reserve("held", version).await;
            let body = BODY.replace(":3,", &format!(":{version},"));
            let post = Post::signed(&format!("res_1:{version}"), &body, OLD, NOW.seconds());
            let (paid, answered) = tokio::join!(world.pay(), world.answer(&post));
            let (decision, status) = if paid { ("refused", "paid") } else { ("released", "released") };
            assert_eq!(answered.body["decision"], decision, "version {version}");
            assert_eq!(world.status().await.as_deref(), Some(status), "version {version}");
        }
    }
}

#[tokio::test]
async fn rcv_5_an_early_event_is_told_so_and_nothing_is_written() {
    for engine in each() {
        let mut world = World::new(engine).await;
        world.reserve("held", 3).await;
        let ends = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        for (label, left_ms, seconds) in [("a millisecond", 1, "1"), ("a second", 1000, "1"), ("more", 1001, "2")] {
            let now = Timestamp::from_millis(ends.millis() - left_ms);
            world.receiver.clock = Fixed(now);
            let answered = world.answer(&Post::signed("res_1:3", BODY, OLD, now.seconds())).await;
            assert_eq!((answered.status, &answered.body["error"]), (425, &json!("early")), "{label}");
            assert_eq!(answered.headers["retry-after"], seconds, "{label}");
        }
        assert_eq!((world.decisions().await, world.status().await.as_deref()), (0, Some("held")));
        world.receiver.clock = Fixed(ends);
        let answered = world.answer(&Post::signed("res_1:3", BODY, OLD, ends.seconds())).await;
        check("at its end", &answered, 200, &decided("released", "hold_expired", false));
    }
}

#[tokio::test]
async fn rcv_1_what_is_not_genuine_is_401_and_nothing_is_written() {
    for engine in each() {
        let world = World::new(engine).await;
        world.reserve("held", 3).await;
        let tampered = Post { body: BODY.replace("studio-7", "studio-8"), ..Post::genuine() };
        let cases = [
            ("another secret", Post::signed("res_1:3", BODY, NEW, NOW.seconds())),
            ("tampered body", tampered),
            ("one byte more", Post { body: format!("{BODY} "), ..Post::genuine() }),
            ("another id", Post::genuine().with("webhook-id", Some("res_1:4"))),
            ("another time", Post::genuine().with("webhook-timestamp", Some("1796040011"))),
            ("no v1", Post::genuine().with("webhook-signature", Some("v2,AAAA"))),
            ("stale", Post::signed("res_1:3", BODY, OLD, NOW.seconds() - 301)),
            ("from the future", Post::signed("res_1:3", BODY, OLD, NOW.seconds() + 301)),
            ("a forged body is not even read", Post { body: "{".to_owned(), ..Post::genuine() }),
        ];
        for (label, post) in cases {
            let answered = world.answer(&post).await;
            assert_eq!((answered.status, &answered.body["error"]), (401, &json!("signature")), "{label}");
        }
        assert_eq!((world.decisions().await, world.status().await.as_deref()), (0, Some("held")));
        let oldest = Post::signed("res_1:3", BODY, OLD, NOW.seconds() - 300);
        check("5 min old", &world.answer(&oldest).await, 200, &decided("released", "hold_expired", false));
    }
}

#[tokio::test]
async fn sec_4_two_live_secrets_are_accepted_while_they_are_rotated() {
    for engine in each() {
        let mut world = World::new(engine).await;
        world.reserve("held", 3).await;
        world.receiver.secrets = [NEW, OLD].map(|secret| Secret::parse(secret).unwrap()).into();
        let signed = |secret| Post::signed("res_1:3", BODY, secret, NOW.seconds());
        check("new", &world.answer(&signed(NEW)).await, 200, &decided("released", "hold_expired", false));
        check("old", &world.answer(&signed(OLD)).await, 200, &decided("released", "hold_expired", true));
        let both = [signed(NEW), signed(OLD)].map(|post| post.headers["webhook-signature"].clone()).join(" ");
        let both = Post::genuine().with("webhook-signature", Some(&both));
        check("both", &world.answer(&both).await, 200, &decided("released", "hold_expired", true));
    }
}

#[tokio::test]
async fn rcv_1_a_body_in_base64_is_the_same_body() {
    for engine in each() {
        let world = World::new(engine).await;
        world.reserve("held", 3).await;
        let post = Post { base64: true, ..Post::genuine() };
        check("base64", &world.answer(&post).await, 200, &decided("released", "hold_expired", false));
    }
}

#[tokio::test]
async fn rcv_1_malformed_is_400_and_names_the_field() {
    for engine in each() {
        let world = World::new(engine).await;
        let genuine = Post::genuine;
        let signed = |id, body: &str| Post::signed(id, body, OLD, NOW.seconds());
        let cases = [
            ("webhook-id", genuine().with("webhook-id", None)),
            ("webhook-id", genuine().with("webhook-id", Some("res.1"))),
            ("webhook-timestamp", genuine().with("webhook-timestamp", None)),
            ("webhook-timestamp", genuine().with("webhook-timestamp", Some("noon"))),
            ("webhook-signature", genuine().with("webhook-signature", None)),
            ("body", signed("res_1:3", "hello")),
            ("event_version", signed("res_1:3", &BODY.replace(":3,", ":null,"))),
            ("resource", signed("res_1:3", &BODY.replace(r#""resource":"studio-7","#, ""))),
            ("webhook-id", signed("res_1:4", BODY)),
            ("webhook-id", signed("res_2:3", BODY)),
        ];
        for (field, post) in cases {
            let answered = world.answer(&post).await;
            assert_eq!((answered.status, &answered.body["error"]), (400, &json!("malformed")), "{post:?}");
            assert_eq!(answered.body["field"], field, "{post:?}");
        }
        assert_eq!(world.decisions().await, 0);
    }
}

#[tokio::test]
async fn any_other_method_is_405() {
    for engine in each() {
        let world = World::new(engine).await;
        for method in ["GET", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"] {
            let answered = world.answer(&Post { method, ..Post::genuine() }).await;
            assert_eq!((answered.status, answered.headers["allow"].as_str()), (405, "POST"), "{method}");
        }
        assert_eq!(world.decisions().await, 0);
    }
}

async fn check_unavailable(label: &str, world: World, error: &str) {
    let answered = world.answer(&Post::genuine()).await;
    check(label, &answered, 503, &json!({ "error": error }));
    assert!(!answered.headers.contains_key("retry-after"), "{label}: an attempt that failed, not an ask for less");
}

#[tokio::test]
async fn rcv_4_a_store_that_cannot_be_used_is_503() {
    for engine in each() {
        let error =
            |name: &str| json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": "no" });
        let cancelled = |codes: [&str; 2]| {
            let mut body = error("TransactionCanceledException");
            body["CancellationReasons"] = codes.map(|code| json!({ "Code": code, "Message": "no" })).as_slice().into();
            World::of(answering(400, &body), "any")
        };
        let existing = World::new(engine).await;
        let missing = World::of(existing.client(), "no-such-table");
        check_unavailable("the table is missing", missing, "unavailable").await;
        check_unavailable("no one listens", World::of(nowhere(), "any"), "unavailable").await;
        check_unavailable("throttled", cancelled(["ThrottlingError", "None"]), "unavailable").await;
        check_unavailable(
            "its own fault",
            World::of(answering(500, &error("InternalServerError")), "any"),
            "unavailable",
        )
        .await;
        check_unavailable("no error at all", World::of(answering(502, &json!("<html>")), "any"), "unavailable").await;
        check_unavailable("the same event at work", cancelled(["TransactionConflict", "None"]), "busy").await;
        check_unavailable("a payment at work", cancelled(["None", "TransactionConflict"]), "busy").await;
        let busy = World::of(answering(400, &error("TransactionInProgressException")), "any");
        check_unavailable("its token at work", busy, "busy").await;
    }
}

#[tokio::test]
async fn rcv_4_a_row_that_cannot_be_read_is_503_and_no_decision() {
    for engine in each() {
        let world = World::new(engine).await;
        let text = |text: &str| AttributeValue::S(text.to_owned());
        for (label, attributes) in [
            ("no version", vec![("status", text("held"))]),
            ("version as text", vec![("status", text("held")), ("version", text("3"))]),
            ("no status", vec![("version", AttributeValue::N("3".to_owned()))]),
        ] {
            world.put(&attributes).await;
            check(label, &world.answer(&Post::genuine()).await, 503, &json!({ "error": "unavailable" }));
        }
        assert_eq!(world.decisions().await, 0);
    }
}
