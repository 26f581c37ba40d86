//! A live box in a container.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::ContainerInspectResponse;
use hotcell_core::backend::{
    CreateError, DestroyError, Files, Sandbox, SandboxId, SandboxedProcess, SpawnConfig, SpawnError, Workspace,
};
use hotcell_core::capability::Control;
use hotcell_core::plan::{EnforcementReport, Plan};
use hotcell_linux::landlock::Abi;
use hotcell_linux::{Cell, Joined, Keeper, bridge, cgroup};

use super::container::{self, Complaints, Container, Guard, Output, is_taken};
use super::hardened::{Hardened, INIT};
use super::image::Image;
use super::inside::Mounts;
use super::lower::{self, Ground, Lowered};
use super::{Shared, check, engine_error, image, labels};
use crate::cell::{self, CellSandbox, OverlayTree, Parts};
use crate::native::probe::sockets_by_permissions;

/// How often another name is tried when one is taken.
const MOST_NAMES: usize = 8;

/// How often, and how far apart, a process is looked at that should execute the init.
const MOST_LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(10);

/// A box in a container.
struct DockerSandbox {
    inner: Box<CellSandbox>,
    container: Arc<Container>,
}

/// Makes a box. The work is done in a task of its own, so that a caller who gives up leaves nothing half done: the task
/// comes to its end, and what it made is dropped and removed.
pub(super) async fn create(shared: Arc<Shared>, plan: Plan) -> Result<Box<dyn Sandbox>, CreateError> {
    let runtime =
        tokio::runtime::Handle::try_current().map_err(|error| failed("finding the runtime", &error.to_string()))?;
    let made = runtime.spawn(async move { make(&shared, plan).await }).await;
    made.map_err(|error| failed("making the container", &error.to_string()))?
        .map(|sandbox| Box::new(sandbox) as Box<dyn Sandbox>)
}

async fn make(shared: &Shared, plan: Plan) -> Result<DockerSandbox, CreateError> {
    let client = &shared.connection.client;
    let image =
        image::resolve(client, &shared.engine, &plan.policy.container, shared.options.progress.as_ref()).await?;
    let sockets = shared.sockets();
    let ground = Ground {
        engine: &shared.engine,
        here: shared.here,
        place: &shared.place,
        sockets: &sockets,
        runtime: shared.options.runtime.as_deref(),
    };
    let mounts_inside = ground.mounts_inside();
    let Lowered { mut hardened, holder, mut resources } = lower::lower(&plan, &image, &ground)?;
    // Before the container: the engine opens what is held.
    let holder = match holder {
        Some(spec) => Some(shared.holders.hold(spec).await?),
        None => None,
    };
    let (id, container) = name_and_create(shared, &mut hardened).await?;
    let guard = Guard::new(&container);
    container.keep(holder);
    let complaints = Complaints::default();
    let attached = container.attach().await.map_err(|error| unanswered("attaching to the container", &error))?;
    container.start().await.map_err(|error| not_started(&error))?;
    let running = container.inspect().await.map_err(|error| unanswered("looking at the container", &error))?;
    let pid = running.state.as_ref().and_then(|state| state.pid).unwrap_or_default();
    if let Some(ended) = has_ended(&running) {
        return Err(failed("starting the container", &ended));
    }
    container.hold_first(pid);
    if !found_here(pid, container.id(), shared.engine.cgroup_version.is_some()).await {
        return Err(elsewhere());
    }
    kept(&running, &hardened)?;
    let conversation = bridge::start(Output::new(attached.output, complaints.clone()), attached.input)
        .map_err(|error| failed("talking to the init of the container", &error.to_string()))?;
    let own_kernel = shared.engine.is_gvisor(ground.runtime);
    if !own_kernel {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        resources.extend(lower::further_limits(&limits));
    }
    let landlock = if own_kernel { Abi(0) } else { shared.here.landlock };
    let (setup, descriptions) = lower::confine(&plan.policy, &image, landlock).into_setup();
    // Where the engine makes none, the process is in one that it shares with others.
    let pid_in_cgroup = u32::try_from(pid).ok().filter(|_| shared.engine.cgroup_version.is_some());
    let cgroup = pid_in_cgroup.and_then(|pid| cgroup::Group::of_process(pid).ok().flatten());
    let mut plan = plan;
    let overlays = match mounts_inside && !plan.policy.filesystem.rules.is_empty() {
        true => mount_trees(shared, &container, pid, &mut plan, hardened.user).await?,
        false => Vec::new(),
    };
    let joined = Joined {
        keeper: Arc::clone(&container) as Arc<dyn Keeper>,
        cgroup,
        root: None,
        uppers: Vec::new(),
        setup,
        descriptions,
        bridged: true,
    };
    let cell = match Cell::join(conversation, joined).await {
        Ok(cell) => cell,
        Err(error) => return Err(not_joined(&error, &complaints)),
    };
    guard.disarm();
    let Image { environment, .. } = image;
    let file_tool = Some(INIT.into());
    let parts = Parts { id, cell, plan, overlays, resources, file_tool, environment, kept: None };
    Ok(DockerSandbox { inner: Box::new(CellSandbox::new(parts)), container })
}

