//! Execd: the program in each sandbox that runs commands and moves files.

mod background;
mod capabilities;
mod command;
mod exact;
mod files;
mod input;
mod metrics;
mod path;
mod pty;
mod running;
mod session;
mod transfer;

use std::time::Duration;

use hotcell_core::secret::Secret;

use super::super::http::{Address, CallError, Server, Why};
use super::endpoint::Endpoint;
use super::network::NetworkStatus;
use super::wire::PolicyStatus;

pub use background::{Background, CommandStatus, Logs};
pub use capabilities::{Capabilities, Hardening};
pub use command::Command;
pub use exact::{Exact, ExactEvent};
pub use files::{FileInfo, FileKind, Permissions};
pub use input::ExactInput;
pub use metrics::{Metrics, MetricsWatch};
pub use pty::{Attach, NewPty, PtyEvent, PtyInput, PtyMode, PtyOutput, PtySignal, PtyStatus};
pub use running::{Event, Exit, Failure, Running};
pub use session::SessionCommand;
pub use transfer::{Download, Upload};

/// The port on which execd listens in a sandbox.
pub const EXECD_PORT: u16 = 44772;

/// The header that carries a sandbox's own token.
const TOKEN: &str = "x-execd-access-token";

/// How long execd may take to say that it is there.
const PING: Duration = Duration::from_secs(5);

/// The execd of a sandbox. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Execd {
    server: Server,
}

impl Execd {
    /// The execd at an endpoint, without a server around it.
    pub fn new(endpoint: &Endpoint, access_token: Option<&Secret<String>>) -> Result<Self, CallError> {
        let server = Server::new("execd", endpoint.address.clone()).map_err(|error| CallError {
            operation: "reach a sandbox",
            server: format!("execd at {}", endpoint.address),
            why: Why::Impossible { reason: error.to_string() },
        })?;
        Self::at(server, endpoint, access_token)
    }

    pub(super) fn at(
        mut server: Server,
        endpoint: &Endpoint,
        access_token: Option<&Secret<String>>,
    ) -> Result<Self, CallError> {
        for (name, value) in &endpoint.headers {
            server = server.secret_header(name, value)?;
        }
        if let Some(token) = access_token {
            server = server.secret_header(TOKEN, token)?;
        }
        Ok(Self { server })
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        self.server.address()
    }

    /// Asks whether it is there.
    pub async fn ping(&self) -> Result<(), CallError> {
        let call = self.server.get("ask whether the sandbox is there", &["ping"]).deadline(PING).repeatable(false);
        call.send().await?.bytes().await.map(drop)
    }

    /// What answers at this address when it is the sidecar that holds the network.
    pub(super) async fn sidecar_policy(&self) -> Result<NetworkStatus, CallError> {
        let call = self.server.get("look at a sandbox's network policy", &["policy"]);
        Ok(call.send().await?.json::<PolicyStatus>().await?.read())
    }

    fn impossible(&self, operation: &'static str, reason: impl Into<String>) -> CallError {
        self.server.failed(operation, Why::Impossible { reason: reason.into() })
    }

    fn garbled(&self, operation: &'static str, what: impl Into<String>) -> CallError {
        self.server.failed(operation, Why::Garbled { what: what.into() })
    }
}
