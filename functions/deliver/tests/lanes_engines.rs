//! LAN-1: eight sandboxes with the real adapters on a real engine, and a receiver that counts what it has at once.
//!
//! Owns: the race for lanes. Must not: test the course in a lane; the scenarios do.
//! Nothing here waits for a time: requests are held until every sandbox has one under way or has ended.

#![expect(clippy::unwrap_used, reason = "set-up that fails is a failed test")]

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::future::join_all;
use lapse_aws::destinations::{DynamoDestinations, attribute};
use lapse_aws::http_sender::HttpSender;
use lapse_aws::lanes::DynamoLanes;
use lapse_aws::ledger::DynamoLedger;
use lapse_aws::limits::DynamoLimits;
use lapse_aws::sqs_event::Received;
use lapse_aws::system::{SystemChance, SystemClock};
use lapse_deliver::batch::deliver;
use lapse_deliver::run::Memory;
use lapse_deliver::world::World;
use lapse_engines::{Engine, each};
use lapse_policy::guard::AllowList;
use lapse_policy::names::DestinationName;
use lapse_policy::ports::{Accepted, Clock as _, Lanes as _, Outbox, Outgoing, Parking, Row, Unavailable, Visibility};
use lapse_policy::schedule::Origin;
use serde_json::{Value, json};

const SANDBOXES: usize = 8;
const LANES: usize = 2;
const BATCH: usize = 2;
/// Each round at least one sandbox has a lane.
const MOST_ROUNDS: u32 = 8;

/// What the receiver knows of a round.
#[derive(Debug, Default)]
struct Seen {
    now: usize,
    most: usize,
    requests: usize,
    /// Sandboxes that have ended.
    ended: usize,
    /// Whether requests are answered at once: all sandboxes have shown what they do.
    open: bool,
}

#[derive(Debug, Default)]
struct Receiver {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Receiver {
    fn start() -> (Arc<Self>, SocketAddr) {
        let receiver = Arc::new(Self::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&receiver);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.answer(stream));
            }
        });
        (receiver, address)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().unwrap();
        change(&mut seen);
        seen.open |= seen.now + seen.ended >= SANDBOXES;
        self.changed.notify_all();
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        read_request(&mut reader);
        self.change(|seen| {
            seen.now += 1;
            seen.most = seen.most.max(seen.now);
            seen.requests += 1;
        });
        let waiting = self.seen.lock().unwrap();
        let mut seen = self.changed.wait_while(waiting, |seen| !seen.open).unwrap();
        // Before the answer: the lane is given back once it is there.
        seen.now -= 1;
        drop(seen);
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    }

    /// How many requests there were at once since the last look; the next round begins.
    fn most(&self) -> usize {
        let mut seen = self.seen.lock().unwrap();
        let most = seen.most;
        (seen.most, seen.ended, seen.open) = (0, 0, false);
        most
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
}

/// Queues that take everything; what comes back is known by the handler's answer.
#[derive(Debug)]
struct Takes;

impl Outbox for Takes {
    async fn send(&self, messages: &[Outgoing]) -> Vec<Accepted> {
        vec![Accepted::Yes; messages.len()]
    }
}

impl Visibility for Takes {
    async fn hide(&self, messages: &[(String, i32)]) -> Vec<Accepted> {
        vec![Accepted::Yes; messages.len()]
    }
}

impl Parking for Takes {
    async fn put(&self, rows: &[Row]) -> Vec<Result<(), Unavailable>> {
        vec![Ok(()); rows.len()]
    }
}

struct Sandbox {
    ledger: DynamoLedger,
    limits: DynamoLimits,
    lanes: DynamoLanes,
    destinations: DynamoDestinations,
    sender: HttpSender,
    memory: Memory,
}

impl World for Sandbox {
    type Clock = SystemClock;
    type Chance = SystemChance;
    type Ledger = DynamoLedger;
    type Limits = DynamoLimits;
    type Lanes = DynamoLanes;
    type Destinations = DynamoDestinations;
    type Sender = HttpSender;
    type Deliveries = Takes;
    type Failures = Takes;
    type Parking = Takes;

