//! A running command: its events, and how it ended.

use std::time::Duration;

use bytes::Bytes;
use hotcell_core::text::Printable;
use serde::Deserialize;

use super::super::super::http::{CallError, Chunks, Why};
use super::super::sse::{Events, LARGEST_EVENT};

/// How long nothing may come of a server that says every three seconds that it is there, once it has said so.
const SILENCE: Duration = Duration::from_secs(60);

/// Something that a command did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// It has been started; the id is what [`super::Execd::interrupt`] and [`super::Execd::status`] want.
    Started {
        /// The id.
        id: String,
    },
    /// A line that it wrote.
    Stdout(Bytes),
    /// A line that it wrote to its standard error.
    Stderr(Bytes),
    /// A value, by media type; `text` is the plain one. Of code, not of commands.
    Result(serde_json::Map<String, serde_json::Value>),
    /// It failed, by a status that is not zero or otherwise. The last event.
    Failed(Failure),
    /// It ended well. The last event.
    Completed {
        /// How long it ran.
        time: Duration,
    },
}

/// How a command failed, as execd says it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of failure.
    pub name: String,
    /// For commands, the exit code, if there is one.
    pub value: String,
    /// More about it.
    pub traceback: Vec<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By a signal that execd does not name, or it was never started; the [`Failure`] says more.
    Unknown,
}

impl Failure {
    /// How the command ended. Execd says the exit code as text; of a signal it says -1 and, in words, which.
    pub fn exit(&self) -> Exit {
        match self.value.trim().parse::<i32>() {
            Ok(code @ 0..=255) => Exit::Code(code),
            _ => self.traceback.iter().find_map(|line| signal(line)).map_or(Exit::Unknown, Exit::Signal),
        }
    }
}

/// How a command that failed ended: never well.
fn failed(failure: &Failure) -> Result<Exit, Why> {
    match failure.exit() {
        Exit::Code(0) => Err(Why::Garbled { what: "a command failed with the exit code 0".to_owned() }),
        exit => Ok(exit),
    }
}

/// The signal in a sentence of Go's: `signal: killed`, `signal: segmentation fault (core dumped)`.
fn signal(line: &str) -> Option<i32> {
    const NAMES: [(&str, i32); 18] = [
        ("hangup", 1),
        ("interrupt", 2),
        ("quit", 3),
        ("illegal instruction", 4),
        ("trace/breakpoint trap", 5),
        ("aborted", 6),
        ("bus error", 7),
        ("floating point exception", 8),
        ("killed", 9),
        ("user defined signal 1", 10),
        ("segmentation fault", 11),
        ("user defined signal 2", 12),
        ("broken pipe", 13),
        ("alarm clock", 14),
        ("terminated", 15),
        ("stack fault", 16),
        ("CPU time limit exceeded", 24),
        ("file size limit exceeded", 25),
    ];
    let said = line.strip_prefix("signal: ")?.trim_end_matches(" (core dumped)");
    let number = said.strip_prefix("signal ").and_then(|number| number.parse().ok());
    number.or_else(|| NAMES.iter().find(|(name, _)| *name == said).map(|(_, number)| *number))
}

/// A running command.
#[derive(Debug)]
pub struct Running {
    chunks: Chunks,
    /// The piece that is being cut up.
    piece: Bytes,
    events: Events,
    exit: Option<Exit>,
    failed: Option<CallError>,
    /// Whether the server says from time to time that it is there.
    pings: bool,
}

impl Running {
    pub(super) fn new(chunks: Chunks) -> Self {
        Self { chunks, piece: Bytes::new(), events: Events::new(LARGEST_EVENT), exit: None, failed: None, pings: false }
    }

