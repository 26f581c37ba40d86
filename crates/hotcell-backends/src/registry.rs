//! Every backend of this build, in the order in which `auto` tries them.

use std::sync::Arc;

use hotcell_core::backend::SandboxBackend;
use hotcell_core::policy::RemotePolicy;
use hotcell_core::runtime::RuntimeKind;

use crate::progress::Progress;

/// How backends are started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StartOptions {
    /// How many native boxes to have half made ahead of being asked.
    pub warm: u32,
    /// The OCI runtime of containers; none means that of the backend.
    pub oci_runtime: Option<String>,
    /// Who hears how far the fetching of images is.
    pub progress: Option<Progress>,
    /// The server of a remote backend, and the key for it. What a box is made of (template, snapshot) is in its plan.
    pub remote: RemotePolicy,
}

impl StartOptions {
    /// Has `count` native boxes half made ahead.
    #[must_use]
    pub fn warm(count: u32) -> Self {
        Self { warm: count, oci_runtime: None, progress: None, remote: RemotePolicy::default() }
    }
}

impl Default for StartOptions {
    fn default() -> Self {
        Self::warm(1)
    }
}

/// A backend could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// This build has no such backend.
    #[error("the `{kind}` backend is not part of this build; it has: {}", available())]
    NotBuilt {
        /// The backend that was asked for.
        kind: RuntimeKind,
    },
    /// It is there, but cannot start.
    #[error("the `{kind}` backend cannot start: {reason}")]
    CannotStart {
        /// The backend.
        kind: RuntimeKind,
        /// Why.
        reason: String,
    },
}

/// The kinds that this build has.
pub const KINDS: &[RuntimeKind] = &[
    #[cfg(target_os = "linux")]
    RuntimeKind::Native,
    #[cfg(target_os = "linux")]
    RuntimeKind::Oci,
    #[cfg(target_os = "linux")]
    RuntimeKind::Gvisor,
    #[cfg(all(target_os = "linux", feature = "docker"))]
    RuntimeKind::Docker,
    // Never by `auto`: code and files leave this machine.
    #[cfg(all(target_os = "linux", feature = "remote"))]
    RuntimeKind::Opensandbox,
    #[cfg(all(target_os = "linux", feature = "remote"))]
    RuntimeKind::E2b,
    #[cfg(all(target_os = "linux", feature = "remote"))]
    RuntimeKind::Cube,
];

fn available() -> String {
    KINDS.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// Starts a backend: what cannot start says so here, not at the first command.
pub async fn start(kind: RuntimeKind, options: StartOptions) -> Result<Arc<dyn SandboxBackend>, BackendError> {
    match kind {
        #[cfg(target_os = "linux")]
        RuntimeKind::Native => match crate::native::NativeBackend::start(options).await {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(error) => Err(BackendError::CannotStart { kind, reason: with_causes(&error) }),
        },
        #[cfg(target_os = "linux")]
        RuntimeKind::Oci | RuntimeKind::Gvisor => match crate::oci::OciBackend::start(kind, options).await {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(error) => Err(BackendError::CannotStart { kind, reason: with_causes(&error) }),
        },
        #[cfg(all(target_os = "linux", feature = "docker"))]
        RuntimeKind::Docker => {
            let mut docker = crate::docker::DockerOptions::default().runtime(options.oci_runtime);
            docker.progress = options.progress;
            let options = docker;
            match crate::docker::DockerBackend::start(options).await {
                Ok(backend) => Ok(Arc::new(backend)),
                Err(error) => Err(BackendError::CannotStart { kind, reason: with_causes(&error) }),
            }
        }
        #[cfg(all(target_os = "linux", feature = "remote"))]
        RuntimeKind::Opensandbox => match crate::opensandbox::OpenSandboxBackend::start(&options.remote).await {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(error) => Err(BackendError::CannotStart { kind, reason: with_causes(&error) }),
        },
        #[cfg(all(target_os = "linux", feature = "remote"))]
        RuntimeKind::E2b | RuntimeKind::Cube => match crate::e2b::E2bBackend::start(kind, &options.remote).await {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(error) => Err(BackendError::CannotStart { kind, reason: with_causes(&error) }),
        },
        kind => Err(BackendError::NotBuilt { kind }),
    }
}

/// An error and what caused it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
