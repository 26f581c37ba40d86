//! The stream of events about a command.
//!
//! The real one says `text/event-stream` and writes bare JSON followed by an empty line, one event to a chunk.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock::milliseconds;
use crate::{go, reply};

/// How often a stream shows that it is alive.
const PING_EVERY: Duration = Duration::from_secs(3);

/// Events that may wait for a slow client.
const WAITING: usize = 64;

#[derive(Debug, Default, Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    execution_time: u64,
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault<'a>>,
}

#[derive(Debug, Serialize)]
struct Fault<'a> {
    ename: &'a str,
    evalue: &'a str,
    traceback: [&'a str; 1],
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where events are written. Nobody is told whether somebody reads them: a command goes on without its client.
#[derive(Debug, Clone)]
pub(super) struct Events(mpsc::Sender<Bytes>);

impl Events {
    /// A stream, and the response that carries it.
    pub(super) fn stream() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let response = reply::with_type(StatusCode::OK, "text/event-stream", reply::chunks(receiver));
        let headers = [("cache-control", "no-cache"), ("x-accel-buffering", "no")];
        (Self(sender), reply::with_headers(response, &headers))
    }

    /// Says which command this is and, from then on, that the stream is alive.
    pub(super) async fn init(&self, id: &str) -> Pings {
        self.send(Event { kind: "init", text: id, ..Event::default() }).await;
        self.ping().await;
        let events = self.clone();
        Pings(tokio::spawn(async move {
            loop {
                tokio::time::sleep(PING_EVERY).await;
                events.ping().await;
            }
        }))
    }

    async fn ping(&self) {
        self.send(Event { kind: "ping", text: "pong", ..Event::default() }).await;
    }

    pub(super) async fn output(&self, kind: &'static str, line: &[u8]) {
        if !line.is_empty() {
            self.send(Event { kind, text: &go::text(line), ..Event::default() }).await;
        }
    }

    pub(super) async fn complete(&self, took: Duration) {
        let execution_time = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.send(Event { kind: "execution_complete", execution_time, ..Event::default() }).await;
    }

    pub(super) async fn error(&self, value: &str, trace: &str) {
        let error = Fault { ename: "CommandExecError", evalue: value, traceback: [trace] };
        self.send(Event { kind: "error", error: Some(error), ..Event::default() }).await;
    }

    /// Bytes that are no event: what the real one sends when it fails in the middle of a stream.
    pub(super) async fn raw(&self, text: String) {
        let _ = self.0.send(Bytes::from(text)).await;
    }

    async fn send(&self, event: Event<'_>) {
        let event = Event { timestamp: milliseconds(), ..event };
        self.raw(go::json(&event) + "\n\n").await;
    }
}

/// Pings that end when this is dropped.
#[derive(Debug)]
pub(super) struct Pings(JoinHandle<()>);

impl Drop for Pings {
    fn drop(&mut self) {
        self.0.abort();
    }
}
