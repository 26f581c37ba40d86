//! Where something in a sandbox is reached.

use std::collections::BTreeMap;

use hotcell_core::secret::Secret;

use super::super::http::Address;

/// How something in a sandbox is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// At an address of its own. The key of the server is never sent there: the sandbox could read it.
    #[default]
    Direct,
    /// Through the server, for where sandboxes cannot be reached themselves. The server wants its key.
    ServerProxy,
}

/// Where something in a sandbox is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// What must be told with every call. Some are keys to this endpoint.
    pub headers: BTreeMap<String, Secret<String>>,
    /// How it is reached.
    pub via: Via,
}

impl Endpoint {
    /// An endpoint that wants to be told nothing.
    pub fn new(address: Address) -> Self {
        Self { address, headers: BTreeMap::new(), via: Via::Direct }
    }
}
