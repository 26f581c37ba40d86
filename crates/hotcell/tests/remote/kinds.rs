//! The kinds of servers, and a place to try each in.

use std::path::PathBuf;

use hotcell::policy::{NetworkMode, PolicyBuilder};
use hotcell::{
    Capability, Control, CreateError, Engine, EngineError, EngineOptions, Policy, RuntimeKind, SandboxOutput,
    SpawnConfig,
};
use tokio::sync::OnceCell;

use super::common;

/// A kind of server. The others are those of local boxes, which their cases speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the cases of local boxes tell theirs apart")]
pub(crate) enum Kind {
    OpenSandbox,
    E2b,
    Gvisor,
    Docker,
    Podman,
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

/// A policy for the server that the test command has started.
fn base(kind: Kind) -> Result<PolicyBuilder, String> {
    let policy = Policy::builder().timeout(common::LONG);
    match kind {
        Kind::OpenSandbox => Ok(policy
            .runtime(RuntimeKind::Opensandbox)
            .sandbox_url(variable("HOTCELL_TEST_OPENSANDBOX_URL")?)
            .sandbox_api_key(variable("HOTCELL_TEST_OPENSANDBOX_KEY")?)
            .image(variable("HOTCELL_TEST_OPENSANDBOX_IMAGE")?)),
        _ => Ok(policy
            .runtime(RuntimeKind::E2b)
            .sandbox_url(variable("HOTCELL_TEST_E2B_URL")?)
            .sandbox_api_key(variable("HOTCELL_TEST_E2B_KEY")?)),
    }
}

/// Whether the server can make boxes without a network; asked once.
async fn can_deny(kind: Kind, engine: &Engine, policy: &Policy) -> bool {
    static OPENSANDBOX: OnceCell<bool> = OnceCell::const_new();
    if kind != Kind::OpenSandbox {
        return true;
    }
    let ask = async || match engine.create(policy).await {
        Ok(sandbox) => {
            sandbox.destroy().await.unwrap();
            true
        }
        // It says so rather than make a box with one.
        Err(EngineError::Create(CreateError::Refused(refusal))) => {
            assert!(refusal.to_string().contains("network"), "{refusal}");
            false
        }
        Err(error) => panic!("{error}"),
    };
    *OPENSANDBOX.get_or_init(ask).await
}

/// An engine with one kind of server, and a directory on the host.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) engine: Engine,
    pub(crate) host: common::Place,
    network: NetworkMode,
    test: String,
}

impl Place {
    /// None, after listing the test as skipped, where nobody names such a server.
    pub(crate) async fn open(kind: Kind, module: &str, case: &str) -> Option<Self> {
        let test = format!("remote {module}::{case}");
        let policy = match base(kind) {
            Ok(policy) => policy.build().unwrap(),
            Err(reason) => {
                common::skip(&test, &reason);
                return None;
            }
        };
        // A server that was named must be there.
        let engine = Engine::with_options(EngineOptions::for_policy(&policy).warm(0)).await.unwrap();
        let network = match can_deny(kind, &engine, &policy).await {
            true => NetworkMode::Deny,
            false => NetworkMode::Open,
        };
        Some(Self { kind, engine, host: common::Place::new(), network, test })
    }

    pub(crate) fn policy(&self) -> PolicyBuilder {
        base(self.kind).unwrap().network(self.network)
    }

    /// The policy, with the word that `control` may be approximated.
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
            other => panic!("{}: {other}", self.test),
        }
    }

    pub(crate) async fn run(&self, policy: PolicyBuilder, config: SpawnConfig) -> SandboxOutput {
        self.engine.run_with(&policy.build().unwrap(), config).await.unwrap()
    }

    /// A directory on the host, by its real path.
    pub(crate) fn tree(&self) -> PathBuf {
        self.host.dir("tree")
    }

    pub(crate) async fn close(self) {
        self.engine.close().await;
    }
}
