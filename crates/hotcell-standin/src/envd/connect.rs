//! The Connect protocol with JSON: single messages, and streams of them in envelopes.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::is_known_user;
use crate::reply;

/// The mark of an envelope that ends a stream.
const END: u8 = 2;
/// Longer than any message of a test.
const LONGEST: usize = 64 << 20;

/// An error as Connect knows it.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn status(&self) -> StatusCode {
        match self.code {
            "invalid_argument" | "failed_precondition" => StatusCode::BAD_REQUEST,
            "unauthenticated" => StatusCode::UNAUTHORIZED,
            "not_found" => StatusCode::NOT_FOUND,
            "already_exists" => StatusCode::CONFLICT,
            "unimplemented" => StatusCode::NOT_IMPLEMENTED,
            "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The answer to a single message.
pub(super) fn answer(result: Result<Value, Fault>) -> Response {
    let (status, body) = match result {
        Ok(value) => (StatusCode::OK, value.to_string()),
        Err(fault) => (fault.status(), json!(fault).to_string()),
    };
    reply::with_type(status, "application/json", body)
}

/// The user that a request is for, if it names one that there is not.
pub(super) fn check_user(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(given) = headers.get("authorization").and_then(|value| value.to_str().ok()) else { return Ok(()) };
    let Some(encoded) = given.strip_prefix("Basic ") else { return Ok(()) };
    let decoded = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded).into_owned();
    let name = text.split(':').next().unwrap_or_default();
    if is_known_user(name) {
        return Ok(());
    }
    Err(Fault::new("unauthenticated", format!("invalid username: '{name}'")))
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::new("invalid_argument", format!("unmarshal message: proto: syntax error: {error}")))
}

/// The envelopes of a request, one after the other.
#[derive(Debug)]
pub(super) struct Incoming {
    body: axum::body::BodyDataStream,
    buffer: BytesMut,
}

impl Incoming {
    pub(super) fn new(body: Body) -> Self {
        Self { body: body.into_data_stream(), buffer: BytesMut::new() }
    }

    /// The next message, or nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Fault> {
        loop {
            if let Some(message) = self.take()? {
                return parse(&message).map(Some);
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                None if self.buffer.is_empty() => return Ok(None),
                Some(Err(_)) | None => {
                    return Err(Fault::new("invalid_argument", "protocol error: incomplete envelope: unexpected EOF"));
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some(&[_, a, b, c, d]) = self.buffer.first_chunk::<5>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(Fault::new("resource_exhausted", format!("message size {length} is larger than {LONGEST}")));
        }
        if self.buffer.len() < 5 + length {
            return Ok(None);
        }
        self.buffer.advance(5);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// The envelopes of a response.
#[derive(Debug, Clone)]
pub(super) struct Outgoing(mpsc::Sender<Bytes>);

impl Outgoing {
    /// A stream, and the response that carries it.
    pub(super) fn stream() -> (Self, Response) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), reply::with_type(StatusCode::OK, "application/connect+json", reply::chunks(receiver)))
    }

    /// Sends a message; false when nobody is there any more.
    pub(super) async fn send(&self, message: &Value) -> bool {
        self.0.send(envelope(0, message)).await.is_ok()
    }

    /// Waits until nobody is there any more.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }

    /// Ends the stream.
    pub(super) async fn end(self, result: Result<(), Fault>) {
        let last = match result {
            Ok(()) => json!({}),
            Err(fault) => json!({ "error": fault }),
        };
        let _ = self.0.send(envelope(END, &last)).await;
    }
}

fn envelope(mark: u8, message: &Value) -> Bytes {
    let text = message.to_string();
    let mut bytes = vec![mark];
    bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(text.into_bytes());
    bytes.into()
}
