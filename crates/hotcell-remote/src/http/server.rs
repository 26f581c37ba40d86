//! A server: its address, what it is told on every call, and the connections to it.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hotcell_core::secret::Secret;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::call::Call;
use super::error::{CallError, Why};
use super::{Address, TlsError, tls};
use crate::random::unique;

/// How long it may take to be connected, name lookup and encryption included.
const CONNECTING: Duration = Duration::from_secs(10);

/// How long a call may take unless somebody says otherwise.
const DEADLINE: Duration = Duration::from_secs(30);

/// The shortest key that is looked for in what a server says.
const SHORTEST_KEY: usize = 4;

/// A server. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Server {
    product: &'static str,
    address: Address,
    headers: HeaderMap,
    deadline: Duration,
    clients: Arc<Clients>,
}

/// Connections, kept open between calls.
#[derive(Default)]
struct Clients {
    plain: OnceLock<Result<reqwest::Client, TlsError>>,
    secure: OnceLock<Result<reqwest::Client, TlsError>>,
}

impl Server {
    /// The server of this product at this address. Fails only where https is asked for and cannot be verified.
    pub fn new(product: &'static str, address: Address) -> Result<Self, TlsError> {
        let (headers, deadline, clients) = (HeaderMap::new(), DEADLINE, Arc::default());
        let server = Self { product, address, headers, deadline, clients };
        server.client()?;
        Ok(server)
    }

    /// Another address of the same product, with the same connections. Nothing that this one is told is told there.
    pub fn elsewhere(&self, address: Address) -> Result<Self, TlsError> {
        let (headers, clients) = (HeaderMap::new(), Arc::clone(&self.clients));
        let server = Self { product: self.product, address, headers, deadline: DEADLINE, clients };
        server.client()?;
        Ok(server)
    }

    /// The same, with this much time for each call that does not say otherwise.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Tells this with every call.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, CallError> {
        let (name, value) = self.checked(name, value)?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Tells this with every call, and shows it nowhere.
    pub fn secret_header(mut self, name: &str, value: &Secret<String>) -> Result<Self, CallError> {
        let (name, mut value) = self.checked(name, value.expose())?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    fn checked(&self, name: &str, value: &str) -> Result<(HeaderName, HeaderValue), CallError> {
        let bad = |what: &str| self.failed("talk to the server", Why::Impossible { reason: what.to_owned() });
        let name = HeaderName::try_from(name).map_err(|_| bad("a header's name has characters that none can have"))?;
        let value = HeaderValue::try_from(value)
            .map_err(|_| bad("a key or a header's value has characters that none can have"))?;
        Ok((name, value))
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What is told with every call, for those that are not made here.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// A call that changes nothing.
    pub fn get(&self, operation: &'static str, path: &[&str]) -> Call {
        self.call(operation, Method::GET, path)
    }

    /// A call.
    pub fn post(&self, operation: &'static str, path: &[&str]) -> Call {
        self.call(operation, Method::POST, path)
    }

    /// A call that removes something.
    pub fn delete(&self, operation: &'static str, path: &[&str]) -> Call {
        self.call(operation, Method::DELETE, path)
    }

    /// A call with any method. `operation` says what it is for, as a verb.
    pub fn call(&self, operation: &'static str, method: Method, path: &[&str]) -> Call {
        Call::new(self.clone(), operation, method, self.address.join(path))
    }

    /// A failure of a call to this server. What the server says may repeat a key that it was told; the failure does not.
    pub fn failed(&self, operation: &'static str, why: Why) -> CallError {
        CallError { operation, server: self.to_string(), why: why.mapped(|text| self.without_keys(text)) }
    }

    /// A text without the keys that are told to this server.
    pub(super) fn without_keys(&self, text: String) -> String {
        let keys = self.headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        // Anything shorter is in every sentence, and no key.
        keys.filter(|key| key.len() >= SHORTEST_KEY).fold(text, |text, key| text.replace(key, "…"))
    }

    /// A word that nobody else has, for this call.
    pub(crate) fn unique(&self, operation: &'static str) -> Result<String, CallError> {
        let reason = || "the system has no randomness".to_owned();
        unique().ok_or_else(|| self.failed(operation, Why::Impossible { reason: reason() }))
    }

    pub(super) fn client(&self) -> Result<&reqwest::Client, TlsError> {
        let made = if self.address.is_plain() {
            // A proxy between would read everything.
            self.clients.plain.get_or_init(|| client(tls::none()?, true))
        } else {
            self.clients.secure.get_or_init(|| client((*tls::config()?).clone(), false))
        };
        made.as_ref().map_err(Clone::clone)
    }
}

fn client(tls: rustls::ClientConfig, without_proxy: bool) -> Result<reqwest::Client, TlsError> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECTING)
        .tcp_nodelay(true)
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
    let builder = if without_proxy { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| TlsError { reason: error.to_string() })
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.product, self.address)
    }
}

impl fmt::Debug for Server {
    /// Names of headers only: some values are keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Server")
            .field("product", &self.product)
            .field("address", &self.address)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
