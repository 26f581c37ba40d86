//! WebSockets with the rules of [`crate::http`]: the server's headers stay with the server, https is verified, connecting has
//! a deadline and messages a largest size.
//!
//! They are made without a proxy, whatever the environment says.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use crate::http::{CallError, Server, Why, tls};

/// The most that is repeated of what a server says instead of opening a WebSocket.
const MOST_REPEATED: usize = 500;

/// How large messages may be, and how long connecting may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) message: usize,
    pub(crate) deadline: Duration,
}

/// A message.
#[derive(Debug)]
pub(crate) enum Message {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// The other side is done.
    Closed {
        code: Option<u16>,
    },
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

type Socket = WebSocketStream<Box<dyn Connection>>;

/// The half that sends.
pub(crate) struct Sender {
    server: Server,
    operation: &'static str,
    sink: SplitSink<Socket, tungstenite::Message>,
}

/// The half that receives. Answers pings by itself, while it is waited on.
pub(crate) struct Receiver {
    server: Server,
    operation: &'static str,
    stream: SplitStream<Socket>,
}

/// Opens a WebSocket.
pub(crate) async fn connect(
    server: &Server,
    operation: &'static str,
    path: &[&str],
    query: &[(&str, &str)],
    limits: Limits,
) -> Result<(Sender, Receiver), CallError> {
    let opening = tokio::time::timeout(limits.deadline, open(server, path, query, limits));
    let opened = opening.await.unwrap_or(Err(Why::TooSlow { waited: limits.deadline }));
    let (sink, stream) = opened.map_err(|why| server.failed(operation, why))?.split();
    Ok((Sender { server: server.clone(), operation, sink }, Receiver { server: server.clone(), operation, stream }))
}

async fn open(server: &Server, path: &[&str], query: &[(&str, &str)], limits: Limits) -> Result<Socket, Why> {
    let address = server.address();
    let mut url = address.join(path);
    url.query_pairs_mut().extend_pairs(query);
    // `http` becomes `ws`, and `https` becomes `wss`.
    let uri = format!("ws{}", url.as_str().trim_start_matches("http"));
    let mut request = uri.into_client_request().map_err(|error| Why::Impossible { reason: error.to_string() })?;
    request.headers_mut().extend(server.headers().clone());

    let unreachable = |error: std::io::Error| Why::Unreachable { reason: error.to_string() };
    let host = address.host().trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, address.port())).await.map_err(unreachable)?;
    tcp.set_nodelay(true).map_err(unreachable)?;
    let connection: Box<dyn Connection> = if address.is_plain() {
        Box::new(tcp)
    } else {
        let config = tls::config().map_err(|error| Why::Impossible { reason: error.to_string() })?;
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| Why::Impossible { reason: error.to_string() })?;
        Box::new(TlsConnector::from(config).connect(name, tcp).await.map_err(unreachable)?)
    };
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(limits.message);
    config.max_frame_size = Some(limits.message);
    // What waits to be sent is bounded as well: a server that does not read makes the sender wait.
    config.write_buffer_size = 0;
    config.max_write_buffer_size = 1 << 20;
    let opened = tokio_tungstenite::client_async_with_config(request, connection, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(|error| why(error, limits))
}

impl Sender {
    /// Sends a message. Not cancel-safe: a message may have been sent in part, and the rest follows with the next.
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), CallError> {
        let message = match message {
            Message::Text(text) => tungstenite::Message::Text(text),
            Message::Binary(bytes) => tungstenite::Message::Binary(bytes),
            Message::Closed { .. } => tungstenite::Message::Close(None),
        };
        self.sink.send(message).await.map_err(|error| self.failed(broken(&error)))
    }

    /// Says that this side is done.
    pub(crate) async fn close(&mut self) -> Result<(), CallError> {
        match self.sink.close().await {
            Ok(()) | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => Ok(()),
            Err(error) => Err(self.failed(broken(&error))),
        }
    }

    pub(crate) fn failed(&self, why: Why) -> CallError {
        self.server.failed(self.operation, why)
    }
}

impl Receiver {
    /// The next message. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Message, CallError> {
        loop {
            return match self.stream.next().await {
                Some(Ok(tungstenite::Message::Text(text))) => Ok(Message::Text(text)),
                Some(Ok(tungstenite::Message::Binary(bytes))) => Ok(Message::Binary(bytes)),
                Some(Ok(tungstenite::Message::Close(frame))) => {
                    Ok(Message::Closed { code: frame.map(|frame| u16::from(frame.code)) })
                }
                // A ping, which is seldom, unless somebody wants to keep this busy.
                Some(Ok(_)) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Some(Err(error)) => Err(self.server.failed(self.operation, broken(&error))),
                None => Ok(Message::Closed { code: None }),
            };
        }
    }
}

/// Why a WebSocket was not opened.
fn why(error: tungstenite::Error, limits: Limits) -> Why {
    match error {
        tungstenite::Error::Http(response) => {
            let status = response.status();
            if status.is_redirection() {
                let to = response.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
                let to = to.split(['?', '#']).next().unwrap_or_default().chars().take(MOST_REPEATED).collect();
                return Why::Redirected { to };
            }
            let message = response.body().as_deref().map(message).unwrap_or_default();
            Why::Answered { status: status.as_u16(), message, retry_after: None }
        }
        tungstenite::Error::Capacity(_) => Why::TooLarge { limit: limits.message as u64 },
        tungstenite::Error::Protocol(error) => Why::Garbled { what: error.to_string() },
        error => broken(&error),
    }
}

/// Why a WebSocket ended.
fn broken(error: &tungstenite::Error) -> Why {
    match error {
        tungstenite::Error::Capacity(tungstenite::error::CapacityError::MessageTooLong { max_size, .. }) => {
            Why::TooLarge { limit: *max_size as u64 }
        }
        tungstenite::Error::Utf8(_) => Why::Garbled { what: "a text is no UTF-8".to_owned() },
        tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Why::Broken { reason: error.to_string() }
        }
        tungstenite::Error::Protocol(error) => Why::Garbled { what: error.to_string() },
        error => Why::Broken { reason: error.to_string() },
    }
}

fn message(body: &[u8]) -> String {
    let said: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let said = said.as_ref().and_then(|said| said.get("message")).and_then(|message| message.as_str());
    let text = said.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    text.chars().take(MOST_REPEATED).collect()
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("server", &self.server).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("server", &self.server).finish_non_exhaustive()
    }
}
