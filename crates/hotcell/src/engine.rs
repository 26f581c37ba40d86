//! The engine: backends that are running, and what they can do.

use std::sync::Arc;

use hotcell_backends::registry::{self, StartOptions};
use hotcell_core::backend::{Sandbox, SandboxBackend, SandboxOutput, SpawnConfig};
use hotcell_core::capability::Capabilities;
use hotcell_core::plan::{NoBackend, Plan, choose};
use hotcell_core::policy::Policy;

use crate::{EngineError, OneShot};

/// How an engine is started.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EngineOptions {
    /// How many boxes to have half made ahead of being asked: a start is faster by what the kernel needs for
    /// namespaces. Each costs the memory of one idle process.
    pub warm: u32,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { warm: 1 }
    }
}

impl EngineOptions {
    /// Has `count` boxes half made ahead.
    #[must_use]
    pub fn warm(mut self, count: u32) -> Self {
        self.warm = count;
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
    backends: Vec<Arc<dyn SandboxBackend>>,
    capabilities: Vec<Capabilities>,
}

impl Engine {
    /// Starts an engine with every local backend of this build.
    pub async fn new() -> Result<Self, EngineError> {
        Self::with_options(EngineOptions::default()).await
    }

    /// Starts an engine.
    pub async fn with_options(options: EngineOptions) -> Result<Self, EngineError> {
        let mut backends = Vec::new();
        for kind in registry::KINDS {
            backends.push(registry::start(*kind, StartOptions { warm: options.warm }).await?);
        }
        Self::with_backends(backends).await
    }

    /// An engine with these backends, in the order in which `auto` tries them.
    pub async fn with_backends(backends: Vec<Arc<dyn SandboxBackend>>) -> Result<Self, EngineError> {
        let mut capabilities = Vec::new();
        for backend in &backends {
            capabilities.push(backend.probe().await);
        }
        Ok(Self { shared: Arc::new(Shared { backends, capabilities }) })
    }

    /// What each backend can hold on this machine.
    pub fn capabilities(&self) -> &[Capabilities] {
        &self.shared.capabilities
    }

    /// What would be enforced for `policy`, and by which mechanism; or why it is refused.
    pub fn plan(&self, policy: &Policy) -> Result<Plan, NoBackend> {
        choose(policy, &self.shared.capabilities)
    }

    /// Makes a box that is kept: commands can be started in it until it is destroyed or dropped.
    pub async fn create(&self, policy: &Policy) -> Result<Box<dyn Sandbox>, EngineError> {
        let plan = self.plan(policy)?;
        let backend = self.shared.backends.iter().find(|backend| backend.kind() == plan.kind);
        // A plan is made from the capabilities of one of these backends, so it is there.
        let backend = backend.ok_or(NoBackend { runtime: policy.runtime, refusals: Vec::new() })?;
        Ok(backend.create(&plan).await?)
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
        let process = sandbox.spawn(config).await?;
        Ok(OneShot::new(sandbox, process))
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
