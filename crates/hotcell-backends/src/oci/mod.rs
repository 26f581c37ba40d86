//! Containers without a daemon: a bundle on a stage of ours, run by runc, crun, youki or gVisor's runsc.
//!
//! ```text
//! OciBackend ──create(plan)──▶ lower ──▶ stage (mounts, cgroup, overlays) ──▶ runtime ──▶ container ──▶ our init
//!                                                                                             └──▶ Cell ──▶ CellSandbox
//! ```
//!
//! Files and limits are those of the native box: the same mounts, id-mapped and read-only on the host's side, and the same
//! cgroups, made before the runtime starts. The runtime adds namespaces (or, with gVisor, a kernel) of its own, and runs our
//! init in them, which confines itself once more and serves commands as it does in a native box.

mod bundle;
mod image;
mod lower;
mod probe;
mod runtime;
pub mod version;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{CreateError, Sandbox, SandboxBackend};
use hotcell_core::capability::{Capabilities, Control};
use hotcell_core::plan::Plan;
use hotcell_core::policy::Limits;
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_core::text::Printable;
use hotcell_linux::cgroup::Layout;
use hotcell_linux::{CellSpec, NotMade, Owner, Spawner, SpawnerOptions};

pub use runtime::{Flavour, NoRuntime, Runtime};

use self::image::Root;
use crate::cell::{self, CellSandbox, Parts};
use crate::native::limits;
use crate::native::lower::{explain, overlay_trees};
use crate::native::probe::sockets_by_permissions;
use crate::native::stage::stage_namespaces;
use crate::native::{Layers, Machine, NativeError, UserNamespace};
use crate::progress::Progress;
use crate::registry::StartOptions;

/// Why containers cannot be made here at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OciError {
    /// There is no runtime.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
    /// The helper process did not start, or cannot make a stage.
    #[error(transparent)]
    Stage(#[from] NativeError),
}

/// Makes containers by one runtime, with a helper process running.
#[derive(Debug)]
pub struct OciBackend {
    kind: RuntimeKind,
    runtime: Runtime,
    machine: Machine,
    spawner: Spawner,
    capabilities: Capabilities,
    /// Who hears how far the fetching of images is.
    progress: Option<Progress>,
}

impl OciBackend {
    /// Finds the runtime and starts the helper. As `gvisor`, the runtime is runsc.
    pub async fn start(kind: RuntimeKind, options: StartOptions) -> Result<Self, OciError> {
        let usual = if kind == RuntimeKind::Gvisor { Some("runsc") } else { None };
        let runtime = Runtime::find(options.oci_runtime.as_deref().or(usual))?;
        if kind == RuntimeKind::Gvisor && runtime.flavour != Flavour::Runsc {
            return Err(NoRuntime {
                reason: format!("{} is not gVisor", runtime.program.display()),
                hint: "name runsc with --oci-runtime, or use --runtime oci".to_owned(),
            }
            .into());
        }
        let (spawner, machine) = start_spawner().await?;
        let capabilities = probe::capabilities(kind, &runtime, &machine);
        Ok(Self { kind, runtime, machine, spawner, capabilities, progress: options.progress })
    }