    fn clock(&self) -> &SystemClock {
        &SystemClock
    }
    fn chance(&self) -> &SystemChance {
        &SystemChance
    }
    fn ledger(&self) -> &DynamoLedger {
        &self.ledger
    }
    fn limits(&self) -> &DynamoLimits {
        &self.limits
    }
    fn lanes(&self) -> &DynamoLanes {
        &self.lanes
    }
    fn destinations(&self) -> &DynamoDestinations {
        &self.destinations
    }
    fn sender(&self) -> &HttpSender {
        &self.sender
    }
    fn deliveries(&self) -> &Takes {
        &Takes
    }
    fn failures(&self) -> &Takes {
        &Takes
    }
    fn parking(&self) -> &Takes {
        &Takes
    }
}

/// The tables, with the destination's row in them.
struct Tables {
    engine: &'static Engine,
    ledger: String,
    limits: String,
    destinations: String,
}

impl Tables {
    async fn new(engine: &'static Engine, row: &Value) -> Self {
        let destinations = engine.table("destinations").await;
        let members = row.as_object().unwrap().iter().map(|(name, value)| (name.clone(), attribute(value)));
        let item = Some(members.collect());
        engine.client().put_item().table_name(&destinations).set_item(item).send().await.unwrap();
        Self { engine, ledger: engine.table("deliveries").await, limits: engine.table("limits").await, destinations }
    }

    fn sandbox(&self) -> Sandbox {
        let client = || self.engine.client();
        Sandbox {
            ledger: DynamoLedger::new(client(), self.ledger.clone()),
            limits: DynamoLimits::new(client(), self.limits.clone()),
            lanes: DynamoLanes::new(client(), self.limits.clone()),
            destinations: DynamoDestinations::new(client(), self.destinations.clone()),
            sender: HttpSender::new(AllowList::parse("127.0.0.0/8").unwrap()).unwrap(),
            memory: Memory::default(),
        }
    }
}

fn message(id: &str, receives: u32) -> Received {
    let now = SystemClock.now();
    let body = format!(
        r#"{{"v":1,"id":"{id}","destination":"catalog","type":"t","occurred_at":"{now}","payload":{{"of":"{id}"}}}}"#
    );
    Received {
        message_id: id.to_owned(),
        receipt_handle: id.to_owned(),
        body: body.into(),
        receives,
        sent_at: None,
        origin: Origin::New,
    }
}

#[tokio::test]
async fn lan_1_eight_sandboxes_hold_two_lanes_and_each_delivery_is_sent_once() {
    for engine in each() {
        race(engine).await;
    }
}

async fn race(engine: &'static Engine) {
    let (receiver, address) = Receiver::start();
    let row = json!({
        "destination": "catalog", "url": format!("http://{address}/"), "allow_http": true, "max_in_flight": LANES,
        "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    });
    let tables = Tables::new(engine, &row).await;
    let sandboxes: Vec<_> = std::iter::repeat_with(|| tables.sandbox()).take(SANDBOXES).collect();
    let mut shares: Vec<Vec<String>> =
        (0..SANDBOXES).map(|sandbox| (0..BATCH).map(|n| format!("a{sandbox}:{n}")).collect()).collect();
    for round in 1..=MOST_ROUNDS {
        let invoke = async |(sandbox, share): (&Sandbox, &mut Vec<String>)| {
            // From the fourth receive on they would be sent again (LAN-3), and this queue is none.
            let batch: Vec<_> = share.iter().map(|id| message(id, round.min(3))).collect();
            let ends_at = SystemClock.now().plus(Duration::from_secs(30));
            let delivered = Box::pin(deliver(sandbox, &sandbox.memory, &batch, ends_at)).await;
            *share = delivered.remaining.into_iter().map(|index| share[index].clone()).collect();
            receiver.change(|seen| seen.ended += 1);
        };
        join_all(sandboxes.iter().zip(&mut shares).map(invoke)).await;
        let (most, left) = (receiver.most(), shares.iter().flatten().count());
        assert!(most <= LANES, "round {round}: {most} at once");
        assert!(round > 1 || most == LANES, "all lanes are used: {most}");
        if left == 0 {
            break;
        }
    }
    assert_eq!(shares.concat(), Vec::<String>::new(), "all are delivered");
    assert_eq!(receiver.seen.lock().unwrap().requests, SANDBOXES * BATCH, "each once");
    let catalog = DestinationName::parse("catalog").unwrap();
    assert_eq!(sandboxes[0].lanes.read(&catalog).await, Ok(vec![]), "no lane is left behind");
}
