//! Messages as a scenario hands them over.
//!
//! Owns: the words for an event, its copies and its receives. Must not: parse.

use lapse_aws::sqs_event::Received;
use lapse_policy::schedule::Origin;
use lapse_policy::timestamp::Timestamp;

use super::time::NOW;

#[derive(Debug, Clone)]
pub(crate) struct Event {
    id: String,
    destination: &'static str,
    deadline: Option<Timestamp>,
    mark: Option<(u32, Timestamp)>,
}

/// An event for `catalog` that happened at the scenario's start and has no deadline of its own.
pub(crate) fn event(id: impl Into<String>) -> Event {
    Event { id: id.into(), destination: "catalog", deadline: None, mark: None }
}

/// So many events: `a:1`, `a:2` and so on.
pub(crate) fn events(count: usize) -> Vec<Event> {
    (1..=count).map(|n| event(format!("a:{n}"))).collect()
}

/// So many events, each received for the first time.
pub(crate) fn firsts(count: usize) -> Vec<Received> {
    events(count).iter().map(Event::first).collect()
}

impl Event {
    pub(crate) fn to(self, destination: &'static str) -> Self {
        Self { destination, ..self }
    }

    pub(crate) fn by(self, deadline: Timestamp) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// As its letter comes back.
    pub(crate) fn marked(self, epoch: u32) -> Self {
        Self { mark: Some((epoch, NOW)), ..self }
    }

    pub(crate) fn body(&self) -> String {
        let Self { id, destination, deadline, mark } = self;
        let deadline = deadline.map(|at| format!(r#","deadline":"{at}""#)).unwrap_or_default();
        let mark = mark.map(|(epoch, at)| format!(r#","dead":{{"epoch":{epoch},"at":"{at}"}}"#)).unwrap_or_default();
        format!(
            r#"{{"v":1,"id":"{id}","destination":"{destination}","type":"t","occurred_at":"{NOW}"{deadline},"payload":{{ "of" : "{id}" }}{mark}}}"#
        )
    }

    /// Received for the first time.
    pub(crate) fn first(&self) -> Received {
        received(&self.body(), 1)
    }

    /// Received for the n-th time.
    pub(crate) fn again(&self, receives: u32) -> Received {
        received(&self.body(), receives)
    }

    /// Received for the first time after it was republished or parked.
    pub(crate) fn resumed(&self) -> Received {
        Received { origin: Origin::Resumed, ..self.first() }
    }
}

/// Any body.
pub(crate) fn received(body: &str, receives: u32) -> Received {
    Received {
        message_id: String::new(),
        receipt_handle: String::new(),
        body: body.into(),
        receives,
        sent_at: Some(NOW),
        origin: Origin::New,
    }
}
