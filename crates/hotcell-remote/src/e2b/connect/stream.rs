//! Calls with a stream.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::timeout;

use super::Method;
use super::code::last_word;
use super::envelope::{Envelope, Envelopes, enclosed};
use crate::http::{Answer, Body, CallError, Chunks, Server, Why};

const CONTENT: &str = "application/connect+json";

/// How long is waited for the end of a connection whose last message has come, so that it can be used again.
const LINGER: Duration = Duration::from_millis(50);

/// The messages of a stream.
#[derive(Debug)]
pub(in super::super) struct Messages {
    chunks: Chunks,
    envelopes: Envelopes,
    /// How long may pass without a whole message.
    silence: Duration,
    over: bool,
}

/// Asks for a stream of messages. The deadline is for the beginning; then there must not be silence for too long.
pub(in super::super) async fn open<Q: Serialize>(
    server: &Server,
    method: Method,
    request: &Q,
    keepalive: Duration,
    deadline: Duration,
) -> Result<Messages, CallError> {
    let impossible = |reason: &str| server.failed(method.operation, Why::Impossible { reason: reason.to_owned() });
    let message = serde_json::to_vec(request).map_err(|error| impossible(&error.to_string()))?;
    let envelope = enclosed(&message).ok_or_else(|| impossible("it is too long"))?;
    let call = method.call(server).body(CONTENT, Body::Bytes(envelope)).deadline(deadline);
    let answer = call.header("keepalive-ping-interval", &keepalive.as_secs().to_string()).send().await?;
    messages(server, method, answer, keepalive.saturating_mul(3))
}

/// Sends a stream of messages; the one answer says nothing.
pub(in super::super) async fn send(
    server: &Server,
    method: Method,
    body: Body,
    deadline: Duration,
) -> Result<(), CallError> {
    let answer = method.call(server).body(CONTENT, body).deadline(deadline).send().await?;
    let mut messages = messages(server, method, answer, Duration::from_secs(30))?;
    while messages.next().await?.is_some() {}
    Ok(())
}

fn messages(server: &Server, method: Method, answer: Answer, silence: Duration) -> Result<Messages, CallError> {
    let garbled = |what: &str| server.failed(method.operation, Why::Garbled { what: what.to_owned() });
    let content = answer.header("content-type").unwrap_or_default();
    let kind = content.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(CONTENT) {
        return Err(garbled("the answer is no stream of the Connect protocol"));
    }
    if answer.header("connect-content-encoding").is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(garbled("the answer is compressed, which was not asked for"));
    }
    Ok(Messages { chunks: answer.chunks(), envelopes: Envelopes::default(), silence, over: false })
}

impl Messages {
    /// The next message; none once the last one said that all is well. A stream that ends in any other way is an error, and
    /// so is silence, after which it can be asked again. Cancel-safe.
    pub(in super::super) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        if self.over {
            return Ok(None);
        }
        match timeout(self.silence, self.whole()).await {
            Ok(result) => result,
            Err(_) => Err(self.failed(Why::TooSlow { waited: self.silence })),
        }
    }

    async fn whole(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            match self.envelopes.next().map_err(|why| self.failed(why))? {
                Some(Envelope::Message(message)) => return Ok(Some(message)),
                Some(Envelope::Last(message)) => {
                    last_word(&message).map_err(|why| self.failed(why))?;
                    self.over = true;
                    return self.finish().await.map(|()| None);
                }
                None => {}
            }
            match self.chunks.next().await? {
                Some(chunk) => self.envelopes.push(&chunk),
                None if self.envelopes.is_in_the_middle() => {
                    return Err(self.broken("it ended in the middle of a message"));
                }
                None => return Err(self.broken("it ended without a last message")),
            }
        }
    }

    /// Everything has been said; what is left of the connection is worth a moment, and not an error.
    async fn finish(&mut self) -> Result<(), CallError> {
        while let Ok(Ok(Some(chunk))) = timeout(LINGER, self.chunks.next()).await {
            self.envelopes.push(&chunk);
            self.envelopes.next().map_err(|why| self.failed(why))?;
        }
        self.envelopes.next().map(drop).map_err(|why| self.failed(why))
    }

    /// Whether nothing of a next message has come.
    pub(in super::super) fn is_between_messages(&self) -> bool {
        !self.envelopes.is_in_the_middle()
    }

    /// A failure of this call.
    pub(in super::super) fn failed(&self, why: Why) -> CallError {
        self.chunks.failed(why)
    }

    fn broken(&self, reason: &str) -> CallError {
        self.failed(Why::Broken { reason: reason.to_owned() })
    }
}
