//! The native Linux backend: namespaces, Landlock, seccomp and cgroups, through one helper process.
//!
//! ```text
//! NativeBackend ──create(plan)──▶ lower ──CellSpec──▶ Cell ──▶ CellSandbox ──spawn──▶ CellProcess
//! ```

mod layers;
pub(crate) mod limits;
pub(crate) mod lower;
pub(crate) mod probe;
pub(crate) mod protect;
pub(crate) mod stage;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{CreateError, Sandbox, SandboxBackend};
use hotcell_core::capability::{Capabilities, Control};
use hotcell_core::plan::Plan;
use hotcell_core::runtime::{Isolation, RuntimeKind};
use hotcell_linux::landlock::Abi;
use hotcell_linux::{Namespaces, Owner, Spawner, SpawnerOptions};

pub use hotcell_linux::cgroup::{Controller, Layout};
pub use layers::Layers;
pub use probe::{Machine, UserNamespace};

use crate::cell::{self, CellSandbox, Parts};
use crate::registry::StartOptions;

/// Why the native backend cannot work here at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// The helper process did not start.
    #[error(transparent)]
    Start(#[from] hotcell_linux::StartError),
    /// The helper process ended at once.
    #[error("the helper process does not answer")]
    NoAnswer(#[source] hotcell_linux::CreateError),
}

/// The native backend, with its helper process running.
#[derive(Debug)]
pub struct NativeBackend {
    machine: Machine,
    spawner: Spawner,
    capabilities: Capabilities,
}

/// The namespaces of most boxes, for half making them ahead.
fn usual_namespaces(user: bool) -> Namespaces {
    Namespaces { user, network: true, stage: false, same_user: false }
}

const USUAL_USER: Owner = Owner { uid: 1000, gid: 1000 };

impl NativeBackend {
    /// Starts the helper and finds out, by half making a box, what it can do here.
    pub async fn start(options: StartOptions) -> Result<Self, NativeError> {
        Self::start_with(options, Layers::ALL).await
    }

    /// Starts the helper for boxes that have only some of the layers.
    pub async fn start_with(options: StartOptions, layers: Layers) -> Result<Self, NativeError> {
        let mut findings = hotcell_linux::probe::look();
        if !layers.landlock {
            findings.landlock = Abi(0);
        }
        let cgroups = if layers.cgroups { Layout::detect() } else { Layout::none("cgroups were switched off") };
        let mut attempt = Attempt { cgroups: Arc::new(cgroups), user: layers.user_namespace };
        let mut user_namespace = match layers.user_namespace {
            true => UserNamespace::Works,
            false => UserNamespace::Without("it was switched off".into()),
        };
        loop {
            let spawner = Spawner::start(Arc::clone(&attempt.cgroups))?;
            let namespaces = usual_namespaces(attempt.user);
            let usual = lower::usual_base(namespaces, USUAL_USER, findings.privileged);
            let privileged = findings.privileged;
            spawner.greet(SpawnerOptions { privileged, warm: options.warm, namespaces, user: USUAL_USER }, &usual)?;
            let error = match spawner.greeted().await {
                Ok(()) => {
                    let machine = Machine { findings, cgroups: attempt.cgroups, user_namespace, layers };
                    let capabilities = probe::capabilities(&machine);
                    return Ok(Self { machine, spawner, capabilities });
                }
                Err(error) => error,
            };
            match &error {
                hotcell_linux::CreateError::Step { step, source, .. } if step.contains("cgroup") => {
                    if attempt.cgroups.kind().is_none() {
                        return Err(NativeError::NoAnswer(error));
                    }
                    attempt.cgroups =
                        Arc::new(Layout::none(&format!("a cgroup was found but cannot be used: {source}")));
                }
                hotcell_linux::CreateError::Step { source, .. } if attempt.user => {
                    let why = hotcell_linux::probe::explain_user_namespace(source);
                    if !findings.privileged {
                        // There is no box without one for an ordinary user: every plan will say so.
                        user_namespace = UserNamespace::Missing(why);
                        let machine = Machine { findings, cgroups: attempt.cgroups, user_namespace, layers };
                        let capabilities = probe::capabilities(&machine);
                        return Ok(Self { machine, spawner, capabilities });
                    }
                    user_namespace = UserNamespace::Without(why);
                    attempt.user = false;
                }
                _ => return Err(NativeError::NoAnswer(error)),
            }
        }
    }

    /// What was found on this machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What it can hold here.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
}

/// What is tried next while starting.
struct Attempt {
    cgroups: Arc<Layout>,
    user: bool,
}

#[async_trait]
impl SandboxBackend for NativeBackend {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Native
    }

    fn isolation(&self) -> Isolation {
        Isolation::Process
    }

    async fn probe(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError> {
        // File systems that know no id-mapped mounts show the host's owners instead: less is readable then, never more.
        let mut not_mapped: BTreeSet<PathBuf> = BTreeSet::new();
        loop {
            let lowered = lower::lower(plan, &self.machine, &not_mapped)?;
            match self.spawner.create(&lowered.spec).await {
                Ok(cell) => {
                    let mut plan = plan.clone();
                    if lowered.shows_sockets(&not_mapped) {
                        // Nobody asked for it in so many words, so the report is where it is said.
                        let sockets = plan.enforcement.iter_mut().filter(|entry| entry.control == Control::Sockets);
                        sockets.for_each(|entry| entry.actual = probe::sockets_by_permissions());
                    }
                    let overlays = lower::overlay_trees(lowered.overlays, &cell, &self.machine)?;
                    let resources = limits::resources(&plan.policy.limits, &self.machine);
                    let id = cell::next_id("native")?;
                    let parts = Parts {
                        id,
                        cell,
                        plan,
                        overlays,
                        resources,
                        file_tool: None,
                        environment: BTreeMap::new(),
                        kept: None,
                    };
                    return Ok(Box::new(CellSandbox::new(parts)));
                }
                Err(hotcell_linux::CreateError::Step { tree: Some(tree), source, .. })
                    if source.raw_os_error() == Some(INVALID) && lowered.may_show_unmapped(&tree) =>
                {
                    not_mapped.insert(tree);
                }
                Err(error) => return Err(lower::explain(&error)),
            }
        }
    }
}

/// `EINVAL`: how the kernel says that a file system knows no id-mapped mounts.
const INVALID: i32 = 22;
