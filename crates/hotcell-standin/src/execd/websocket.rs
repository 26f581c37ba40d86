//! `/pty/{id}/ws`: the one client of a terminal.
//!
//! Bytes are binary messages with a mark in front: 0 input, 1 standard output, 2 standard error, 3 what was missed with
//! the eight bytes of its offset. Everything else is JSON in text messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use super::terminal::{Piece, Terminal, not_found};
use super::{Shared, failure, locked};
use crate::go;
use crate::query::Query;

const MISSED: u8 = 3;
const INPUT: u8 = 0;
const TAKEN_OVER: u16 = 4001;

const PING_EVERY: Duration = Duration::from_secs(30);
/// How long a new client waits for the old one to go.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default, Deserialize)]
struct FromClient {
    #[serde(rename = "type", default, deserialize_with = "go::or_default")]
    kind: String,
    #[serde(default, deserialize_with = "go::or_default")]
    data: String,
    #[serde(default, deserialize_with = "go::or_default")]
    cols: i64,
    #[serde(default, deserialize_with = "go::or_default")]
    rows: i64,
    #[serde(default, deserialize_with = "go::or_default")]
    signal: String,
}

#[derive(Debug, Default, Serialize)]
struct ToClient<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    session_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    mode: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    code: &'a str,
}

/// `GET /pty/{id}/ws?pty=0&since=OFFSET&takeover=1`
pub(super) async fn connect(
    State(execd): Shared,
    Path(id): Path<String>,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Some(terminal) = locked(&execd.terminals).get(&id).cloned() else { return not_found(&id) };
    let taken = terminal.take();
    if !taken && (query.get("takeover") != Some("1") || upgrade.is_err()) {
        let message = format!("another client is already connected to pty session {id}");
        return failure(StatusCode::CONFLICT, "ALREADY_CONNECTED", &message);
    }
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            terminal.release();
            return rejection.into_response();
        }
    };
    let with_terminal = query.get("pty") != Some("0");
    let since = query.get("since").and_then(|since| since.parse().ok()).unwrap_or(0);
    upgrade.on_upgrade(move |socket| async move {
        let mut client = Client { socket, terminal };
        if taken || client.take_over().await {
            client.serve(with_terminal, since).await;
            client.terminal.release();
        }
    })
}

/// Waits for the end of the process.
async fn exit_code(exit: &mut watch::Receiver<Option<i32>>) -> Option<i32> {
    exit.wait_for(Option::is_some).await.ok().and_then(|code| *code)
}

struct Client {
    socket: WebSocket,
    terminal: Arc<Terminal>,
}

impl Client {
    async fn take_over(&mut self) -> bool {
        let deadline = Instant::now() + TAKEOVER_LIMIT;
        while !self.terminal.take() {
            if Instant::now() > deadline {
                let error = format!("takeover timed out for pty session {}", self.terminal.id);
                self.say(ToClient { kind: "error", error: &error, code: "ALREADY_CONNECTED", ..Default::default() })
                    .await;
                return false;
            }
            self.terminal.evict.notify_waiters();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }

    /// Sends JSON; false when nobody is there.
    async fn say(&mut self, message: ToClient<'_>) -> bool {
        // gorilla's encoder ends every message with a line feed.
        let text = go::json(&message) + "\n";
        self.socket.send(Message::Text(text.into())).await.is_ok()
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = self.socket.send(Message::Close(Some(frame))).await;
    }

    async fn serve(&mut self, with_terminal: bool, since: u64) {
        let terminal = Arc::clone(&self.terminal);
        if !terminal.is_running()
            && let Err(error) = terminal.start(with_terminal).await
        {
            self.say(ToClient { kind: "error", error: &error, code: "START_FAILED", ..Default::default() }).await;
            return;
        }
        let mut exit = terminal.exit();
        let evicted = terminal.evict.notified();
        tokio::pin!(evicted);
        let (missed, offset, mut output) = terminal.attach(since);
        if !missed.is_empty() {
            let mut bytes = vec![MISSED];
            bytes.extend(offset.to_be_bytes());
            bytes.extend(missed);
            if self.socket.send(Message::Binary(bytes.into())).await.is_err() {
                return;
            }
        }
        let connected =
            ToClient { kind: "connected", session_id: &terminal.id, mode: terminal.mode(), ..Default::default() };
        if !self.say(connected).await {
            return;
        }
        let mut pings = tokio::time::interval_at(tokio::time::Instant::now() + PING_EVERY, PING_EVERY);
        loop {
            let goes_on = tokio::select! {
                Some(piece) = output.recv() => self.pass(piece).await,
                code = exit_code(&mut exit) => {
                    self.finish(code, &mut output).await;
                    return;
                }
                () = &mut evicted => {
                    self.close(TAKEN_OVER, "TAKEN_OVER").await;
                    return;
                }
                _ = pings.tick() => self.socket.send(Message::Ping(Bytes::new())).await.is_ok(),
                message = self.socket.recv() => match message {
                    Some(Ok(message)) => self.take_in(message).await,
                    _ => false,
                },
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn pass(&mut self, (mark, bytes): Piece) -> bool {
        let mut marked = Vec::with_capacity(bytes.len() + 1);
        marked.push(mark);
        marked.extend_from_slice(&bytes);
        self.socket.send(Message::Binary(marked.into())).await.is_ok()
    }

    async fn finish(&mut self, code: Option<i32>, output: &mut mpsc::Receiver<Piece>) {
        if self.terminal.patient_exit {
            while let Ok(piece) = output.try_recv() {
                if !self.pass(piece).await {
                    return;
                }
            }
        }
        self.say(ToClient { kind: "exit", exit_code: code, ..Default::default() }).await;
        self.close(1000, "process exited").await;
    }

    /// Does what a message says; false at the end.
    async fn take_in(&mut self, message: Message) -> bool {
        match message {
            Message::Binary(bytes) => match bytes.split_first() {
                Some((&INPUT, input)) => self.write(input).await,
                _ => true,
            },
            Message::Text(text) => match serde_json::from_str::<FromClient>(&text) {
                Ok(message) => self.obey(message).await,
                Err(_) => true,
            },
            Message::Close(_) => false,
            Message::Ping(_) | Message::Pong(_) => true,
        }
    }

    async fn obey(&mut self, message: FromClient) -> bool {
        match message.kind.as_str() {
            "stdin" => return self.write(message.data.as_bytes()).await,
            "signal" => self.terminal.signal(&message.signal),
            "resize" => {
                if let (Ok(columns @ 1..), Ok(rows @ 1..)) = (u16::try_from(message.cols), u16::try_from(message.rows))
                {
                    self.terminal.resize(columns, rows).await;
                }
            }
            "ping" => return self.say(ToClient { kind: "pong", ..Default::default() }).await,
            other => {
                let error = format!("unknown frame type {other:?}");
                let answer = ToClient { kind: "error", error: &error, code: "INVALID_FRAME", ..Default::default() };
                return self.say(answer).await;
            }
        }
        true
    }

    async fn write(&mut self, bytes: &[u8]) -> bool {
        if let Err(error) = self.terminal.write(bytes).await {
            self.say(ToClient { kind: "error", error: &error, code: "STDIN_WRITE_FAILED", ..Default::default() }).await;
            return false;
        }
        true
    }
}
