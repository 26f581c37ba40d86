//! Sandboxes of E2B, and of what speaks its API: Tencent's CubeSandbox is a preset.
//!
//! ```text
//! E2bBackend ──create(plan)──▶ lower ──▶ control plane ──▶ sandbox ══envd══ Link ──▶ RemoteSandbox
//! ```
//!
//! Commands, input, terminals and files go through the `envd` in the sandbox, byte for byte. How large a sandbox is, its template
//! decides; limits that are asked for are compared with that.

mod lower;
mod probe;
mod sandbox;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{CreateError, Sandbox, SandboxBackend};
use hotcell_core::capability::Capabilities;
use hotcell_core::plan::Plan;
use hotcell_core::policy::RemotePolicy;
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_remote::e2b::{Client, Filter};
use hotcell_remote::http::{CallError, Server};

use crate::owner::Owner;
use crate::remote::{self, Found, Pruned, RemoteError};

/// How many sandboxes are looked through for leftovers.
const MOST_LISTED: usize = 1000;

/// The backend, with a server that answered.
#[derive(Debug)]
pub struct E2bBackend {
    shared: Arc<Shared>,
}

/// What boxes that are being made need.
#[derive(Debug)]
struct Shared {
    kind: RuntimeKind,
    client: Client,
    /// The same server, for errors that its client does not know of.
    server: Server,
    owner: Owner,
}

impl E2bBackend {
    /// Asks the server for its sandboxes, which proves that it is there and takes the key. What processes of this machine that are
    /// gone have left there is removed in the background.
    pub async fn start(kind: RuntimeKind, remote: &RemotePolicy) -> Result<Self, RemoteError> {
        let client = lower::client(kind, remote)?;
        let owner = Owner::current().map_err(RemoteError::NoOwner)?;
        let patience = remote::patience(client.address());
        let asked = client.clone().within(patience);
        let server = format!("{kind} at {}", client.address());
        remote::first_call(server, patience, asked.list(&Filter::new(1))).await?;
        let own = lower::server(kind, remote)?;
        let pruner = client.clone();
        tokio::spawn(async move {
            // Nobody waits for it, and the next start tries again.
            let _ = prune(&pruner, false).await;
        });
        Ok(Self { shared: Arc::new(Shared { kind, client, server: own, owner }) })
    }

    /// What sandboxes of such a server can hold, whoever's it is.
    pub fn capabilities(kind: RuntimeKind) -> Capabilities {
        probe::capabilities(kind)
    }

    /// Removes the sandboxes that processes of this machine left there, or only finds them; nothing else is touched.
    pub async fn prune(kind: RuntimeKind, remote: &RemotePolicy, only_look: bool) -> Result<Pruned, RemoteError> {
        let client = lower::client(kind, remote)?;
        let patience = remote::patience(client.address());
        let server = format!("{kind} at {}", client.address());
        let client = client.within(patience);
        remote::first_call(server, patience, client.list(&Filter::new(1))).await?;
        Ok(prune(&client, only_look).await?)
    }
}

async fn prune(client: &Client, only_look: bool) -> Result<Pruned, CallError> {
    let mut filter = Filter::new(MOST_LISTED);
    filter.metadata = BTreeMap::from([(remote::HOST.to_owned(), remote::host_name())]);
    let listed = client.list(&filter).await?;
    let ids: BTreeMap<String, _> = listed.iter().map(|sandbox| (sandbox.id.to_string(), sandbox.id.clone())).collect();
    let found = listed.into_iter().map(|sandbox| Found { id: sandbox.id.to_string(), labels: sandbox.metadata });
    let delete = |id: String| {
        let id = ids.get(&id).cloned();
        async move {
            match id {
                Some(id) => client.delete(&id).await,
                None => Ok(()),
            }
        }
    };
    Ok(remote::prune(found.collect(), only_look, delete).await)
}

#[async_trait]
impl SandboxBackend for E2bBackend {
    fn kind(&self) -> RuntimeKind {
        self.shared.kind
    }

    fn isolation(&self) -> Isolation {
        Isolation::Remote
    }

    async fn probe(&self) -> Capabilities {
        Self::capabilities(self.shared.kind)
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        sandbox::create(Arc::clone(&self.shared), plan.clone()).await
    }
}
