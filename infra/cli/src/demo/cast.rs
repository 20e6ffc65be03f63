//! Who plays: 40 holds, the catalog service in front of the reference receiver, and four partners.
//!
//! Owns: the scripts and every number of the play. Must not: talk to the stack.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use lapse_aws::system::SystemClock;
use lapse_local::driver::{Event, Hold};
use lapse_local::partner::{Lose, Partner, Reply, Script};
use lapse_local::{LOCAL_SECRET, Stack};
use lapse_policy::names::DeliveryKey;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;
use serde_json::{Value, json};

/// The catalog service: the reference receiver behind a wire that loses answers.
pub const CATALOG: &str = "catalog";
/// Allows 5 requests/s with a burst of 5.
pub const LIMITED: &str = "partner-limited";
/// Answers 503 three times, then works.
pub const FAILING: &str = "partner-failing";
/// Answers 422.
pub const REFUSING: &str = "partner-refusing";
/// Never answers.
pub const SILENT: &str = "partner-silent";

/// Holds that are taken.
pub const HOLDS: usize = 40;
/// Of these, paid before they end, and their events cancelled.
pub const CANCELLED: usize = 3;
/// Paid before they end, and their events not cancelled.
pub const PAID_EARLY: usize = 3;
/// Paid after their events are on the way.
pub const PAID_LATE: usize = 4;
/// Published twice.
pub const TWICE: usize = 5;
/// Whose first answer is lost.
pub const LOST_ANSWERS: usize = 5;

/// The first hold ends this long after the start, and the others one after another.
const FIRST_END: Duration = Duration::from_secs(12);
const BETWEEN_ENDS: Duration = Duration::from_millis(150);
/// The silent partner's event means nothing after this.
const SILENT_DEADLINE: Duration = Duration::from_secs(14);

/// One destination of the play.
#[derive(Debug, Clone)]
pub struct Role {
    /// Its name.
    pub name: &'static str,
    /// Its row in `destinations`.
    pub row: Value,
    /// What it is sent.
    pub events: Vec<Event>,
}

/// Everyone.
#[derive(Debug)]
pub struct Cast {
    /// The server that all destinations live on.
    pub partner: Partner,
    /// The holds, in the order in which they end.
    pub holds: Vec<Hold>,
    /// The destinations.
    pub roles: Vec<Role>,
}

impl Cast {
    /// Sets the stage's players up; their servers listen from now on.
    pub fn new(stack: &Stack) -> Result<Self> {
        let partner = Partner::start()?;
        let now = SystemClock.now();
        let holds: Vec<_> = (1..=HOLDS)
            .zip(0..)
            .map(|(n, order)| Hold {
                reservation: format!("res_{n:02}"),
                resource: format!("studio-{n}"),
                ends_at: now.plus(FIRST_END + BETWEEN_ENDS * order),
                destination: CATALOG.to_owned(),
            })
            .collect();
        // Of released ones: the last, which are neither paid nor published twice.
        let lost: BTreeSet<_> = holds.iter().rev().take(LOST_ANSWERS).map(|hold| hold.event().id).collect();
        let url = stack.receiver_url()?;
        partner.set(CATALOG, Script::Forward { url, lose_answers: Lose::Of(lost) });
        partner.set(LIMITED, Script::Bucket { limit_per_second: 5, burst: 5 });
        let busy = Reply::status(503);
        partner.set(FAILING, Script::Sequence(vec![busy, busy, busy, Reply::status(200)]));
        partner.set(REFUSING, Script::Sequence(vec![Reply::status(422)]));
        partner.set(SILENT, Script::Hang);

        let orders = |name: &str, count: usize, deadline: Option<Timestamp>| -> Vec<Event> {
            (1..=count).map(|n| order(name, n, now, deadline)).collect()
        };
        let row = |name: &str, more: Value| {
            let mut row = json!({"url": partner.url(name), "allow_http": true, "secrets": [LOCAL_SECRET]});
            if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
                row.extend(more);
            }
            row
        };
        let limit = json!({"rate": {"limit": 5, "per_seconds": 1, "burst": 5}});
        let roles = vec![
            Role {
                name: CATALOG,
                row: row(CATALOG, json!({"rate": {"limit": 50, "per_seconds": 1, "burst": 50}})),
                events: holds[CANCELLED..].iter().map(Hold::event).collect(),
            },
            Role { name: LIMITED, row: row(LIMITED, limit), events: orders(LIMITED, 60, None) },
            Role { name: FAILING, row: row(FAILING, json!({})), events: orders(FAILING, 3, None) },
            Role { name: REFUSING, row: row(REFUSING, json!({})), events: orders(REFUSING, 2, None) },
            Role {
                name: SILENT,
                row: row(SILENT, json!({"timeout_ms": 2000})),
                events: orders(SILENT, 1, Some(now.plus(SILENT_DEADLINE))),
            },
        ];
        Ok(Self { partner, holds, roles })
    }

    /// All deliveries that must come to an end.
    pub fn deliveries(&self) -> Result<Vec<DeliveryKey>> {
        self.roles.iter().flat_map(|role| &role.events).map(Event::key).collect()
    }

    /// The destination of that name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.name == name)
    }
}

fn order(destination: &str, n: usize, now: Timestamp, deadline: Option<Timestamp>) -> Event {
    Event {
        id: format!("order_{n}:1"),
        destination: destination.to_owned(),
        kind: "order.created".to_owned(),
        occurred_at: now,
        deadline,
        payload: json!({"order_id": n, "event_version": 1}).to_string(),
    }
}
