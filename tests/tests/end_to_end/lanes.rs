//! No more requests at once than a destination takes, whoever sends them. LAN-1, I5.

use std::time::Duration;

use anyhow::Result;
use lapse_local::partner::{Partner, Reply, Script};
use lapse_tests::ground::{events, text};
use lapse_tests::patience::eventually;
use serde_json::json;

use crate::play;

#[test]
fn lan_1_a_partner_that_takes_two_requests_at_once_gets_no_more() -> Result<()> {
    play(async |ground| {
        let partner = Partner::start()?;
        let slow = Reply::status(200).after(Duration::from_millis(400));
        partner.set("narrow", Script::Sequence(vec![slow]));
        ground.destination(&partner, "narrow", &json!({"max_in_flight": 2})).await?;
        let events = events("narrow", "queued", 16);
        ground.driver.send(&events).await?;
        ground.delivered(&events).await?;
        let checks = partner.checks("narrow");
        assert_eq!(checks.statuses, [(200, 16)].into(), "each once");
        assert!(checks.most_in_flight <= 2, "I5: {} at once", checks.most_in_flight);
        eventually("each lane is given back", async || {
            let rows = ground.driver.rows("LimitsTableName").await?;
            let held = |row| text(row, "destination").is_ok_and(|name| name == "narrow#lanes");
            Ok((!rows.iter().any(held)).then_some(()))
        })
        .await
    })
}
