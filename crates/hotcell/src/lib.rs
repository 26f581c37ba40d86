//! Run code that nobody trusts in the strongest box the caller asks for, under one policy on every backend: Hotcell
//! enforces what was asked for, or refuses to run.
//!
//! ```
//! use hotcell::{Engine, SpawnConfig};
//!
//! # async fn example() -> Result<(), hotcell::EngineError> {
//! let engine = Engine::new().await?;
//! let output = engine.run(SpawnConfig::new("python3").args(["-c", "print(6*7)"])).await?;
//! assert_eq!(output.stdout.bytes(), b"42\n");
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Without a policy, a box has no network, no host files but the read-only system directories that programs need, a
//! private writable home and `/tmp`, a scrubbed environment, and limits on time, memory, processes, disk and output.
//! A [`Policy`] grants more, or less. What a backend cannot hold on this machine is a refusal that names the rule, why,
//! and what would.
//!
//! The pipeline, one noun each: [`config`] → [`layers`] → [`policy`] → [`plan`] (with [`capability`]) → a
//! [`Sandbox`] → a [`SandboxedProcess`] → an [`Outcome`].

mod backend;
pub mod doctor;
mod engine;
mod error;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "tools")]
pub mod interpreter;
#[cfg(target_os = "linux")]
pub mod leftovers;
mod one_shot;
mod pool;
pub mod settings;
#[cfg(feature = "tools")]
pub mod tools;

pub use hotcell_core::{
    backend as contracts, capability, config, layers, outcome, plan, policy, presets, runtime, schema, secret, text,
};

/// Clients of remote sandbox servers, for what boxes do not offer: sessions, background commands, snapshots, code interpreters.
#[cfg(feature = "remote")]
pub use hotcell_remote as remote;

/// The examples in the documentation of remote boxes, which are compiled as tests.
#[cfg(all(doctest, feature = "remote"))]
#[doc = include_str!("../../../docs/remote.md")]
pub struct RemoteExamples;

pub use backend::create_backend;
pub use engine::{Engine, EngineOptions};
pub use error::EngineError;
pub use hotcell_backends::progress::{Progress, PullProgress};
pub use hotcell_backends::registry::BackendError;
pub use hotcell_core::backend::{
    CaptureLimits, CapturedStream, Change, ChangeKind, CreateError, DestroyError, FileEntry, FileKind, Files,
    FilesError, OutputEvent, OutputEvents, ProcessError, ProcessId, ProcessIo, ProcessStdin, Sandbox, SandboxBackend,
    SandboxId, SandboxOutput, SandboxedProcess, Signal, SpawnConfig, SpawnError, StdinMode, Stream, StreamCapture,
    TtySize, Workspace, WorkspaceError,
};
pub use hotcell_core::capability::{Capabilities, Capability, Control};
pub use hotcell_core::outcome::{Outcome, Status, Usage};
pub use hotcell_core::plan::{NoBackend, Plan};
pub use hotcell_core::policy::Policy;
pub use hotcell_core::runtime::{Isolation, RuntimeKind};
pub use one_shot::OneShot;
pub use pool::{Pool, PooledSandbox};
