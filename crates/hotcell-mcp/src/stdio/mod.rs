//! The protocol on two streams of bytes: one message per line.
//!
//! Everything that is written is a message of the protocol, serialised as one line of JSON; a line end in what a guest printed is
//! `\n` inside a string there. So nothing that a guest says can begin a message of its own.

mod lines;
mod transport;

use std::sync::Arc;

use rmcp::service::{QuitReason, ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::{Host, Server};
pub use transport::LONGEST_LINE;
use transport::LineTransport;

/// A connection that could not be served to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The client did not get as far as using the connection.
    #[error("the client could not be greeted: {0}")]
    Greeting(#[source] Box<ServerInitializeError>),
    /// A part of the server failed.
    #[error("the server failed: {0}")]
    Failed(#[source] tokio::task::JoinError),
}

/// The standard streams of this process, without a thread in between where they are pipes.
pub fn streams() -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
    rmcp::transport::stdio_pipes()
}

/// Serves one client until its input ends or `stop` is cancelled, and then removes its box.
pub async fn serve<R, W>(host: Arc<Host>, input: R, output: W, stop: CancellationToken) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(host);
    let served = run(server.clone(), LineTransport::new(input, output), stop).await;
    server.close().await;
    served
}

async fn run<R, W>(server: Server, transport: LineTransport<R, W>, stop: CancellationToken) -> Result<(), StdioError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let running = match serve_server_with_ct(server, transport, stop).await {
        Ok(running) => running,
        // A client that leaves before it said anything is no error, nor is being told to stop.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(StdioError::Greeting(Box::new(error))),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(StdioError::Failed(error)),
        Ok(_) => Ok(()),
    }
}
