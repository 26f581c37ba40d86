//! The kinds of boxes, and a place to try each in.

use std::path::PathBuf;
use std::sync::Arc;

use hotcell::policy::{PolicyBuilder, PullPolicy};
use hotcell::{
    Capability, Control, Engine, EngineOptions, Policy, RuntimeKind, SandboxBackend, SandboxOutput, SpawnConfig,
};
use hotcell_backends::docker::{DockerBackend, DockerOptions};

use super::common;

/// A kind of box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    Runc,
    Crun,
    Gvisor,
    Docker,
    Podman,
}

impl Kind {
    fn runtime(self) -> RuntimeKind {
        match self {
            Self::Native => RuntimeKind::Native,
            Self::Runc | Self::Crun => RuntimeKind::Oci,
            Self::Gvisor => RuntimeKind::Gvisor,
            Self::Docker | Self::Podman => RuntimeKind::Docker,
        }
    }

    /// The program that makes the containers: that of the test command, else what is installed.
    fn program(self) -> Option<String> {
        let (variable, name) = match self {
            Self::Native | Self::Docker | Self::Podman => return None,
            Self::Runc => ("HOTCELL_TEST_RUNC", "runc"),
            Self::Crun => ("HOTCELL_TEST_CRUN", "crun"),
            Self::Gvisor => ("HOTCELL_TEST_RUNSC", "runsc"),
        };
        Some(std::env::var(variable).unwrap_or_else(|_| name.to_owned()))
    }
}

/// The engine of this kind that the test command has started.
async fn engine(kind: Kind, policy: &Policy) -> Result<Engine, String> {
    let variable = match kind {
        Kind::Docker => "HOTCELL_TEST_DOCKER",
        Kind::Podman => "HOTCELL_TEST_PODMAN",
        _ => {
            let started = Engine::with_options(EngineOptions::for_policy(policy).warm(0)).await;
            return started.map_err(|error| error.to_string());
        }
    };
    let address = std::env::var(variable).map_err(|_| format!("{variable} names no engine"))?;
    let backend = DockerBackend::start(DockerOptions::default().host(address)).await;
    let backend: Arc<dyn SandboxBackend> = Arc::new(backend.map_err(|error| error.to_string())?);
    Engine::with_backends(vec![backend]).await.map_err(|error| error.to_string())
}

/// An engine with one kind of box, and a directory on the host.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) engine: Engine,
    pub(crate) host: common::Place,
    test: String,
}

impl Place {
    /// None, after listing the test as skipped, where there is no such box.
    pub(crate) async fn open(kind: Kind, module: &str, case: &str) -> Option<Self> {
        let test = format!("boxes {module}::{case}");
        let policy = base(kind).build().unwrap();
        let engine = match engine(kind, &policy).await {
            Ok(engine) => engine,
            Err(reason) => {
                common::skip(&test, &reason);
                return None;
            }
        };
        if let Err(refusal) = engine.plan(&policy).await {
            common::skip(&test, &refusal.to_string().replace('\n', " "));
            return None;
        }
        Some(Self { kind, engine, host: common::Place::new(), test })
    }

    pub(crate) fn policy(&self) -> PolicyBuilder {
        base(self.kind)
    }

    /// The policy, if this kind can hold it; it accepts that `control` is approximated where nothing better can be had.
    pub(crate) async fn limited(&self, control: Control, policy: PolicyBuilder) -> Option<Policy> {
        let policy = policy.build().unwrap();
        let held = self.engine.capabilities().iter().map(|capabilities| capabilities.of(control)).next().unwrap();
        match held {
            Capability::Enforced { .. } => Some(policy),
            Capability::Approximated { .. } => {
                // Refused unless that is accepted in so many words.
                assert!(self.engine.plan(&policy).await.is_err());
                let mut accepted = policy;
                accepted.approximate.insert(control);
                Some(accepted)
            }
            Capability::Unsupported { why, .. } => {
                assert!(self.engine.plan(&policy).await.is_err());
                common::skip(&self.test, &format!("{control}: {why}"));
                None
            }
            other => panic!("{other}"),
        }
    }

    pub(crate) async fn run(&self, policy: PolicyBuilder, config: SpawnConfig) -> SandboxOutput {
        self.engine.run_with(&policy.build().unwrap(), config).await.unwrap()
    }

    /// A directory on the host that the box's user may own: by its real path.
    pub(crate) fn tree(&self) -> PathBuf {
        self.host.dir("tree")
    }

    pub(crate) async fn close(self) {
        self.engine.close().await;
    }
}

fn base(kind: Kind) -> PolicyBuilder {
    let policy = Policy::builder().runtime(kind.runtime()).timeout(common::LONG);
    match (kind, kind.program()) {
        (_, Some(program)) => policy.oci_runtime(program),
        (Kind::Docker | Kind::Podman, None) => policy.image("hotcell-test:latest").pull(PullPolicy::Never),
        (_, None) => policy,
    }
}
