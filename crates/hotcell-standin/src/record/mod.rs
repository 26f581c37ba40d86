//! Writing down what a client and a server say to each other, one file to an exchange.
//!
//! ```text
//! client ──▶ Copier ──▶ server        bytes are passed on as they come
//!              └──▶ Exchange ──▶ 003-post-v1-sandboxes.txt
//! ```
//! [`format`] has the format of the files.

mod format;
mod http;
mod scrub;
mod websocket;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::listen;
use format::{Exchange, Side};
use http::Message;

pub(crate) async fn run(listen: SocketAddr, to: SocketAddr, out: PathBuf, lifeline: bool) -> Result<()> {
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let listener = listen::on_loopback(listen).await?;
    listen::announce(&listener)?;
    let count = Arc::new(AtomicUsize::new(1));
    let accept = async {
        loop {
            let (client, _) = listener.accept().await?;
            let (count, out) = (Arc::clone(&count), out.clone());
            tokio::spawn(async move {
                if let Err(error) = connection(client, to, &out, &count).await {
                    listen::complain(&format!("{error:#}"));
                }
            });
        }
    };
    tokio::select! {
        ended = accept => ended,
        ended = listen::until_told(lifeline) => ended,
    }
}

/// One direction of a connection: reads from one side, and passes everything on to the other.
struct Copier {
    side: Side,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    buffer: Vec<u8>,
}

impl Copier {
    /// Reads more; false at the end.
    async fn more(&mut self) -> Result<bool> {
        let part = self.arrived().await?;
        self.pass(&part).await
    }

    /// What comes next, or nothing at the end. Nothing is lost if this is not waited for.
    async fn arrived(&mut self) -> Result<Vec<u8>> {
        let mut part = vec![0; 16 * 1024];
        let count = self.from.read(&mut part).await?;
        part.truncate(count);
        Ok(part)
    }

    /// Passes on what came; false at the end.
    async fn pass(&mut self, part: &[u8]) -> Result<bool> {
        self.buffer.extend_from_slice(part);
        self.to.write_all(part).await?;
        Ok(!part.is_empty())
    }

    /// Moves a whole message from the buffer, and as much as is needed from the connection, to `exchange`. Nothing if the
    /// connection ended before it began.
    async fn message(&mut self, exchange: &mut Exchange, no_body: bool) -> Result<Option<http::Head>> {
        let mut message = Message::new(no_body);
        loop {
            for piece in message.take(&mut self.buffer)? {
                exchange.add(self.side, &piece);
            }
            if message.is_complete() {
                return Ok(message.into_head());
            }
            if !self.more().await? {
                let began = message.has_begun();
                for piece in message.end(&mut self.buffer) {
                    exchange.add(self.side, &piece);
                }
                return Ok(if began { message.into_head() } else { None });
            }
        }
    }
}

async fn connection(client: TcpStream, server: SocketAddr, out: &Path, count: &AtomicUsize) -> Result<()> {
    let server = TcpStream::connect(server).await.with_context(|| format!("cannot connect to {server}"))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let mut up = Copier { side: Side::Client, from: client_reads, to: server_writes, buffer: Vec::new() };
    let mut down = Copier { side: Side::Server, from: server_reads, to: client_writes, buffer: Vec::new() };
    loop {
        let mut exchange = Exchange::default();
        let Some(request) = up.message(&mut exchange, false).await? else { return Ok(()) };
        let number = count.fetch_add(1, Ordering::Relaxed);
        let is_head = request.line.starts_with("HEAD ");
        let answered = down.message(&mut exchange, is_head).await;
        let switched = matches!(&answered, Ok(Some(answer)) if answer.line.contains(" 101 "));
        if switched {
            websocket::record(&mut up, &mut down, &mut exchange).await;
        }
        exchange.write(&out.join(file_name(number, &request.line)))?;
        if switched || answered?.is_none_or(|answer| answer.closes) {
            return Ok(());
        }
    }
}

/// `003-post-v1-sandboxes.txt`
fn file_name(number: usize, line: &str) -> String {
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default().to_lowercase();
    let path = words.next().unwrap_or_default().split('?').next().unwrap_or_default();
    let is_id = |part: &str| part.len() >= 20 && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let parts = path.split('/').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.map(|part| if is_id(part) { "id" } else { part }).collect();
    let name: String =
        parts.join("-").chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{number:03}-{method}-{name}.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_what_was_asked() {
        let line = "POST /v1/sandboxes/0123456789abcdef0123/pause?x=1 HTTP/1.1";
        assert_eq!(file_name(3, line), "003-post-v1-sandboxes-id-pause.txt");
    }
}
