//! The configured backend, for programs that want just that.

use std::sync::Arc;

use hotcell_backends::registry::{self, BackendError, StartOptions};
use hotcell_core::backend::SandboxBackend;
use hotcell_core::config::Config;
use hotcell_core::runtime::{RuntimeChoice, RuntimeKind};

use crate::settings;

/// Starts the backend that `config` names (`[sandbox] mode`, or `sandbox_backend`); the native one where it names none.
///
/// A backend that is configured and cannot start is an error here, at start-up; nothing stands in for it. The server of a
/// remote one is the one that `config` names; variables are not looked at.
///
/// ```
/// use hotcell::config::{Config, Layer};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::parse("sandbox_backend = \"none\"", "hotcell.toml", Layer::User)?;
/// let backend = hotcell::create_backend(&config).await?;
/// assert_eq!(backend.kind(), hotcell::RuntimeKind::Native);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub async fn create_backend(config: &Config) -> Result<Arc<dyn SandboxBackend>, BackendError> {
    let choice = config.sandbox.mode.as_ref().map(|mode| mode.value);
    let kind = match choice {
        Some(RuntimeChoice::Kind(kind)) => kind,
        // One backend is asked for, and the native one is the fastest that is always there.
        Some(RuntimeChoice::Auto) | None => RuntimeKind::Native,
    };
    let mut options = StartOptions::default();
    if kind.is_remote() {
        let server = settings::server_of(config, kind);
        options.remote = server.map_err(|error| BackendError::CannotStart { kind, reason: error.to_string() })?;
    }
    registry::start(kind, options).await
}
