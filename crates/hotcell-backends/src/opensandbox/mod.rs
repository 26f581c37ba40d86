//! Sandboxes of an OpenSandbox server.
//!
//! ```text
//! OpenSandboxBackend ──create(plan)──▶ lower ──▶ lifecycle API ──▶ sandbox ══execd══ Link ──▶ RemoteSandbox
//! ```
//!
//! The `execd` in the sandbox runs commands and carries files. Its own streams lose bytes, so the output of commands is kept in files
//! of the sandbox and read from there; `terminal.rs` says how the end of a terminal is not lost.

mod lower;
mod probe;
mod sandbox;
mod terminal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{CreateError, Sandbox, SandboxBackend, SandboxId};
use hotcell_core::capability::Capabilities;
use hotcell_core::plan::Plan;
use hotcell_core::policy::{Endpoints, RemotePolicy};
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_remote::http::{CallError, Server};
use hotcell_remote::opensandbox::{Client, Filter, Sandbox as Listed, Via};

pub use lower::DEFAULT_IMAGE;

use crate::owner::Owner;
use crate::remote::{self, Found, Pruned, RemoteError};

/// The backend, with a server that answered.
#[derive(Debug)]
pub struct OpenSandboxBackend {
    shared: Arc<Shared>,
}

/// What boxes that are being made need.
#[derive(Debug)]
struct Shared {
    client: Client,
    /// The same server, for errors that its client does not know of.
    server: Server,
    via: Via,
    owner: Owner,
}

impl OpenSandboxBackend {
    /// Asks the server for this machine's sandboxes, which proves that it is there and takes the key. What processes that are gone
    /// have left there is removed in the background.
    pub async fn start(remote: &RemotePolicy) -> Result<Self, RemoteError> {
        let (client, server) = connect(remote)?;
        let owner = Owner::current().map_err(RemoteError::NoOwner)?;
        let listed = first_list(&client).await?;
        let pruner = client.clone();
        tokio::spawn(async move {
            // Nobody waits for it, and the next start tries again.
            let _ = prune(&pruner, listed, false).await;
        });
        let via = match remote.endpoints {
            Endpoints::Direct => Via::Direct,
            Endpoints::Proxy => Via::ServerProxy,
        };
        Ok(Self { shared: Arc::new(Shared { client, server, via, owner }) })
    }

    /// What sandboxes of such a server can hold, whoever's it is.
    pub fn capabilities() -> Capabilities {
        probe::capabilities()
    }

    /// Removes the sandboxes that processes of this machine left there, or only finds them; nothing else is touched.
    pub async fn prune(remote: &RemotePolicy, only_look: bool) -> Result<Pruned, RemoteError> {
        let (client, _) = connect(remote)?;
        let listed = first_list(&client).await?;
        Ok(prune(&client, listed, only_look).await)
    }
}

fn connect(remote: &RemotePolicy) -> Result<(Client, Server), RemoteError> {
    let address = remote::address(remote, RuntimeKind::Opensandbox)?;
    let server = Server::new("OpenSandbox", address.clone())?;
    Ok((Client::new(address, remote.api_key.as_ref())?, server))
}

/// The first call: the sandboxes that this machine has there.
async fn first_list(client: &Client) -> Result<Vec<Listed>, RemoteError> {
    let metadata = BTreeMap::from([(remote::HOST.to_owned(), remote::host_name())]);
    let filter = Filter { metadata, ..Filter::default() };
    let patience = remote::patience(client.address());
    let server = format!("OpenSandbox at {}", client.address());
    // Of its own as well: a server that is busy is then told apart from one that is silent.
    remote::first_call(server, patience, client.clone().within(patience).list(&filter)).await
}

async fn prune(client: &Client, listed: Vec<Listed>, only_look: bool) -> Pruned {
    let found = listed.into_iter().map(|sandbox| Found { id: sandbox.id, labels: sandbox.metadata });
    let delete = |id: String| async move { client.delete(&id).await };
    remote::prune(found.collect(), only_look, delete).await
}

/// Removes what a call that broke off may have made.
async fn remove_by_name(client: &Client, owner: &Owner, id: &SandboxId) -> Result<(), CallError> {
    let own = remote::labels(owner, id);
    let metadata = BTreeMap::from([(remote::BOX.to_owned(), id.to_string())]);
    let filter = Filter { metadata, ..Filter::default() };
    for sandbox in client.list(&filter).await? {
        // Servers that do not know the filter answer with everybody's, and another machine may have a box of that name.
        if own.iter().all(|(name, value)| sandbox.metadata.get(name) == Some(value)) {
            client.delete(&sandbox.id).await?;
        }
    }
    Ok(())
}

#[async_trait]
impl SandboxBackend for OpenSandboxBackend {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Opensandbox
    }

    fn isolation(&self) -> Isolation {
        Isolation::Remote
    }

    async fn probe(&self) -> Capabilities {
        Self::capabilities()
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        sandbox::create(Arc::clone(&self.shared), plan.clone()).await
    }
}
