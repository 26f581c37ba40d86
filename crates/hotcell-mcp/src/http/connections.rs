//! Connections: who has one, and how long they may take.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::lobby::{Lobby, Visitor};
use super::requests::Requests;
use super::stalls::Stalls;

/// The most bytes of a request's head.
const LONGEST_HEAD: usize = 64 << 10;
/// How long a client may go on sending what nobody wants any more.
const LINGER: Duration = Duration::from_secs(2);
/// How long to wait when the system gives no more connections.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Connections {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) patience: Duration,
    pub(super) lobby: Lobby,
}

impl Connections {
    /// Accepts and serves, for ever. Dropping this ends all connections.
    pub(super) async fn accept(&self, requests: &Arc<Requests>) {
        let mut open = JoinSet::new();
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            while open.try_join_next().is_some() {}
            let Ok(visitor) = self.lobby.enter().await else { return };
            let (tls, patience, requests) = (self.tls.clone(), self.patience, Arc::clone(requests));
            open.spawn(async move {
                tokio::select! {
                    // In this order: who is sent away while its token waits to be read is a client.
                    biased;
                    () = connect(stream, tls, patience, requests, &visitor) => {}
                    () = visitor.overstays() => {}
                }
            });
        }
    }
}

async fn connect(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    patience: Duration,
    requests: Arc<Requests>,
    visitor: &Visitor,
) {
    let _ = stream.set_nodelay(true);
    let stream = Stalls::new(stream, patience);
    match tls {
        None => talk(stream, patience, requests, visitor).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                talk(stream, patience, requests, visitor).await;
            }
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    patience: Duration,
    requests: Arc<Requests>,
    visitor: &Visitor,
) {
    let service = service_fn(move |request| {
        let requests = Arc::clone(&requests);
        async move { Ok::<_, Infallible>(requests.answer(request, visitor).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        .max_header_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // How a connection failed is between it and its client.
    if let Ok(parts) = connection.without_shutdown().await {
        linger(parts.io.into_inner()).await;
    }
}

/// Closes, and hears out a client that is still sending: to close before all was read would take the answer from it.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
}
