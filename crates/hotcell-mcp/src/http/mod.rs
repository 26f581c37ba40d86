//! The protocol over HTTP, as its streamable transport.
//!
//! ```text
//! connection ─▶ lobby: a place ─▶ guard: Host, Origin, token, type ─▶ body: capped, timed ─▶ seats: whose session ─▶ rmcp ─▶ Server
//! ```
//!
//! rmcp speaks the transport; who may speak, how much and for how long is decided here, before it sees a request. Only versions of
//! the protocol that have sessions are spoken: a box belongs to one, and later versions have nothing that it could belong to.

mod connections;
mod guard;
mod lobby;
mod names;
mod requests;
mod seats;
mod stalls;
mod tls;
mod tokens;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Host;
use guard::Guard;
use lobby::Lobby;
use names::Names;
use requests::Requests;
pub use seats::SessionLimits;
pub(crate) use seats::{Busy, Seat};
pub use tls::{Tls, TlsError};
pub use tokens::{TokenError, Tokens};

/// How a server is reached, and by whom.
#[derive(Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Who may connect.
    pub tokens: Tokens,
    /// Further names that the server is called by, such as `box.example` with any port, or `box.example:8443` with that one.
    pub names: Vec<String>,
    /// The origins whose pages may call it.
    pub origins: Vec<String>,
    /// Its certificate.
    pub tls: Option<Tls>,
    /// Whether other machines may reach it without TLS.
    pub insecure: bool,
    /// How many sessions, and how long.
    pub sessions: SessionLimits,
    /// The most bytes of a request's body.
    pub longest_body: usize,
    /// How long a client may take for the head of a request, again for its body, and for taking some of an answer.
    pub patience: Duration,
    /// The most connections at the same time of clients that have shown a token.
    pub connections: usize,
    /// The most connections beside those, on which no token was shown yet. One that is too many takes the place of the oldest.
    pub strangers: usize,
    /// How long a connection may be one of those.
    pub introduction: Duration,
}

impl HttpOptions {
    /// For clients that have one of these tokens.
    pub fn new(tokens: Tokens) -> Self {
        Self {
            tokens,
            names: Vec::new(),
            origins: Vec::new(),
            tls: None,
            insecure: false,
            sessions: SessionLimits::default(),
            longest_body: 8 << 20,
            patience: Duration::from_secs(30),
            connections: 256,
            strangers: 64,
            introduction: Duration::from_secs(5),
        }
    }

    /// Whether a server at this address may be like this.
    pub fn check(&self, address: SocketAddr) -> Result<(), HttpError> {
        if !address.ip().is_loopback() && self.tls.is_none() && !self.insecure {
            return Err(HttpError::Public(address));
        }
        Names::new(address, &self.names, self.tls.is_some()).map_err(HttpError::Name)?;
        match self.origins.iter().find(|origin| !is_origin(origin)) {
            Some(origin) => Err(HttpError::Origin(origin.clone())),
            None => Ok(()),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// It could not listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Tokens, files and code would cross a network in the clear.
    #[error("{0} can be reached from other machines, and tokens and files would cross the network in the clear")]
    Public(SocketAddr),
    /// A name that no client could call the server by.
    #[error("`{0}` is no name of a server; write it as box.example, box.example:8443 or [2001:db8::1]")]
    Name(String),
    /// An origin that no browser sends.
    #[error("`{0}` is no origin; write it as https://app.example or http://localhost:3000")]
    Origin(String),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    names: Names,
    options: HttpOptions,
}

impl HttpServer {
    /// Listens.
    pub async fn bind(address: SocketAddr, options: HttpOptions) -> Result<Self, HttpError> {
        options.check(address)?;
        let failed = |source| HttpError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let names = Names::new(address, &options.names, options.tls.is_some()).map_err(HttpError::Name)?;
        Ok(Self { listener, address, names, options })
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.address, guard::PATH)
    }

    /// Serves until `stop` is cancelled, and then removes every box.
    pub async fn serve(self, host: Arc<Host>, stop: CancellationToken) {
        let Self { listener, names, options, .. } = self;
        let guard = Guard::new(options.tokens, names, &options.origins);
        let requests =
            Arc::new(Requests::new(host, guard, options.sessions, options.longest_body, options.patience, &stop));
        let connections = connections::Connections {
            listener,
            tls: options.tls.map(|tls| tls.acceptor()),
            patience: options.patience,
            lobby: Lobby::new(options.strangers, options.connections, options.introduction),
        };
        tokio::select! {
            () = connections.accept(&requests) => {}
            () = requests.end_sessions() => {}
            () = stop.cancelled() => {}
        }
        requests.close().await;
    }
}

/// Whether this is what a browser puts into `Origin`: a scheme and a host, perhaps a port, and nothing after them.
fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    matches!(scheme, "http" | "https")
        && !rest.is_empty()
        && !rest.contains(['/', '?', '#', '@', '*', ' '])
        && rest.parse::<http::uri::Authority>().is_ok()
}