    /// The runtime that makes the containers.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

/// Starts a helper whose boxes are stages; without cgroups where those that were found cannot be used.
async fn start_spawner() -> Result<(Spawner, Machine), NativeError> {
    let findings = hotcell_linux::probe::look();
    let namespaces = stage_namespaces(findings.privileged);
    let user = Owner { uid: 0, gid: 0 };
    let mut cgroups = Arc::new(Layout::detect());
    loop {
        let spawner = Spawner::start(Arc::clone(&cgroups))?;
        let options = SpawnerOptions { privileged: findings.privileged, warm: 0, namespaces, user };
        spawner.greet(options, &CellSpec::new(namespaces, user))?;
        match spawner.greeted().await {
            Ok(()) => {
                let user_namespace = UserNamespace::Works;
                return Ok((spawner, Machine { findings, cgroups, user_namespace, layers: Layers::ALL }));
            }
            Err(hotcell_linux::CreateError::Step { step, source, .. })
                if step.contains("cgroup") && cgroups.kind().is_some() =>
            {
                cgroups = Arc::new(Layout::none(&format!("a cgroup was found but cannot be used: {source}")));
            }
            Err(hotcell_linux::CreateError::Step { source, .. }) if !findings.privileged => {
                let user_namespace = UserNamespace::Missing(hotcell_linux::probe::explain_user_namespace(&source));
                return Ok((spawner, Machine { findings, cgroups, user_namespace, layers: Layers::ALL }));
            }
            Err(error) => return Err(NativeError::NoAnswer(error)),
        }
    }
}

#[async_trait]
impl SandboxBackend for OciBackend {
    fn kind(&self) -> RuntimeKind {
        self.kind
    }

    fn isolation(&self) -> Isolation {
        self.runtime.flavour.isolation()
    }

    async fn probe(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        let id = cell::next_id(self.kind.as_str())?;
        let root = Root::of(&plan.policy.container, self.progress.as_ref()).await?;
        let image = root.as_ref().map(Root::path);
        // As for native boxes: some file systems know no id-mapped mounts.
        let mut not_mapped: BTreeSet<PathBuf> = BTreeSet::new();
        loop {
            let container = lower::lower(plan, &self.machine, &self.runtime, id.as_str(), image, &not_mapped)?;
            let staged = match self.spawner.stage(&container.lowered.spec).await {
                Ok(staged) => staged,
                Err(hotcell_linux::CreateError::Step { tree: Some(tree), source, .. })
                    if source.raw_os_error() == Some(INVALID) && container.lowered.may_show_unmapped(&tree) =>
                {
                    not_mapped.insert(tree);
                    continue;
                }
                Err(error) => return Err(explain(&error)),
            };
            let cell = staged.join(container.setup).await.map_err(|error| self.not_made(&error))?;
            let mut plan = plan.clone();
            if self.runtime.flavour.shares_kernel() && container.lowered.shows_sockets(&not_mapped) {
                let sockets = plan.enforcement.iter_mut().filter(|entry| entry.control == Control::Sockets);
                sockets.for_each(|entry| entry.actual = sockets_by_permissions());
            }
            let overlays = overlay_trees(container.lowered.overlays, &cell, &self.machine)?;
            let resources = self.resources(&plan.policy.limits);
            // No descriptor comes out of gVisor's kernel.
            let file_tool = (!self.runtime.flavour.shares_kernel()).then(|| PathBuf::from(bundle::INIT));
            let environment = root.as_ref().map(|root| root.environment.clone()).unwrap_or_default();
            let parts = Parts {
                id,
                cell,
                plan,
                overlays,
                resources,
                file_tool,
                environment,
                kept: root.map(|root| Box::new(root) as _),
            };
            return Ok(Box::new(CellSandbox::new(parts)));
        }
    }
}

impl OciBackend {
    /// The resource limits of every process. gVisor has low ones of its own for most, and lets none be raised.
    fn resources(&self, limits: &Limits) -> Vec<(u32, u64, u64)> {
        let mut resources = limits::resources(limits, &self.machine);
        if !self.runtime.flavour.shares_kernel() {
            resources.retain(|(resource, ..)| limits::OPEN_FILES_AND_CORES.contains(resource));
        }
        resources
    }

    fn not_made(&self, error: &NotMade) -> CreateError {
        let said = error.said.trim();
        let reason = if said.is_empty() { error.source.to_string() } else { Printable(said).to_string() };
        CreateError::Setup {
            step: format!("making the container with {}", self.runtime.program.display()),
            reason,
            hint: "`hotcell doctor` shows what this machine can do".to_owned(),
        }
    }
}

/// `EINVAL`: how the kernel says that a file system knows no id-mapped mounts.
const INVALID: i32 = 22;
