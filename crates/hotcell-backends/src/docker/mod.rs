//! Containers through the Docker or Podman Engine API.
//!
//! ```text
//! DockerBackend ──create(plan)──▶ lower ──Hardened──check──▶ engine ──▶ container ══attach══ bridge ──▶ Cell
//! ```
//!
//! The first process of every container is our own init, the same that serves native boxes. It speaks through the
//! container's standard streams, so commands, files, terminals and signals are as there, and nothing has to be published or
//! mounted for it but its own file, read-only. When this process ends, however that happens, the connection ends; the init
//! ends with it, and the engine removes the container.

mod check;
mod connect;
mod container;
mod hardened;
mod holder;
mod image;
mod inside;
mod labels;
mod lower;
mod place;
mod probe;
mod prune;
mod sandbox;
mod store;
mod survey;
mod trees;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{CreateError, Sandbox, SandboxBackend};
use hotcell_core::capability::Capabilities;
use hotcell_core::plan::Plan;
use hotcell_core::runtime::{Isolation, RuntimeKind};

pub use crate::progress::{Progress, PullProgress};
pub use connect::ConnectError;
pub use image::{DEFAULT_IMAGE, ImageError};
pub use probe::EngineFacts;
pub use prune::Pruned;
pub use survey::{Answer, Asked, Found, prune_all, survey};

use connect::{Address, Connection};
use holder::Holders;
use labels::Owner;
use place::Place;
use probe::Here;

/// How the backend is started.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DockerOptions {
    /// Where the engine listens, as in `DOCKER_HOST`; none means where that, the Docker context or habit say.
    pub host: Option<String>,
    /// The engine's OCI runtime; none means its default.
    pub runtime: Option<String>,
    /// Who hears how far pulls are.
    pub progress: Option<Progress>,
}

impl DockerOptions {
    /// With the engine that listens there.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// With this OCI runtime.
    #[must_use]
    pub fn runtime(mut self, name: Option<String>) -> Self {
        self.runtime = name;
        self
    }

    /// With somebody who hears how far pulls are.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }
}

/// Why the docker backend cannot work here at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DockerError {
    /// There is no engine.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The engine does not say what it is.
    #[error("the engine at {address} does not say what it can do: {reason}")]
    NoInformation {
        /// Where it listens.
        address: String,
        /// What it said.
        reason: String,
    },
    /// Files for containers cannot be written.
    #[error("there is no directory for files that containers share; set XDG_RUNTIME_DIR to one of yours")]
    NoPlace(#[source] std::io::Error),
    /// What tells this process from others cannot be read.
    #[error("cannot read which process this is; is /proc mounted?")]
    NoOwner(#[source] std::io::Error),
}

/// The docker backend, connected to an engine.
#[derive(Debug)]
pub struct DockerBackend {
    shared: Arc<Shared>,
    capabilities: Capabilities,
}

/// What boxes that are being made need.
#[derive(Debug)]
struct Shared {
    connection: Connection,
    engine: EngineFacts,
    here: Here,
    place: Place,
    owner: Owner,
    holders: Holders,
    options: DockerOptions,
}

impl DockerBackend {
    /// Connects to the engine and asks it what it can do. What processes that are gone have left there is removed in the
    /// background.
    pub async fn start(options: DockerOptions) -> Result<Self, DockerError> {
        let connection = connect::connect(options.host.as_deref()).await?;
        let client = &connection.client;
        let (info, version) = tokio::join!(client.info(), client.version());
        let (info, version) = info.and_then(|info| version.map(|version| (info, version))).map_err(|error| {
            DockerError::NoInformation { address: connection.address.to_string(), reason: engine_error(&error) }
        })?;
        let engine = EngineFacts::new(&info, &version, connection.rootless);
        let here = Here::look();
        let capabilities = probe::capabilities(&engine, here, options.runtime.as_deref());
        let place = Place::open().map_err(DockerError::NoPlace)?;
        let owner = Owner::current().map_err(DockerError::NoOwner)?;
        let pruner = client.clone();
        tokio::spawn(async move {
            // Nobody waits for it, and the next start tries again.
            let _ = prune::prune(&pruner, false).await;
        });
        let shared = Shared { connection, engine, here, place, owner, holders: Holders::default(), options };
        Ok(Self { shared: Arc::new(shared), capabilities })
    }

    /// What the engine says about itself.
    pub fn engine(&self) -> &EngineFacts {
        &self.shared.engine
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.shared.connection.address.to_string()
    }

    /// What it can hold here.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Removes the containers of boxes whose processes are gone, and nothing else.
    pub async fn prune(&self) -> Result<Pruned, String> {
        prune::prune(&self.shared.connection.client, false).await
    }
}

impl Shared {
    /// Sockets of engines: no tree may lead to one.
    fn sockets(&self) -> Vec<&Path> {
        let own = match &self.connection.address {
            Address::Unix(path) => Some(path.as_path()),
            Address::Loopback(_) => None,
        };
        let usual =
            ["/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];
        own.into_iter().chain(usual.into_iter().map(Path::new).filter(|path| path.exists())).collect()
    }
}

#[async_trait]
impl SandboxBackend for DockerBackend {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Docker
    }

    fn isolation(&self) -> Isolation {
        self.capabilities.isolation
    }

    async fn probe(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        sandbox::create(Arc::clone(&self.shared), plan.clone()).await
    }
}

/// What the engine said, in one line.
fn engine_error(error: &bollard::errors::Error) -> String {
    match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        other => crate::registry::with_causes(other),
    }
}
