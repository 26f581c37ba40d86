//! Connections: how many there are, and how long they may take.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::requests::Requests;

/// The most bytes of a request's head.
const LONGEST_HEAD: usize = 64 << 10;
/// How long to wait when the system gives no more connections.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Connections {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) patience: Duration,
    pub(super) most: usize,
}

impl Connections {
    /// Accepts and serves, for ever. Dropping this ends all connections.
    pub(super) async fn accept(&self, requests: &Arc<Requests>) {
        let free = Arc::new(Semaphore::new(self.most));
        let mut open = JoinSet::new();
        loop {
            // Those that come when there is no room wait in the kernel's queue.
            let Ok(permit) = Arc::clone(&free).acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            while open.try_join_next().is_some() {}
            let (tls, patience, requests) = (self.tls.clone(), self.patience, Arc::clone(requests));
            open.spawn(async move {
                connect(stream, tls, patience, requests).await;
                drop(permit);
            });
        }
    }
}

async fn connect(stream: TcpStream, tls: Option<TlsAcceptor>, patience: Duration, requests: Arc<Requests>) {
    let _ = stream.set_nodelay(true);
    match tls {
        None => talk(stream, patience, requests).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(patience, tls.accept(stream)).await {
                talk(stream, patience, requests).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, patience: Duration, requests: Arc<Requests>) {
    let service = service_fn(move |request| {
        let requests = Arc::clone(&requests);
        async move { Ok::<_, Infallible>(requests.answer(request).await) }
    });
    // How a connection ended is between it and its client.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
