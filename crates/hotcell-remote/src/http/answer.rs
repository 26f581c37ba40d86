//! An answer, read within bounds.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::call::why;
use super::error::{CallError, Why};
use super::server::Server;

/// The most that is taken of an answer that is no stream.
const MOST: u64 = 8 << 20;

/// The most that is looked at of an answer that says what went wrong, and the most of it that is repeated.
const MOST_OF_ERROR: u64 = 64 << 10;
const MOST_REPEATED: usize = 500;

/// The longest that is waited because a server asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A successful answer whose body has not been read yet.
#[derive(Debug)]
pub struct Answer {
    server: Server,
    operation: &'static str,
    response: reqwest::Response,
    by: Instant,
    deadline: Duration,
}

impl Answer {
    /// The HTTP status, from 200 to 299.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header, if it is there and readable.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The whole body.
    pub async fn bytes(self) -> Result<Bytes, CallError> {
        self.bytes_up_to(MOST).await
    }

    /// The whole body, if it has no more than `most` bytes.
    pub async fn bytes_up_to(self, most: u64) -> Result<Bytes, CallError> {
        let (by, deadline) = (self.by, self.deadline);
        let mut chunks = self.chunks();
        match tokio::time::timeout_at(by, chunks.collect(most)).await {
            Ok(read) => read,
            Err(_) => Err(chunks.failed(Why::TooSlow { waited: deadline })),
        }
    }

    /// The whole body, as JSON.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T, CallError> {
        let (server, operation) = (self.server.clone(), self.operation);
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| server.failed(operation, Why::Garbled { what: error.to_string() }))
    }

    /// The body as it comes. The deadline of the call no longer holds: the caller has one, or wants to wait.
    pub fn chunks(self) -> Chunks {
        Chunks { server: self.server, operation: self.operation, response: self.response }
    }
}

/// A body as it comes.
#[derive(Debug)]
pub struct Chunks {
    server: Server,
    operation: &'static str,
    response: reqwest::Response,
}

impl Chunks {
    /// The next piece; none at the end. An end before the announced length is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        match self.response.chunk().await {
            Ok(chunk) => Ok(chunk),
            Err(error) => Err(self.failed(why(&error))),
        }
    }

    /// A failure of this call.
    pub fn failed(&self, why: Why) -> CallError {
        self.server.failed(self.operation, why)
    }

    async fn collect(&mut self, most: u64) -> Result<Bytes, CallError> {
        if self.response.content_length().is_some_and(|length| length > most) {
            return Err(self.failed(Why::TooLarge { limit: most }));
        }
        let mut all = BytesMut::new();
        while let Some(chunk) = self.next().await? {
            if (all.len() + chunk.len()) as u64 > most {
                return Err(self.failed(Why::TooLarge { limit: most }));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

/// The answer if it is a success, else what it says.
pub(super) async fn failure(
    server: &Server,
    operation: &'static str,
    response: reqwest::Response,
    by: Instant,
    deadline: Duration,
) -> Result<Answer, CallError> {
    let status = response.status();
    if status.is_success() {
        return Ok(Answer { server: server.clone(), operation, response, by, deadline });
    }
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if status.is_redirection() {
        let to = header("location").unwrap_or_else(|| "nowhere".to_owned());
        // What follows the path may be a signature.
        let to = server.without_keys(to.split(['?', '#']).next().unwrap_or_default().to_owned());
        let to = to.chars().take(MOST_REPEATED).collect();
        return Err(server.failed(operation, Why::Redirected { to }));
    }
    let retry_after = header("retry-after").and_then(|text| parse_retry_after(&text));
    let mut chunks = Chunks { server: server.clone(), operation, response };
    let body = tokio::time::timeout_at(by, chunks.collect(MOST_OF_ERROR)).await;
    let message = body.ok().and_then(Result::ok).map(|bytes| message(&bytes)).unwrap_or_default();
    // Before it is cut, so that no part of a key is left.
    let message = shortened(server.without_keys(message));
    Err(server.failed(operation, Why::Answered { status: status.as_u16(), message, retry_after }))
}

/// Seconds, which every server of ours uses; a date means soon.
fn parse_retry_after(text: &str) -> Option<Duration> {
    let seconds: u64 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// What an error's body says: the message of the usual shapes of JSON, else the text itself.
fn message(bytes: &[u8]) -> String {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(value) => from_json(&value).unwrap_or_else(|| value.to_string()),
        Err(_) => String::from_utf8_lossy(bytes).trim().to_owned(),
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MOST_REPEATED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn from_json(value: &serde_json::Value) -> Option<String> {
    let text = |key: &str| value.get(key).and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let message = text("message").or_else(|| text("error")).map(str::to_owned);
    let message = message
        .or_else(|| text("detail").map(str::to_owned))
        .or_else(|| value.get("detail").map(|detail| from_json(detail).unwrap_or_else(|| detail.to_string())));
    match (text("code"), message) {
        (Some(code), Some(message)) => Some(format!("{message} ({code})")),
        (None, message) => message,
        (Some(code), None) => Some(code.to_owned()),
    }
}
