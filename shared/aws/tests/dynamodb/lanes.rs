//! LAN-1, LIM-8: lanes on the `limits` table.

#[path = "../suites/lanes.rs"]
mod suite;

use aws_sdk_dynamodb::types::AttributeValue;
use lapse_aws::lanes::DynamoLanes;
use lapse_aws::record_item::number;
use lapse_engines::{Engine, each};
use lapse_policy::clock::{Clock, Guard, Write};
use lapse_policy::lanes::Lane;
use lapse_policy::ports::{Lanes as _, Limits as _};
use lapse_policy::timestamp::Timestamp;

use crate::pair::{NOW, name};

async fn store(engine: &Engine) -> (DynamoLanes, String) {
    let table = engine.table("limits").await;
    (DynamoLanes::new(engine.client(), table.clone()), table)
}

fn lane(number: u32, until: Timestamp) -> Lane {
    Lane { number, owner: "me".to_owned(), until }
}

#[tokio::test]
async fn lan_1_the_adapter_keeps_the_ports_promise() {
    for engine in each() {
        suite::keeps_the_ports_promise(&store(engine).await.0).await;
    }
}

#[tokio::test]
async fn lan_1_lanes_and_clocks_share_a_table_and_never_meet() {
    for engine in each() {
        let (lanes, table) = store(engine).await;
        let limits = lapse_aws::limits::DynamoLimits::new(engine.client(), table);
        let idle =
            Write::Idle { clock: Clock::Gate, to: NOW.micros(), below: NOW.micros(), guard: Guard::NotPaused(NOW) };
        limits.write(&name("catalog"), &idle).await.unwrap();
        assert_eq!(lanes.take(&name("catalog"), &lane(0, NOW), NOW).await, Ok(true));
        assert_eq!(limits.read(&name("catalog")).await.unwrap().gate, Some(NOW.micros()), "the clock is as it was");
        assert_eq!(lanes.read(&name("catalog")).await, Ok(vec![lane(0, NOW)]), "the clock is no lane");
    }
}

#[tokio::test]
async fn lan_1_a_thousand_lanes_are_one_page() {
    for engine in each() {
        let (lanes, _) = store(engine).await;
        for number in 0..lapse_policy::lanes::MAX_IN_FLIGHT {
            let long = Lane { owner: "o".repeat(36), ..lane(number, Timestamp::FAR_FUTURE) };
            assert_eq!(lanes.take(&name(&"d".repeat(64)), &long, NOW).await, Ok(true));
        }
        assert_eq!(lanes.read(&name(&"d".repeat(64))).await.unwrap().len(), 1000);
    }
}

#[tokio::test]
async fn lan_1_a_lane_that_is_given_back_leaves_no_item() {
    for engine in each() {
        let (lanes, table) = store(engine).await;
        assert_eq!(lanes.take(&name("catalog"), &lane(0, NOW), NOW).await, Ok(true));
        assert_eq!(lanes.release(&name("catalog"), &lane(0, NOW)).await, Ok(()));
        let left = engine.client().scan().table_name(table).consistent_read(true).send().await.unwrap();
        assert_eq!(left.items(), []);
    }
}

#[tokio::test]
async fn lim_8_a_lane_that_cannot_be_read_is_an_error_that_names_the_attribute() {
    for engine in each() {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        for broken in ["lane", "owner", "until"] {
            let (lanes, table) = store(engine).await;
            let mut put = engine.client().put_item().table_name(table).item("destination", text("catalog#lanes"));
            put = put.item("lane", text(if broken == "lane" { "first" } else { "0" }));
            put = if broken == "owner" { put } else { put.item("owner", text("me")) };
            put = if broken == "until" { put.item("until", text("soon")) } else { put.item("until", number(1)) };
            put.send().await.unwrap();
            let error = lanes.read(&name("catalog")).await.unwrap_err();
            assert_eq!(error.cause, format!("the lane's attribute {broken} cannot be read"));
        }
    }
}

#[tokio::test]
async fn lim_8_a_store_without_its_table_is_unavailable() {
    for engine in each() {
        let lanes = DynamoLanes::new(engine.client(), "no-such-table".to_owned());
        let (name, lane) = (name("catalog"), lane(0, NOW));
        assert_eq!(lanes.read(&name).await.unwrap_err().operation, "Query limits");
        assert_eq!(lanes.take(&name, &lane, NOW).await.unwrap_err().operation, "UpdateItem limits");
        assert_eq!(lanes.release(&name, &lane).await.unwrap_err().operation, "DeleteItem limits");
    }
}
