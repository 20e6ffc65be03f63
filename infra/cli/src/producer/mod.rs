//! `lapse send` and `lapse schedule`: events for now and for later, by a person or a script.
//!
//! Owns: the commands and what is said. Must not: accept what the functions would not: every message is parsed as they
//! parse it.

mod events;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use lapse_aws::queue::SqsQueue;
use lapse_aws::system::SystemClock;
use lapse_policy::ports::{Accepted, Clock as _, Outbox as _, Outgoing};
use lapse_policy::schedule::Origin;
use serde_json::json;

use crate::commands::{say, show};
use crate::deployed::{Deployed, StackFlags};
use events::{Event, Source, WithDue};

/// So many are sent before the count is told.
const CHUNK: usize = 100;

const EXAMPLES: &str = "\
Examples:
  lapse send --id order_7:1 --destination partner --type order.created --payload '{\"order\":7}'
  lapse send --file events.jsonl
  producer | lapse send --file -

A file has one message a line, as README describes it. A line that is none is
told by its number; the others are sent.
Exit codes: 0 all were accepted; 1 some were not; 2 wrong usage.";

/// The arguments of `send`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Send {
    #[command(flatten)]
    event: EventFlags,
    #[command(flatten)]
    stack: StackFlags,
}

/// One event, or a file of them.
#[derive(Debug, Args)]
pub struct EventFlags {
    /// Its id: `reservation_id:event_version`, or any id of 1 to 128 of [A-Za-z0-9_:-].
    #[arg(long, required_unless_present = "file")]
    id: Option<String>,
    /// Who gets it.
    #[arg(long, required_unless_present = "file")]
    destination: Option<String>,
    /// Its type, such as reservation.expired.
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "file")]
    kind: Option<String>,
    /// Its payload: JSON, sent byte for byte.
    #[arg(long, value_name = "JSON", required_unless_present = "file")]
    payload: Option<String>,
    /// Until when it means something: an RFC 3339 date-time, or a time from now such as +20m.
    #[arg(long)]
    deadline: Option<String>,
    /// Messages, one JSON object a line; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "destination", "kind", "payload", "deadline"])]
    file: Option<PathBuf>,
}

/// The schedule.
#[derive(Debug, Subcommand)]
pub enum Schedule {
    /// Put events for later; the same event at the same time is one row.
    Put(PutFlags),
    /// Take an event back that has not gone out yet.
    Cancel(CancelFlags),
    /// Show rows, the earliest first.
    List(ListFlags),
}

/// The arguments of `schedule put`.
#[derive(Debug, Args)]
#[command(after_help = "In a file, each message has the member \"due\" as well.")]
pub struct PutFlags {
    /// When: an RFC 3339 date-time, or a time from now such as +20m.
    #[arg(long, required_unless_present = "file", conflicts_with = "file")]
    due: Option<String>,
    #[command(flatten)]
    event: EventFlags,
    #[command(flatten)]
    stack: StackFlags,
}

/// The arguments of `schedule cancel`.
#[derive(Debug, Args)]
pub struct CancelFlags {
    /// The destination's name.
    destination: String,
    /// The event's id.
    id: String,
    #[command(flatten)]
    stack: StackFlags,
}

/// The arguments of `schedule list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Due before then: an RFC 3339 date-time, or a time from now such as +1h.
    #[arg(long, default_value = "+7d")]
    before: String,
    /// For this destination alone.
    #[arg(long)]
    destination: Option<String>,
    /// So many at most.
    #[arg(long, default_value = "100")]
    limit: usize,
    #[command(flatten)]
    stack: StackFlags,
}

/// What became of many.
#[derive(Debug, Default)]
struct Outcome {
    accepted: usize,
    refused: usize,
}

impl Outcome {
    fn told(&self, as_json: bool, done: &str) -> Result<ExitCode> {
        let object = json!({"accepted": self.accepted, "refused": self.refused});
        let rest = if self.refused > 0 { format!(", {} not", self.refused) } else { String::new() };
        show(as_json, &object, &[format!("{} {done}{rest}", self.accepted)])?;
        Ok(if self.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Sends events for now.
pub async fn send(flags: Send) -> Result<ExitCode> {
    let source = Source::of(&flags.event, WithDue::No, SystemClock.now())?;
    let stack = Deployed::find(&flags.stack).await?;
    let queue = SqsQueue::new(stack.sqs(), stack.output("DeliveriesQueueUrl")?.to_owned());
    let (events, bad) = source.read();
    let mut outcome = Outcome { accepted: 0, refused: bad };
    for chunk in events.chunks(CHUNK) {
        let messages: Vec<_> = chunk.iter().map(outgoing).collect();
        let answers = queue.send(&messages).await;
        ensure!(answers.len() == chunk.len(), "SQS answered for {} of {} messages", answers.len(), chunk.len());
        for (event, answer) in chunk.iter().zip(answers) {
            match answer {
                Accepted::Yes => outcome.accepted += 1,
                Accepted::Never(cause) | Accepted::No(cause) => {
                    outcome.refused += 1;
                    say(&format!("{}{}: not accepted: {cause}", event.place(), event.key));
                }
            }
        }
        if events.len() > CHUNK {
            say(&format!("{} of {} sent", outcome.accepted, events.len()));
        }
    }
    outcome.told(flags.stack.json, "sent")
}

fn outgoing(event: &Event) -> Outgoing {
    let group = Some(event.key.destination.clone());
    Outgoing { body: event.body.clone(), group, delay_seconds: 0, origin: Origin::New }
}

/// Puts, cancels or lists.
pub async fn schedule(command: Schedule) -> Result<ExitCode> {
    match command {
        Schedule::Put(flags) => rows::put(&flags).await,
        Schedule::Cancel(flags) => rows::cancel(&flags).await,
        Schedule::List(flags) => rows::list(&flags).await,
    }
}
