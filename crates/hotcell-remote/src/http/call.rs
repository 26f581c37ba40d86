//! A call: what is asked, how long it may take, and whether it may be repeated.

use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hotcell_core::secret::Secret;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;
use tokio::time::Instant;

use super::answer::{Answer, failure};
use super::error::{CallError, Why};
use super::server::Server;

/// How often a call that may be repeated is made.
const MOST_TRIES: u32 = 4;

/// How long is waited before the second try, doubled each time, when the server does not say.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// What is sent along.
pub enum Body {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(Bytes),
    /// What this brings; the length, if it is known. Cannot be sent twice.
    Stream(reqwest::Body, Option<u64>),
}

impl Body {
    /// What a stream brings.
    pub fn stream<S, E>(stream: S, length: Option<u64>) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::Stream(reqwest::Body::wrap_stream(stream), length)
    }
}

/// A call that has not been made yet.
#[must_use = "a call does nothing until it is sent"]
pub struct Call {
    server: Server,
    operation: &'static str,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Body,
    deadline: Duration,
    repeatable: bool,
    /// A request that cannot be made; said when it is sent.
    impossible: Option<String>,
}

impl Call {
    pub(super) fn new(server: Server, operation: &'static str, method: Method, url: Url) -> Self {
        let repeatable = matches!(method, Method::GET | Method::HEAD | Method::DELETE | Method::PUT);
        let (headers, body, impossible, deadline) = (HeaderMap::new(), Body::Nothing, None, server.deadline());
        Self { server, operation, method, url, headers, body, deadline, repeatable, impossible }
    }

    /// Adds to the query.
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(self.headers.insert(name, value)),
            _ => self.impossible = Some(format!("the header {name} has characters that none can have")),
        }
        self
    }

    /// Adds a header that is shown nowhere.
    pub fn secret_header(mut self, name: &str, value: &Secret<String>) -> Self {
        self = self.header(name, value.expose());
        if let Some(value) = self.headers.get_mut(name) {
            value.set_sensitive(true);
        }
        self
    }

    /// Sends this as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => self.body = Body::Bytes(bytes.into()),
            Err(error) => self.impossible = Some(error.to_string()),
        }
        self.header("content-type", "application/json")
    }

    /// Sends this.
    pub fn body(mut self, content_type: &str, body: Body) -> Self {
        self.body = body;
        self.header("content-type", content_type)
    }

    /// It may take this long, until the answer has come: all of it, unless it is read as a stream.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// It may be made again when the server is busy or the connection breaks: doing it twice is the same as once.
    pub fn repeatable(mut self, repeatable: bool) -> Self {
        self.repeatable = repeatable;
        self
    }

    /// Makes the call. The answer is a success; everything else is an error.
    pub async fn send(self) -> Result<Answer, CallError> {
        let server = self.server.clone();
        if let Some(reason) = self.impossible {
            return Err(server.failed(self.operation, Why::Impossible { reason }));
        }
        let client = server
            .client()
            .map_err(|error| server.failed(self.operation, Why::Impossible { reason: error.to_string() }))?;
        let by = Instant::now() + self.deadline;
        #[cfg(fuzzing)]
        if let Some(response) = crate::fuzzing::prepared() {
            return failure(&server, self.operation, response, by, self.deadline).await;
        }
        let (mut once, repeat) = match self.body {
            Body::Nothing => (None, Some(Bytes::new())),
            Body::Bytes(bytes) => (None, Some(bytes)),
            Body::Stream(body, length) => (Some((body, length)), None),
        };
        let mut wait = FIRST_WAIT;
        for tries in 1.. {
            let mut request = client.request(self.method.clone(), self.url.clone());
            request = request.headers(server.headers().clone()).headers(self.headers.clone());
            request = match (once.take(), &repeat) {
                (Some((body, length)), _) => {
                    let request =
                        if let Some(length) = length { request.header("content-length", length) } else { request };
                    request.body(body)
                }
                (None, Some(bytes)) if !bytes.is_empty() => request.body(bytes.clone()),
                // Some servers want to be told that nothing comes.
                (None, Some(_)) if self.method == Method::POST => request.header("content-length", 0),
                _ => request,
            };
            let result = match tokio::time::timeout_at(by, request.send()).await {
                Ok(Ok(response)) => failure(&server, self.operation, response, by, self.deadline).await,
                Ok(Err(error)) => Err(server.failed(self.operation, why(&error))),
                Err(_) => Err(server.failed(self.operation, Why::TooSlow { waited: self.deadline })),
            };
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let may_repeat = self.repeatable && repeat.is_some() && tries < MOST_TRIES;
            let Some(pause) = may_repeat.then(|| pause_after(&error, wait)).flatten() else { return Err(error) };
            if Instant::now() + pause >= by {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            wait *= 2;
        }
        Err(server.failed(self.operation, Why::TooSlow { waited: self.deadline }))
    }
}

/// How long to wait before the call is made again; none if that would not help.
fn pause_after(error: &CallError, wait: Duration) -> Option<Duration> {
    match &error.why {
        Why::Answered { status: 429 | 502 | 503 | 504, retry_after, .. } => Some(retry_after.unwrap_or(wait)),
        Why::Broken { .. } => Some(wait),
        _ => None,
    }
}

/// What a failure of the transport means.
pub(super) fn why(error: &reqwest::Error) -> Why {
    let mut reason = String::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(inner) = cause {
        reason = inner.to_string();
        cause = inner.source();
    }
    if reason.is_empty() {
        // Without the address: it may have a signature in it.
        reason = if error.is_timeout() { "it took too long".to_owned() } else { "the connection failed".to_owned() };
    }
    match error {
        error if error.is_connect() => Why::Unreachable { reason },
        error if error.is_builder() => Why::Impossible { reason },
        error if error.is_decode() => Why::Garbled { what: reason },
        _ => Why::Broken { reason },
    }
}
