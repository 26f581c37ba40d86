//! The engine: backends that are running, and what they can do.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotcell_backends::progress::Progress;
use hotcell_backends::registry::{self, BackendError, StartOptions};
use hotcell_core::backend::{Sandbox, SandboxBackend, SandboxOutput, SpawnConfig};
use hotcell_core::capability::Capabilities;
use hotcell_core::plan::{NoBackend, Plan, Unavailable, plan};
use hotcell_core::policy::{Policy, RemotePolicy};
use hotcell_core::runtime::{Isolation, RuntimeChoice, RuntimeKind};

use crate::{EngineError, OneShot};

/// How an engine is started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How many boxes to have half made ahead of being asked: a start is faster by what the kernel needs for
    /// namespaces. Each costs the memory of one idle process.
    pub warm: u32,
    /// The backend that is started at once; `auto` means the native one. Others are started when a policy asks for them.
    pub runtime: RuntimeChoice,
    /// The OCI runtime of that backend.
    pub oci_runtime: Option<String>,
    /// Who hears how far the fetching of images is.
    pub progress: Option<Progress>,
    /// The server of that backend, if it is a remote one.
    pub remote: RemotePolicy,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            warm: 1,
            runtime: RuntimeChoice::Auto,
            oci_runtime: None,
            progress: None,
            remote: RemotePolicy::default(),
        }
    }
}

impl EngineOptions {
    /// For boxes of this policy: its backend is started at once, so that one that cannot start says so now.
    #[must_use]
    pub fn for_policy(policy: &Policy) -> Self {
        Self {
            runtime: policy.runtime,
            oci_runtime: policy.container.runtime.clone(),
            remote: policy.remote.clone(),
            ..Self::default()
        }
    }

    /// Has `count` boxes half made ahead.
    #[must_use]
    pub fn warm(mut self, count: u32) -> Self {
        self.warm = count;
        self
    }

    /// With somebody who hears how far the fetching of images is.
    #[must_use]
    pub fn progress(mut self, progress: Option<Progress>) -> Self {
        self.progress = progress;
        self
    }
}

/// Starts boxes. Cheap to clone; dropping the last clone, when no box is left, ends its helper process and waits for
/// that.
///
/// ```
/// use hotcell::{Engine, Policy, SpawnConfig, Status};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new().await?;
/// let policy = Policy::builder().processes(16).build()?;
/// let output = engine.run_with(&policy, SpawnConfig::new("sh").args(["-c", "exit 3"])).await?;
/// assert_eq!(output.status(), Status::Exited(3));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: EngineOptions,
    /// Whether other backends than those that were given may be started.
    may_start: bool,
    started: Mutex<Vec<Arc<Started>>>,
    /// Held while one is being started, so that none is started twice.
    starting: tokio::sync::Mutex<()>,
}

/// A backend as a policy wants it, or as it was started.
#[derive(Debug, Clone)]
struct Wanted {
    kind: RuntimeKind,
    /// Of containers.
    oci_runtime: Option<String>,
    /// The server of a remote backend; local ones are not told of any.
    remote: RemotePolicy,
}

impl Wanted {
    fn new(kind: RuntimeKind, oci_runtime: Option<&String>, remote: &RemotePolicy) -> Self {
        let remote = if kind.is_remote() { remote.clone() } else { RemotePolicy::default() };
        Self { kind, oci_runtime: oci_runtime.cloned(), remote }
    }

    fn by(policy: &Policy, kind: RuntimeKind) -> Self {
        Self::new(kind, policy.container.runtime.as_ref(), &policy.remote)
    }

    /// Whether a backend that was started like that serves this one: a policy's files and code go to its own server, in
    /// its own account.
    fn is_served_by(&self, started: &Self) -> bool {
        started.kind == self.kind
            && (!is_container(self.kind) || started.oci_runtime == self.oci_runtime)
            && started.remote.same_server(&self.remote)
    }
}

/// A backend that is running.
#[derive(Debug)]
struct Started {
    as_wanted: Wanted,
    backend: Arc<dyn SandboxBackend>,
    capabilities: Capabilities,
}

impl Engine {
    /// Starts an engine with the native backend; others are started when a policy asks for them.
    pub async fn new() -> Result<Self, EngineError> {
        Self::with_options(EngineOptions::default()).await
    }

    /// Starts an engine.
    pub async fn with_options(options: EngineOptions) -> Result<Self, EngineError> {
        let kind = match options.runtime {
            RuntimeChoice::Auto => RuntimeKind::Native,
            RuntimeChoice::Kind(kind) => kind,
        };
        let wanted = Wanted::new(kind, options.oci_runtime.as_ref(), &options.remote);
        let engine = Self::of(options, true);
        engine.started(&wanted).await?;
        Ok(engine)
    }

    /// An engine with these backends and no others, in the order in which `auto` tries them.
    pub async fn with_backends(backends: Vec<Arc<dyn SandboxBackend>>) -> Result<Self, EngineError> {
        let engine = Self::of(EngineOptions::default(), false);
        for backend in backends {
            let capabilities = backend.probe().await;
            let as_wanted = Wanted::new(backend.kind(), None, &RemotePolicy::default());
            engine.list().push(Arc::new(Started { as_wanted, backend, capabilities }));
        }
        Ok(engine)
    }

