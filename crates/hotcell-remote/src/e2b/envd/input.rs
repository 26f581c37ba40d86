//! Input as one stream.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde_json::{Value, json};

use super::super::connect::{Method, enclosed, send};
use super::process::SERVICE;
use super::{Envd, Selector};
use crate::http::{Body, CallError};

/// Where input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// To the standard input.
    Stdin,
    /// To the terminal.
    Terminal,
}

impl Input {
    pub(super) fn request(self, base64: &str) -> Value {
        match self {
            Self::Stdin => json!({ "stdin": base64 }),
            Self::Terminal => json!({ "pty": base64 }),
        }
    }
}

/// How long input may come.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 60 * 60);

impl Envd {
    /// Writes what a stream brings to a command, in order and in one call; done when all of it has been taken. The standard
    /// input stays open.
    pub async fn stream_input<S>(&self, which: &Selector, input: Input, pieces: S) -> Result<(), CallError>
    where
        S: Stream<Item = Bytes> + Send + 'static,
    {
        let start = json!({ "start": { "process": which.request() } });
        let start = futures_util::stream::once(async move { start });
        let data = pieces.map(move |piece| json!({ "data": { "input": input.request(&STANDARD.encode(piece)) } }));
        let messages = start.chain(data).map(|message| {
            let message = serde_json::to_vec(&message).map_err(std::io::Error::other)?;
            enclosed(&message).ok_or_else(|| std::io::Error::other("a piece of input is too long"))
        });
        let method =
            Method { operation: "write to the command", service: SERVICE, name: "StreamInput", repeatable: false };
        send(&self.server_for(None)?, method, Body::stream(messages, None), PATIENCE).await
    }
}