/// Mounts the trees of the plan into the container, in which nothing runs yet but our init.
async fn mount_trees(
    shared: &Shared,
    container: &Arc<Container>,
    pid: i64,
    plan: &mut Plan,
    uid: u32,
) -> Result<Vec<OverlayTree>, CreateError> {
    let mounts = Mounts::hold(pid)?;
    let now = container.inspect().await.map_err(|error| unanswered("looking at the container", &error))?;
    if let Some(ended) = has_ended(&now) {
        return Err(failed("mounting trees", &ended));
    }
    if now.state.as_ref().and_then(|state| state.pid) != Some(pid) {
        return Err(failed("mounting trees", "the container was restarted"));
    }
    let trees = mounts.add(&plan.policy, uid, &shared.holders).await?;
    if trees.shows_sockets {
        // Nobody asked for it in so many words, so the report is where it is said.
        let sockets = plan.enforcement.iter_mut().filter(|entry| entry.control == Control::Sockets);
        sockets.for_each(|entry| entry.actual = sockets_by_permissions());
    }
    let (overlays, helper) =
        trees.into_parts().map_err(|error| failed("keeping the changes of an overlay", &error.to_string()))?;
    container.keep(Some(helper));
    Ok(overlays)
}

/// Whether the container's first process is found on this machine. Without cgroups it is known by what it executes, which it may
/// be about to do.
async fn found_here(pid: i64, container: &str, has_cgroups: bool) -> bool {
    for _ in 0..if has_cgroups { 1 } else { MOST_LOOKS } {
        if container::is_here(pid, container, has_cgroups) {
            return true;
        }
        tokio::time::sleep(LOOK).await;
    }
    false
}

/// Names the box and asks for its container; a name that is taken, by whomever, is left to its owner.
async fn name_and_create(shared: &Shared, hardened: &mut Hardened) -> Result<(SandboxId, Arc<Container>), CreateError> {
    let client = &shared.connection.client;
    let mut taken = String::new();
    for _ in 0..MOST_NAMES {
        let id = cell::next_id("docker")?;
        let name = labels::container_name(&id);
        hardened.labels = labels::labels(&shared.owner, &id);
        let body = hardened.body();
        check::check(&body, hardened, &shared.sockets()).map_err(|error| CreateError::Setup {
            step: "checking the container before it is made".into(),
            reason: error.to_string(),
            hint: "this is a defect of Hotcell".into(),
        })?;
        match Container::create(client, &name, body).await {
            Ok(container) => return Ok((id, container)),
            Err(error) if is_taken(&error) => taken = engine_error(&error),
            Err(error) => return Err(unanswered("making the container", &error)),
        }
    }
    Err(failed("naming the container", &taken))
}

