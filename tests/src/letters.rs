//! The letters in `dead-letters`, and their way back.
//!
//! Owns: looking at them one test at a time, and a redrive of one test's letters. Must not: touch any others.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use lapse_local::driver::Event;
use lapse_policy::timestamp::Timestamp;
use serde_json::Value;

use crate::ground::{Ground, REDRIVE_AFTER_SECONDS, now};
use crate::patience::eventually;

/// One letter.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its body, as text.
    pub text: String,
    /// The same, read.
    pub body: Value,
    /// The queue that SQS moved it from; only SQS writes this.
    pub moved_from: Option<String>,
    receipt: String,
}

impl Letter {
    fn of(message: &Message) -> Result<Self> {
        let text = message.body().unwrap_or_default().to_owned();
        let attributes: HashMap<_, _> = message.attributes().cloned().unwrap_or_default();
        Ok(Self {
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
            moved_from: attributes.get(&MessageSystemAttributeName::DeadLetterQueueSourceArn).cloned(),
            receipt: message.receipt_handle().context("a received message has a receipt")?.to_owned(),
        })
    }

    /// When its delivery died.
    pub fn died_at(&self) -> Result<Timestamp> {
        let at = self.body["dead"]["at"].as_str().context("a letter has the mark of its death")?;
        Ok(Timestamp::parse(at)?)
    }

    /// Whether it is of this event.
    #[must_use]
    pub fn is_of(&self, event: &Event) -> bool {
        self.body["id"] == *event.id && self.body["destination"] == *event.destination
    }
}

impl Ground {
    /// The letters that are in `dead-letters` and of interest; they stay there.
    pub async fn letters(&self, of_interest: impl Fn(&Letter) -> bool) -> Result<Vec<Letter>> {
        let _alone = self.looking.lock().await;
        let mut letters = self.receive().await?;
        for letter in &letters {
            self.show(letter).await?;
        }
        letters.retain(|letter| of_interest(letter));
        Ok(letters)
    }

    /// Waits for the one letter of interest.
    pub async fn letter(&self, what: &str, of_interest: impl Fn(&Letter) -> bool) -> Result<Letter> {
        eventually(&format!("the letter of {what}"), async || Ok(self.letters(&of_interest).await?.pop())).await
    }

    /// Waits for an event's letter.
    pub async fn letter_of(&self, event: &Event) -> Result<Letter> {
        self.letter(&event.id, |letter| letter.is_of(event)).await
    }

    /// Redrives the letters of interest to `failures`, which is what the console's default does: each becomes a new
    /// message, and the old one is deleted. Waits until it is no longer taken for one on its first way.
    pub async fn redrive(&self, of_interest: impl Fn(&Letter) -> bool) -> Result<usize> {
        for letter in self.letters(&of_interest).await? {
            let from = letter.died_at()?.plus(Duration::from_secs(REDRIVE_AFTER_SECONDS));
            tokio::time::sleep(from.since(now())).await;
        }
        let _alone = self.looking.lock().await;
        let (from, to) = (self.driver.output("DeadLettersQueueUrl")?, self.driver.output("FailuresQueueUrl")?);
        let mut moved = 0;
        for letter in self.receive().await? {
            if of_interest(&letter) {
                self.sqs.send_message().queue_url(to).message_body(&letter.text).send().await?;
                self.sqs.delete_message().queue_url(from).receipt_handle(&letter.receipt).send().await?;
                moved += 1;
            } else {
                self.show(&letter).await?;
            }
        }
        Ok(moved)
    }

    async fn receive(&self) -> Result<Vec<Letter>> {
        let mut letters = Vec::new();
        let url = self.driver.output("DeadLettersQueueUrl")?;
        loop {
            let page = self
                .sqs
                .receive_message()
                .queue_url(url)
                .max_number_of_messages(10)
                .visibility_timeout(60)
                .message_system_attribute_names(MessageSystemAttributeName::All)
                .send()
                .await?;
            if page.messages().is_empty() {
                return Ok(letters);
            }
            for message in page.messages() {
                letters.push(Letter::of(message)?);
            }
        }
    }

    async fn show(&self, letter: &Letter) -> Result<()> {
        let url = self.driver.output("DeadLettersQueueUrl")?;
        let show = self.sqs.change_message_visibility().queue_url(url).receipt_handle(&letter.receipt);
        show.visibility_timeout(0).send().await?;
        Ok(())
    }
}
