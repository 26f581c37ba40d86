//! What a running command says.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::super::connect::Messages;
use super::end::EndEvent;
use super::{End, Envd};
use crate::http::{CallError, Why};

/// Something that a command said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// On its standard output.
    Stdout(Bytes),
    /// On its standard error.
    Stderr(Bytes),
    /// On its terminal.
    Terminal(Bytes),
    /// It ended. The last event.
    End(End),
}

/// A running command, followed. Dropping it does not end the command.
#[derive(Debug)]
pub struct Running {
    messages: Messages,
    /// Who can tell whether a silent command still runs.
    envd: Envd,
    /// Whether it did not, the last time.
    gone: bool,
    pid: u32,
    end: Option<End>,
    /// Once it failed it stays so: what came after would have a hole before it.
    failed: Option<CallError>,
    over: bool,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    event: Option<ProcessEvent<'a>>,
}

#[derive(Deserialize)]
struct ProcessEvent<'a> {
    #[serde(default)]
    start: Option<Start>,
    #[serde(borrow, default)]
    data: Option<Data<'a>>,
    #[serde(default)]
    end: Option<EndEvent>,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    pid: u32,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, default)]
    stdout: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stderr: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pty: Option<Cow<'a, str>>,
}

/// A message, understood.
enum Understood {
    Start {
        pid: u32,
    },
    Said(Event),
    /// That the stream is alive, or something that only newer programs know.
    Nothing,
}

fn understand(message: &[u8]) -> Result<Understood, String> {
    let message: Message<'_> = serde_json::from_slice(message).map_err(|error| error.to_string())?;
    let Some(event) = message.event else { return Ok(Understood::Nothing) };
    match event {
        ProcessEvent { start: Some(Start { pid }), data: None, end: None } => match pid {
            0 => Err("a command has no process id".to_owned()),
            pid => Ok(Understood::Start { pid }),
        },
        ProcessEvent { start: None, data: Some(data), end: None } => output(&data),
        ProcessEvent { start: None, data: None, end: Some(end) } => Ok(Understood::Said(Event::End(end.into_end()?))),
        ProcessEvent { start: None, data: None, end: None } => Ok(Understood::Nothing),
        _ => Err("an event is several at once".to_owned()),
    }
}

fn output(data: &Data<'_>) -> Result<Understood, String> {
    let (text, event): (&str, fn(Bytes) -> Event) = match data {
        Data { stdout: Some(text), stderr: None, pty: None } => (text, Event::Stdout),
        Data { stdout: None, stderr: Some(text), pty: None } => (text, Event::Stderr),
        Data { stdout: None, stderr: None, pty: Some(text) } => (text, Event::Terminal),
        Data { stdout: None, stderr: None, pty: None } => return Ok(Understood::Nothing),
        _ => return Err("output is on several streams at once".to_owned()),
    };
    let bytes = STANDARD.decode(text).map_err(|error| format!("output is no base64: {error}"))?;
    Ok(if bytes.is_empty() { Understood::Nothing } else { Understood::Said(event(bytes.into())) })
}

impl Running {
    /// Reads the first event, which says what runs.
    pub(super) async fn begin(mut messages: Messages, envd: Envd) -> Result<Self, CallError> {
        let garbled = |messages: &Messages, what: &str| messages.failed(Why::Garbled { what: what.to_owned() });
        let Some(message) = messages.next().await? else {
            return Err(garbled(&messages, "the stream ended before the command started"));
        };
        match understand(&message) {
            Ok(Understood::Start { pid }) => {
                Ok(Self { messages, envd, gone: false, pid, end: None, failed: None, over: false })
            }
            Ok(_) => Err(garbled(&messages, "the first event is not the start of the command")),
            Err(what) => Err(garbled(&messages, &what)),
        }
    }

    /// The process id in the sandbox.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next thing that the command says; none after [`Event::End`]. A stream that breaks off, or that ends before the
    /// command did, is an error. Nothing is read from the server while nobody asks. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Event>, CallError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.over {
            return Ok(None);
        }
        let result = self.read().await;
        match &result {
            Ok(Event::End(_)) => self.over = true,
            Ok(_) => {}
            Err(error) => self.failed = Some(error.clone()),
        }
        result.map(Some)
    }

    async fn read(&mut self) -> Result<Event, CallError> {
        loop {
            let message = match self.messages.next().await {
                Err(error) if matches!(error.why, Why::TooSlow { .. }) => {
                    self.is_silent_with_reason(error).await?;
                    continue;
                }
                message => message?,
            };
            self.gone = false;
            let Some(message) = message else {
                // The end counts when the stream ended as well.
                let end = self.end.take().map(Event::End);
                return end.ok_or_else(|| self.garbled("the stream ended before the command did"));
            };
            match understand(&message) {
                Ok(Understood::Nothing) => {}
                Ok(_) if self.end.is_some() => return Err(self.garbled("there is an event after the end")),
                Ok(Understood::Start { .. }) => return Err(self.garbled("the command started twice")),
                Ok(Understood::Said(Event::End(end))) => self.end = Some(end),
                Ok(Understood::Said(event)) => return Ok(event),
                Err(what) => return Err(self.garbled(&what)),
            }
        }
    }

    /// A command that closed its output is followed in silence until it ends: `envd` gives no signs of life then. One that
    /// does not run any more has a last chance to say how it ended.
    async fn is_silent_with_reason(&mut self, silence: CallError) -> Result<(), CallError> {
        if !self.messages.is_between_messages() || self.gone {
            return Err(silence);
        }
        self.gone = !self.envd.processes().await?.iter().any(|process| process.pid == self.pid);
        Ok(())
    }

    fn garbled(&self, what: &str) -> CallError {
        self.messages.failed(Why::Garbled { what: what.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_strictly() {
        let said = |text: &str| understand(format!(r#"{{"event":{{"data":{{"stdout":"{text}"}}}}}}"#).as_bytes());
        assert!(matches!(said("aGk="), Ok(Understood::Said(Event::Stdout(bytes))) if bytes == "hi"));
        for bad in ["aGk", "aGk=\\n", "a-_=", "aGl=", "aGk==", "====", " aGk=", "aG k="] {
            assert!(said(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_event_is_one_thing() {
        for bad in [
            r#"{"event":{"start":{"pid":1},"end":{}}}"#,
            r#"{"event":{"data":{"stdout":"","stderr":""}}}"#,
            r#"{"event":{"start":{}}}"#,
            r#"{"event":{"start":{"pid":-1}}}"#,
            r#"{"event":"x"}"#,
            r#"{"event":{"data":{"stdout":1}}}"#,
            "null",
            "\"",
        ] {
            assert!(understand(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(understand(b"{\"event\":{\"data\":{\"stdout\":\"\xff\"}}}").is_err());
        for nothing in
            [r#"{"event":{"keepalive":{}}}"#, r#"{"event":{"novelty":{}}}"#, "{}", r#"{"event":{"data":{}}}"#]
        {
            assert!(matches!(understand(nothing.as_bytes()), Ok(Understood::Nothing)), "{nothing}");
        }
    }
}
