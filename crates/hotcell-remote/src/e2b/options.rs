//! Where the servers are, and what they are.

use std::time::Duration;

use hotcell_core::secret::Secret;

use crate::http::Address;

/// How often `envd` is asked to say that a silent stream is still alive.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Which server speaks the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Flavour {
    /// E2B, and whatever is the same.
    #[default]
    E2b,
    /// Tencent's CubeSandbox, which has a part of it.
    Cube,
}

impl Flavour {
    pub(super) fn product(self) -> &'static str {
        match self {
            Self::E2b => "E2B",
            Self::Cube => "CubeSandbox",
        }
    }
}

/// Where sandboxes are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data {
    /// Each port of each sandbox has a name of its own, `<port>-<id>.<domain>`. A sandbox may name another domain when it
    /// is created. `host`, `host:port`, or with `https://` or `http://` in front where the API's own scheme is not meant.
    Domain(String),
    /// One address for all; headers say which sandbox and which port.
    Url(Address),
}

/// Options of a [`Client`](super::Client).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The control plane.
    pub api: Address,
    /// Sent to the control plane alone (and to CubeSandbox's proxy at the configured address, which asks for it too).
    pub api_key: Option<Secret<String>>,
    /// Where sandboxes are reached.
    pub data: Data,
    /// Which server it is.
    pub flavour: Flavour,
    /// How often a stream that has nothing to say says so. When one is silent for three times as long, the sandbox is asked
    /// whether the command still runs.
    pub keepalive: Duration,
}

impl Options {
    /// No key, E2B itself.
    pub fn new(api: Address, data: Data) -> Self {
        Self { api, api_key: None, data, flavour: Flavour::default(), keepalive: KEEPALIVE }
    }
}
