//! What running code says and results in.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::lines::{Lines, MOST};
use crate::http::{CallError, Chunks, Why};

/// How long is waited for the end of a connection whose last line has come, so that it can be used again.
const LINGER: Duration = Duration::from_millis(50);

/// Something that a cell of code said or resulted in.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Text on its standard output.
    Stdout(String),
    /// Text on its standard error.
    Stderr(String),
    /// A result, or something that it showed.
    Result(Rich),
    /// It failed.
    Error {
        /// The exception's name.
        name: String,
        /// What it says.
        value: String,
        /// Where it happened.
        traceback: String,
    },
    /// The number of the cell in its context.
    Count(u64),
}

/// A result in every form that it has.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Rich {
    /// Whether it is the value of the cell, and not something that it showed on the way.
    pub is_main: bool,
    /// By MIME type; pictures in base64. `e2b/data` and `e2b/chart` are E2B's own.
    pub forms: BTreeMap<String, Value>,
}

/// Code that runs. Dropping it interrupts the code.
#[derive(Debug)]
pub struct Execution {
    chunks: Chunks,
    lines: Lines,
    failed: Option<CallError>,
    over: bool,
}

/// How the server calls the usual MIME types.
const FORMS: [(&str, &str); 12] = [
    ("text", "text/plain"),
    ("html", "text/html"),
    ("markdown", "text/markdown"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpeg", "image/jpeg"),
    ("pdf", "application/pdf"),
    ("latex", "text/latex"),
    ("json", "application/json"),
    ("javascript", "application/javascript"),
    ("data", "e2b/data"),
    ("chart", "e2b/chart"),
];

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Stdout {
        #[serde(default)]
        text: Option<String>,
    },
    Stderr {
        #[serde(default)]
        text: Option<String>,
    },
    Result(BTreeMap<String, Value>),
    Error {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        value: Option<String>,
        #[serde(default)]
        traceback: Option<String>,
    },
    NumberOfExecutions {
        execution_count: u64,
    },
    EndOfExecution,
    UnexpectedEndOfExecution,
    /// Something that only newer programs know.
    #[serde(other)]
    Unknown,
}

/// A line, understood.
enum Understood {
    Said(Output),
    Nothing,
    End,
    Died,
}

fn understand(line: &[u8]) -> Result<Understood, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(match line {
        Line::Stdout { text } => Understood::Said(Output::Stdout(text.unwrap_or_default())),
        Line::Stderr { text } => Understood::Said(Output::Stderr(text.unwrap_or_default())),
        Line::Result(fields) => Understood::Said(Output::Result(rich(fields))),
        Line::Error { name, value, traceback } => Understood::Said(Output::Error {
            name: name.unwrap_or_default(),
            value: value.unwrap_or_default(),
            traceback: traceback.unwrap_or_default(),
        }),
        Line::NumberOfExecutions { execution_count } => Understood::Said(Output::Count(execution_count)),
        Line::EndOfExecution => Understood::End,
        Line::UnexpectedEndOfExecution => Understood::Died,
        Line::Unknown => Understood::Nothing,
    })
}

fn rich(mut fields: BTreeMap<String, Value>) -> Rich {
    let mut rich = Rich { is_main: fields.get("is_main_result") == Some(&Value::Bool(true)), ..Rich::default() };
    if let Some(Value::Object(extra)) = fields.remove("extra") {
        rich.forms.extend(extra);
    }
    for (field, form) in FORMS {
        match fields.remove(field) {
            None | Some(Value::Null) => {}
            Some(value) => drop(rich.forms.insert(form.to_owned(), value)),
        }
    }
    rich
}

impl Execution {
    pub(super) fn new(chunks: Chunks) -> Self {
        Self { chunks, lines: Lines::default(), failed: None, over: false }
    }

    /// The next output; none at the end. A stream that breaks off is an error. There are no signs of life in between, so the
    /// caller says how long is too long. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Output>, CallError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.read().await;
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    async fn read(&mut self) -> Result<Option<Output>, CallError> {
        while !self.over {
            let line = self.lines.next().map_err(|_| self.chunks.failed(Why::TooLarge { limit: MOST as u64 }))?;
            let Some(line) = line else {
                match self.chunks.next().await? {
                    Some(chunk) => self.lines.push(&chunk),
                    None if self.lines.is_in_the_middle() => {
                        return Err(self.broken("it ended in the middle of a line"));
                    }
                    None => return Err(self.broken("it ended before the code did")),
                }
                continue;
            };
            match understand(&line) {
                Ok(Understood::Said(output)) => return Ok(Some(output)),
                Ok(Understood::Nothing) => {}
                Ok(Understood::End) => {
                    self.over = true;
                    let _ = timeout(LINGER, self.chunks.next()).await;
                }
                Ok(Understood::Died) => return Err(self.broken("what ran the code died")),
                Err(what) => return Err(self.chunks.failed(Why::Garbled { what })),
            }
        }
        Ok(None)
    }

    fn broken(&self, reason: &str) -> CallError {
        self.chunks.failed(Why::Broken { reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_by_mime_type() {
        let line = br#"{"type":"result","text":"1","png":"aGk=","json":{"a":1},"html":null,"extra":{"x/y":"z"},"is_main_result":true}"#;
        let Ok(Understood::Said(Output::Result(rich))) = understand(line) else { panic!() };
        assert!(rich.is_main);
        let forms: Vec<&str> = rich.forms.keys().map(String::as_str).collect();
        assert_eq!(forms, ["application/json", "image/png", "text/plain", "x/y"]);
    }

    #[test]
    fn lines_that_are_no_events_are_errors_and_new_events_are_not() {
        for bad in ["", "{}", "[]", "1", r#"{"type":1}"#, r#"{"type":"stdout","text":1}"#, "{\"type\":\"stdout\""] {
            assert!(understand(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(understand(b"{\"type\":\"stdout\",\"text\":\"\xff\"}").is_err());
        assert!(matches!(understand(br#"{"type":"novelty","a":1}"#), Ok(Understood::Nothing)));
        assert!(matches!(understand(br#"{"type": "end_of_execution"}"#), Ok(Understood::End)));
    }
}
