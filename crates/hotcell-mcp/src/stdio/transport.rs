//! Messages on lines, in rmcp's terms.
//!
//! rmcp has such a transport. This one answers what is no message with the error that JSON-RPC has for it, reads a last line that
//! has no end, and does not end for a message that came too early.

use std::io;
use std::sync::Arc;

use rmcp::model::{ClientRequest, ErrorData, GetMeta, ProtocolVersion};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use serde_json::error::Category;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

use super::lines::{Line, Lines};

/// The longest line that a client may send.
pub const LONGEST_LINE: usize = 8 << 20;

type Incoming = RxJsonRpcMessage<RoleServer>;
type Outgoing = TxJsonRpcMessage<RoleServer>;

/// Messages on two streams of bytes.
pub(super) struct LineTransport<R, W> {
    lines: Lines<R>,
    output: Arc<Mutex<W>>,
    /// Whether the conversation has begun.
    begun: bool,
    /// What has to be said before the next line is read.
    reply: Option<Outgoing>,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(input: R, output: W) -> Self {
        Self { lines: Lines::new(input, LONGEST_LINE), output: Arc::new(Mutex::new(output)), begun: false, reply: None }
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: Outgoing) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { write(&output, &message).await }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            if let Some(reply) = self.reply.take() {
                // In a task of its own: this future may be dropped at any point, and half a line must not be written.
                let output = Arc::clone(&self.output);
                tokio::spawn(async move { write(&output, &reply).await }).await.ok()?.ok()?;
            }
            match understand(self.lines.next().await.ok()??) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    self.begun |= begins(&message);
                    // Nothing can be meant by an answer or a notification before that, and rmcp would end there.
                    if self.begun || matches!(message, Incoming::Request(_)) {
                        return Some(message);
                    }
                }
                Err(error) => self.reply = Some(Outgoing::error(error, None)),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.flush().await
    }
}

/// Whether rmcp takes this as the beginning of a conversation: a greeting, or a request that says all that a greeting would.
fn begins(message: &Incoming) -> bool {
    let Incoming::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let known = |version| ProtocolVersion::KNOWN_VERSIONS.contains(&version);
            meta.missing_required_keys(&ProtocolVersion::NO_INITIALIZE).is_empty()
                && meta.protocol_version().is_some_and(known)
        }
    }
}

/// The message on a line; none on an empty one.
fn understand(line: Line) -> Result<Option<Incoming>, ErrorData> {
    let Line::Whole(line) = line else {
        return Err(ErrorData::invalid_request(format!("a message may have {LONGEST_LINE} bytes"), None));
    };
    let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
    if text.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(text).map(Some).map_err(|error| match error.classify() {
        Category::Syntax | Category::Eof => ErrorData::parse_error("this is not JSON", None),
        // rmcp's types are tried one after the other, so this says nothing about what is wrong; whether it is JSON at all is
        // found out again.
        Category::Data | Category::Io => match serde_json::from_slice::<Value>(text) {
            Ok(_) => ErrorData::invalid_request("this is no message of the protocol", None),
            Err(_) => ErrorData::parse_error("this is not JSON", None),
        },
    })
}

/// Writes a message as one line, at once.
async fn write<W: AsyncWrite + Unpin>(output: &Mutex<W>, message: &Outgoing) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}