    fn of(options: EngineOptions, may_start: bool) -> Self {
        let shared = Shared { options, may_start, started: Mutex::default(), starting: tokio::sync::Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Started>>> {
        // Nothing panics while it is held.
        self.shared.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each backend that has been started can hold on this machine.
    pub fn capabilities(&self) -> Vec<Capabilities> {
        self.list().iter().map(|started| started.capabilities.clone()).collect()
    }

    fn find(&self, wanted: &Wanted) -> Option<Arc<Started>> {
        let matches = |started: &&Arc<Started>| {
            // Of backends that were given, only the kind is known.
            let given = !self.shared.may_start && started.as_wanted.kind == wanted.kind;
            given || wanted.is_served_by(&started.as_wanted)
        };
        self.list().iter().find(matches).cloned()
    }

    /// The backend, started if need be.
    async fn started(&self, wanted: &Wanted) -> Result<Arc<Started>, BackendError> {
        if let Some(started) = self.find(wanted) {
            return Ok(started);
        }
        if !self.shared.may_start {
            return Err(BackendError::NotBuilt { kind: wanted.kind });
        }
        let _starting = self.shared.starting.lock().await;
        if let Some(started) = self.find(wanted) {
            return Ok(started);
        }
        let mut options = StartOptions::warm(self.shared.options.warm);
        options.oci_runtime = wanted.oci_runtime.clone();
        options.progress = self.shared.options.progress.clone();
        options.remote = wanted.remote.clone();
        let backend = registry::start(wanted.kind, options).await?;
        let capabilities = backend.probe().await;
        let started = Arc::new(Started { as_wanted: wanted.clone(), backend, capabilities });
        self.list().push(Arc::clone(&started));
        Ok(started)
    }

    /// What would be enforced for `policy`, and by which mechanism; or why it is refused. Starts the backends that it takes
    /// to know, and makes no box.
    pub async fn plan(&self, policy: &Policy) -> Result<Plan, NoBackend> {
        self.choose(policy).await.map(|(_, plan)| plan)
    }

    /// The first backend that can hold the policy.
    async fn choose(&self, policy: &Policy) -> Result<(Arc<Started>, Plan), NoBackend> {
        let (mut refusals, mut unavailable) = (Vec::new(), Vec::new());
        for kind in self.candidates(policy) {
            match self.started(&Wanted::by(policy, kind)).await {
                Ok(started) => match plan(policy, &started.capabilities) {
                    Ok(plan) => return Ok((started, plan)),
                    Err(refusal) => refusals.push(refusal),
                },
                Err(error) => unavailable.push(Unavailable { kind, reason: error.to_string() }),
            }
        }
        Err(NoBackend { runtime: policy.runtime, refusals, unavailable })
    }

    /// The kinds of boxes that a policy may get, in order of preference. With `auto` these are local ones that could have the
    /// isolation that is asked for.
    fn candidates(&self, policy: &Policy) -> Vec<RuntimeKind> {
        let running: Vec<RuntimeKind> = self.list().iter().map(|started| started.backend.kind()).collect();
        let known = if self.shared.may_start { registry::KINDS.to_vec() } else { running.clone() };
        let could = |kind: &RuntimeKind| {
            // One that runs can say best why it cannot; others are not started in vain.
            let strong = is_container(*kind) && policy.container.runtime.is_some();
            strong
                || running.contains(kind)
                || policy.isolation.is_none_or(|asked| kind.usual_isolation().satisfies(asked))
        };
        match policy.runtime {
            RuntimeChoice::Kind(kind) if self.shared.may_start => vec![kind],
            RuntimeChoice::Kind(kind) => known.into_iter().filter(|known| *known == kind).collect(),
            RuntimeChoice::Auto => known.into_iter().filter(|kind| !kind.is_remote() && could(kind)).collect(),
        }
    }

    /// Makes a box that is kept: commands can be started in it until it is destroyed or dropped.
    pub async fn create(&self, policy: &Policy) -> Result<Box<dyn Sandbox>, EngineError> {
        let (started, plan) = self.choose(policy).await?;
        Ok(started.backend.create(&plan).await?)
    }

    /// Runs one command in a box of its own, under the default policy, and captures its output.
    pub async fn run(&self, config: SpawnConfig) -> Result<SandboxOutput, EngineError> {
        self.run_with(&Policy::default(), config).await
    }

    /// Runs one command in a box of its own and captures its output. When this returns, nothing of the box runs any
    /// more. If the future is dropped, the box is ended.
    pub async fn run_with(&self, policy: &Policy, config: SpawnConfig) -> Result<SandboxOutput, EngineError> {
        let capture = config.capture;
        let mut command = self.start(policy, config).await?;
        let output = SandboxOutput::collect(command.process_mut(), capture).await;
        command.destroy().await?;
        Ok(output?)
    }

    /// Starts one command in a box of its own, for streaming its input and output.
    pub async fn start(&self, policy: &Policy, config: SpawnConfig) -> Result<OneShot, EngineError> {
        let sandbox = self.create(policy).await?;
        match sandbox.spawn(config).await {
            Ok(process) => Ok(OneShot::new(sandbox, process)),
            Err(error) => {
                // Whoever hears of the error may end at once, and with it what would remove the box later.
                let _ = sandbox.destroy().await;
                Err(error.into())
            }
        }
    }

    /// Ends everything: when this returns, nothing of this engine is left, unless somebody still holds a clone of it or
    /// one of its boxes. (Dropping does the same, but makes the thread wait.)
    pub async fn close(self) {
        // Commands that were dropped a moment ago are still known to their tasks until those have had a turn.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        // Dropping waits for the helper process, which takes as long as the kernel needs to end the boxes.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

/// Whether an OCI runtime runs its boxes.
fn is_container(kind: RuntimeKind) -> bool {
    matches!(kind.usual_isolation(), Isolation::Container | Isolation::UserKernel)
}
