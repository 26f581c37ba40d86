//! Commands that go on by themselves: started, looked at, and listened to again from any point.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hotcell_core::text::Printable;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::super::http::CallError;
use super::super::timestamp;
use super::Execd;
use super::command::Command;
use super::running::{Event, Exit};

/// The header that says from where to ask the next time.
const CURSOR: &str = "execd-commands-tail-cursor";

/// The most that is taken of a log at once. Execd sends all there is from the cursor on.
const MOST_OF_LOG: u64 = 64 << 20;

/// The pause before the second look at a log, and the longest between two.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long execd may take to know a command that it has started.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How a command is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandStatus {
    /// Whether it runs.
    pub running: bool,
    /// How it ended, if it did.
    pub exit: Option<Exit>,
    /// What execd says of its end.
    pub error: String,
    /// When it was started.
    pub started_at: Option<SystemTime>,
    /// When it ended.
    pub finished_at: Option<SystemTime>,
}

/// A piece of a background command's output: both streams, in order, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logs {
    /// The piece.
    pub bytes: Bytes,
    /// From where to ask the next time.
    pub cursor: u64,
}

/// Listens to a background command. Made anew with the id and a cursor, it goes on where another stopped.
#[derive(Debug)]
pub struct Background {
    execd: Execd,
    id: String,
    cursor: u64,
    exit: Option<Exit>,
}

#[derive(Deserialize)]
struct StatusAnswer {
    running: bool,
    exit_code: Option<i32>,
    error: Option<String>,
    started_at: Option<String>,
    finished_at: Option<String>,
}

impl Execd {
    /// Starts a command that goes on when nobody listens, without input. Both of its streams go into one log. Says its id.
    pub async fn start_background(&self, command: &Command) -> Result<String, CallError> {
        let operation = "start a command";
        let mut running = self.start(operation, command, true).await?;
        let mut id = None;
        while let Some(event) = running.next().await? {
            match event {
                Event::Started { id: started } => id = Some(started),
                Event::Failed(failure) => {
                    return Err(self.impossible(operation, Printable(&failure.value).to_string()));
                }
                _ => {}
            }
        }
        let id = id.ok_or_else(|| self.garbled(operation, "it does not say the command's id"))?;
        self.known(id).await
    }

    /// Waits until execd knows a command that it has just started: it says the id a moment before.
    async fn known(&self, id: String) -> Result<String, CallError> {
        let by = Instant::now() + UNKNOWN;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.status(&id).await {
                Ok(_) => return Ok(id),
                Err(error) if error.is_not_found() && Instant::now() + pause < by => tokio::time::sleep(pause).await,
                Err(error) => return Err(error),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// How a command is, however it was started.
    pub async fn status(&self, id: &str) -> Result<CommandStatus, CallError> {
        let call = self.server.get("look at a command", &["command", "status", id]);
        let answer: StatusAnswer = call.send().await?.json().await?;
        let error = answer.error.unwrap_or_default();
        let failure = super::Failure {
            name: String::new(),
            value: answer.exit_code.map(|code| code.to_string()).unwrap_or_default(),
            traceback: vec![error.clone()],
        };
        let time = |text: Option<String>| text.as_deref().and_then(timestamp::parse);
        Ok(CommandStatus {
            running: answer.running,
            exit: (!answer.running).then(|| failure.exit()),
            error,
            started_at: time(answer.started_at),
            finished_at: time(answer.finished_at),
        })
    }

    /// What a background command has written since `cursor`; from the beginning, 0.
    pub async fn logs(&self, id: &str, cursor: u64) -> Result<Logs, CallError> {
        let operation = "read a command's output";
        let call = self.server.get(operation, &["command", id, "logs"]).query("cursor", &cursor.to_string());
        let answer = call.send().await?;
        let next: Option<u64> = answer.header(CURSOR).and_then(|text| text.parse().ok());
        let bytes = answer.bytes_up_to(MOST_OF_LOG).await?;
        match next {
            Some(next) if next.checked_sub(cursor) == Some(bytes.len() as u64) => Ok(Logs { bytes, cursor: next }),
            _ => Err(self.garbled(operation, "the output is not as long as it says")),
        }
    }

    /// Listens to a background command from `cursor` on; from the beginning, 0.
    pub fn listen(&self, id: impl Into<String>, cursor: u64) -> Background {
        Background { execd: self.clone(), id: id.into(), cursor, exit: None }
    }
}

impl Background {
    /// The next piece of output; none when the command has ended and all of it was seen. Cancel-safe: a piece that was not
    /// returned comes again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let mut pause = FIRST_PAUSE;
        loop {
            // In this order: what is written before the end is in the log that is read after it.
            if self.exit.is_none() {
                self.exit = self.execd.status(&self.id).await?.exit;
            }
            let logs = self.execd.logs(&self.id, self.cursor).await?;
            self.cursor = logs.cursor;
            if !logs.bytes.is_empty() {
                return Ok(Some(logs.bytes));
            }
            if self.exit.is_some() {
                return Ok(None);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// From where another would go on.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// How the command ended, once [`Background::next`] said that it did.
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }
}