/// Whether the limits that were asked for are those that the engine has noted: one that the kernel cannot hold is dropped
/// by some engines with a warning.
fn kept(running: &ContainerInspectResponse, meant: &Hardened) -> Result<(), CreateError> {
    let config = running.host_config.clone().unwrap_or_default();
    let is = |noted: Option<i64>, asked: Option<u64>| asked.is_none_or(|asked| noted == i64::try_from(asked).ok());
    let checks = [
        ("the memory limit", is(config.memory, meant.memory)),
        ("the limit of processes", is(config.pids_limit, meant.processes)),
        ("the limit of CPUs", is(config.nano_cpus, meant.nano_cpus)),
        ("the read-only root", config.readonly_rootfs == Some(true)),
        ("the missing privileges", config.privileged == Some(false)),
        ("the network", config.network_mode.as_deref() == Some(meant.network.mode())),
    ];
    match checks.iter().find(|(_, held)| !held) {
        Some((what, _)) => Err(failed("making the container", &format!("the engine did not take over {what}"))),
        None => Ok(()),
    }
}

/// What the engine says of a container that is not running.
fn has_ended(running: &ContainerInspectResponse) -> Option<String> {
    let state = running.state.as_ref()?;
    if state.running == Some(true) {
        return None;
    }
    let error = state.error.as_deref().filter(|error| !error.is_empty());
    let code = state.exit_code.unwrap_or_default();
    Some(error.map_or_else(|| format!("it ended at once, with status {code}"), str::to_owned))
}

fn failed(step: &str, reason: &str) -> CreateError {
    CreateError::Setup {
        step: step.to_owned(),
        reason: reason.to_owned(),
        hint: "`hotcell doctor` shows what the engine can do; its log may say more".into(),
    }
}

fn elsewhere() -> CreateError {
    CreateError::Unavailable {
        backend: "docker".into(),
        reason: "the engine's containers are not on this machine, or not in sight of this process".into(),
        hint: "use an engine that shares this machine's files and processes, or another runtime".into(),
    }
}

/// The engine refused, or is gone.
fn unanswered(step: &str, error: &bollard::errors::Error) -> CreateError {
    match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } if message.contains("no space left") => {
            CreateError::Setup {
                step: step.to_owned(),
                reason: message.trim().to_owned(),
                hint: "make room on the disk of the engine (`docker system df`)".into(),
            }
        }
        bollard::errors::Error::DockerResponseServerError { .. } => failed(step, &engine_error(error)),
        _ => CreateError::Unavailable {
            backend: "docker".into(),
            reason: format!("{step} failed: {}", engine_error(error)),
            hint: "see that the engine is running, or use another runtime".into(),
        },
    }
}

fn not_started(error: &bollard::errors::Error) -> CreateError {
    let text = engine_error(error);
    if text.contains("exec format error") || text.contains("permission denied") && text.contains(INIT) {
        return CreateError::Setup {
            step: "starting the init in the container".into(),
            reason: text,
            hint: "the image or the engine cannot run this machine's programs; use another image or runtime".into(),
        };
    }
    unanswered("starting the container", error)
}

fn not_joined(error: &hotcell_linux::CreateError, complaints: &Complaints) -> CreateError {
    let said = complaints.text();
    let reason = match error {
        hotcell_linux::CreateError::Step { step, source, .. } => format!("{step}: {source}"),
        other => crate::registry::with_causes(other),
    };
    let reason = if said.is_empty() { reason } else { format!("{reason}; the container says: {said}") };
    failed("confining the init of the container", &reason)
}

#[async_trait]
impl Sandbox for DockerSandbox {
    fn id(&self) -> &SandboxId {
        self.inner.id()
    }

    fn report(&self) -> &EnforcementReport {
        self.inner.report()
    }

    async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, SpawnError> {
        self.inner.spawn(config).await
    }

    fn files(&self) -> Option<&dyn Files> {
        self.inner.files()
    }

    fn workspace(&self) -> Option<&dyn Workspace> {
        self.inner.workspace()
    }

    async fn destroy(self: Box<Self>) -> Result<(), DestroyError> {
        let Self { inner, container } = *self;
        inner.destroy().await?;
        container.removed().await.map_err(|reason| DestroyError::LeftBehind {
            what: format!("the container {}", container.id()),
            reason,
            hint: "`hotcell prune` removes it when this process has ended".into(),
        })
    }
}

#[cfg(test)]
#[path = "sandbox_tests.rs"]
mod tests;