    /// The next event; none after the last. A stream that ends before its last event is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Event>, CallError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        // What follows something that makes no sense is no more to be believed.
        self.look().await.inspect_err(|error| self.failed = Some(error.clone()))
    }

    async fn look(&mut self) -> Result<Option<Event>, CallError> {
        while self.exit.is_none() {
            if let Some(event) = self.next_of_piece()? {
                return Ok(Some(event));
            }
            let next = self.chunks.next();
            // A server that was there a moment ago and now says nothing is gone, whatever the connection looks like.
            let next = if self.pings { tokio::time::timeout(SILENCE, next).await } else { Ok(next.await) };
            match next {
                Ok(piece) => self.piece = piece?.ok_or_else(|| self.ended_early())?,
                Err(_) => return Err(self.chunks.failed(Why::TooSlow { waited: SILENCE })),
            }
        }
        Ok(None)
    }

    /// How it ended, once its last event was seen.
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }

    fn next_of_piece(&mut self) -> Result<Option<Event>, CallError> {
        while !self.piece.is_empty() {
            let (taken, data) = self.events.take(&self.piece).map_err(|why| self.chunks.failed(why))?;
            self.piece = self.piece.split_off(taken);
            let Some(data) = data else { continue };
            let wire: Wire = serde_json::from_slice(&data)
                .map_err(|error| self.chunks.failed(Why::Garbled { what: format!("an event is no event: {error}") }))?;
            if let Some(event) = self.read(wire)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn read(&mut self, wire: Wire) -> Result<Option<Event>, CallError> {
        let missing = |what: &str| Why::Garbled { what: format!("an event has no {what}") };
        Ok(match wire.kind.as_str() {
            "init" => Some(Event::Started { id: wire.text.unwrap_or_default() }),
            "stdout" => wire.text.map(|text| Event::Stdout(line(text))),
            "stderr" => wire.text.map(|text| Event::Stderr(line(text))),
            "result" => wire.results.map(Event::Result),
            "error" => {
                let error = wire.error.ok_or_else(|| self.chunks.failed(missing("error")))?;
                let failure = Failure {
                    name: error.ename.unwrap_or_default(),
                    value: error.evalue.unwrap_or_default(),
                    traceback: error.traceback.unwrap_or_default(),
                };
                self.exit = Some(failed(&failure).map_err(|why| self.chunks.failed(why))?);
                Some(Event::Failed(failure))
            }
            "execution_complete" => {
                self.exit = Some(Exit::Code(0));
                Some(Event::Completed { time: Duration::from_millis(wire.execution_time.unwrap_or_default()) })
            }
            "ping" => {
                self.pings = true;
                None
            }
            // `status`, `execution_count`, and what will be invented.
            _ => None,
        })
    }

    /// The error of a stream that stopped. Execd writes why into it where it can.
    fn ended_early(&self) -> CallError {
        let mut reason = "the command's events stopped before it ended".to_owned();
        if let Ok(said) = serde_json::from_slice::<Said>(self.events.rest())
            && !said.message.is_empty()
        {
            reason = format!("{reason}: {}", Printable(&said.message));
        }
        self.chunks.failed(Why::Broken { reason })
    }
}

/// A line with its end. Execd sends an empty line as the end itself; servers that send ends are taken at their word.
fn line(mut text: String) -> Bytes {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.into()
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type", default)]
    kind: String,
    text: Option<String>,
    execution_time: Option<u64>,
    results: Option<serde_json::Map<String, serde_json::Value>>,
    error: Option<WireError>,
}

#[derive(Deserialize)]
struct WireError {
    ename: Option<String>,
    evalue: Option<String>,
    traceback: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_apart() {
        let failure = |value: &str, traceback: &str| Failure {
            name: "CommandExecError".to_owned(),
            value: value.to_owned(),
            traceback: vec![traceback.to_owned()],
        };
        for (value, traceback, exit) in [
            ("3", "exit status 3", Exit::Code(3)),
            ("-1", "signal: killed", Exit::Signal(9)),
            ("-1", "signal: segmentation fault (core dumped)", Exit::Signal(11)),
            ("-1", "signal: signal 34", Exit::Signal(34)),
            ("-1", "signal: something new", Exit::Unknown),
            ("fork/exec /bin/bash: no such file or directory", "fork/exec", Exit::Unknown),
            ("", "", Exit::Unknown),
            // What a shell would make a success of.
            ("256", "exit status 256", Exit::Unknown),
        ] {
            assert_eq!(failure(value, traceback).exit(), exit, "{value} {traceback}");
        }
        assert_eq!(failed(&failure("3", "")), Ok(Exit::Code(3)));
        for value in ["0", "-0", "+0", " 0 "] {
            assert!(matches!(failed(&failure(value, "")), Err(Why::Garbled { .. })), "{value}");
        }
    }
}
