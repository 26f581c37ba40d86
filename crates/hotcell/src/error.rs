//! What can go wrong on Hotcell's side. How a command itself ends is not an error but an [`crate::Outcome`].

use hotcell_backends::registry::BackendError;
use hotcell_core::backend::{CreateError, DestroyError, ProcessError, SpawnError};
use hotcell_core::plan::NoBackend;

/// An operation of the engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A backend could not be started.
    #[error(transparent)]
    Start(#[from] BackendError),
    /// No backend can hold the policy here; nothing ran.
    #[error(transparent)]
    Refused(#[from] NoBackend),
    /// The box could not be made; nothing ran.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The command could not be started; nothing ran.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The command was lost sight of; it has been ended.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The box could not be removed.
    #[error(transparent)]
    Destroy(#[from] DestroyError),
}

impl EngineError {
    /// The exit status that says so: 127 and 126 as shells do, else 125.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Spawn(error) => error.exit_code(),
            _ => 125,
        }
    }
}
