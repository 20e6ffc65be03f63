//! Many sandboxes at work on one queue.
//!
//! Owns: a queue that hides, redelivers and forgets messages as SQS does. Must not: lose or invent one.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::join_all;
use lapse_aws::sqs_event::Received;
use lapse_deliver::batch::deliver;
use lapse_deliver::run::Memory;
use lapse_policy::ports::Clock as _;
use lapse_policy::timestamp::Timestamp;

use super::{FUNCTION_TIMEOUT, NOW, World, received};

/// What the queue does with a message that nobody has hidden or deleted (DESIGN 4).
const VISIBILITY: Duration = Duration::from_secs(180);
/// Between two looks of an event source at an empty queue.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Stored {
    received: Received,
    visible_at: Timestamp,
}

/// The queue and its workers.
#[derive(Debug)]
pub(crate) struct Fleet<'a> {
    world: &'a World,
    queue: RefCell<Vec<Stored>>,
    /// The most receives of one message.
    pub(crate) most_receives: Cell<u32>,
    /// Receives of all messages.
    pub(crate) receives: Cell<u32>,
    /// The most messages in flight at once, from half a minute after the start on.
    pub(crate) late_in_flight: Cell<usize>,
}

impl<'a> Fleet<'a> {
    /// With these messages in the queue.
    pub(crate) fn new(world: &'a World, messages: Vec<Received>) -> Self {
        let visible_at = world.time.now();
        let stored = |received| Stored { received: Received { receives: 0, ..received }, visible_at };
        let queue = RefCell::new(messages.into_iter().map(stored).collect());
        Self {
            world,
            queue,
            most_receives: Cell::default(),
            receives: Cell::default(),
            late_in_flight: Cell::default(),
        }
    }

    /// Lets so many sandboxes work until the queue is empty.
    pub(crate) fn drain(&self, sandboxes: usize) {
        self.world.time.run(join_all((0..sandboxes).map(|_| self.sandbox())));
    }

    async fn sandbox(&self) {
        let memory = Memory::default();
        while !self.queue.borrow().is_empty() {
            let batch = self.receive();
            if batch.is_empty() {
                self.world.time.sleep_until(self.world.time.now().plus(LOOK_AGAIN)).await;
                continue;
            }
            let ends_at = self.world.time.now().plus(FUNCTION_TIMEOUT);
            let delivered = deliver(self.world, &memory, &batch, ends_at).await;
            let done = |index: &usize| !delivered.remaining.contains(index);
            let done: Vec<_> = (0..batch.len()).filter(done).map(|index| &batch[index].receipt_handle).collect();
            self.queue.borrow_mut().retain(|stored| !done.contains(&&stored.received.receipt_handle));
            self.hide();
        }
    }

    /// Up to ten visible messages.
    fn receive(&self) -> Vec<Received> {
        self.hide();
        let now = self.world.time.now();
        let mut queue = self.queue.borrow_mut();
        let visible = queue.iter_mut().filter(|stored| stored.visible_at <= now).take(10);
        let receive = |stored: &mut Stored| {
            self.receives.set(self.receives.get() + 1);
            stored.visible_at = now.plus(VISIBILITY);
            stored.received.receives += 1;
            stored.received.receipt_handle = format!("receipt-{}", self.receives.get());
            self.most_receives.set(self.most_receives.get().max(stored.received.receives));
            stored.received.clone()
        };
        let received = visible.map(receive).collect();
        if now.since(NOW) > Duration::from_secs(30) {
            let in_flight = |stored: &&Stored| stored.received.receives > 0 && stored.visible_at > now;
            let in_flight = queue.iter().filter(in_flight).count();
            self.late_in_flight.set(self.late_in_flight.get().max(in_flight));
        }
        received
    }

    /// Carries out what was asked of the queue.
    fn hide(&self) {
        let now = self.world.time.now();
        let mut queue = self.queue.borrow_mut();
        for (receipt, seconds) in self.world.deliveries.hidden.take() {
            if let Some(stored) = queue.iter_mut().find(|stored| stored.received.receipt_handle == receipt) {
                stored.visible_at = now.plus(Duration::from_secs(seconds.unsigned_abs().into()));
            }
        }
        for message in self.world.deliveries.sent.take() {
            let visible_at = now.plus(Duration::from_secs(message.delay_seconds.unsigned_abs().into()));
            let received = Received { origin: message.origin, ..received(&message.body, 0) };
            queue.push(Stored { received, visible_at });
        }
        assert!(self.world.schedule.rows.borrow().is_empty(), "nothing here waits for so long");
    }
}
