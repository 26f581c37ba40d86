//! The contracts that every backend implements.
//!
//! ```text
//! SandboxBackend ──probe──▶ Capabilities ──plan──▶ Plan ──create──▶ Sandbox ──spawn──▶ SandboxedProcess ──wait──▶ Outcome
//!                                                                   │  ├─ files():     Files
//!                                                                   │  └─ workspace(): Workspace
//!                                                                   └─ destroy, or Drop
//! ```
//!
//! What holds for all of them:
//!
//! - **Fail closed.** A backend holds everything in the [`Plan`] or returns an error and leaves nothing behind.
//! - **Cancellation.** Every future may be dropped at any await point. What a dropped `create` or `spawn` had begun
//!   is undone. Dropping the future of `wait` changes nothing; it can be called again.
//! - **Drop.** Dropping a process ends it; dropping a sandbox ends everything in it and removes it. Drop does not
//!   block on the guest and reports no errors; call [`Sandbox::destroy`] to know that it is done.
//! - **Limits need no polling.** Timeouts and limits hold although nobody polls `wait` or reads output. Unread output
//!   stops the guest's writes; it is not buffered without bound.

mod error;
mod files;
mod id;
mod output;
mod process;
mod spawn;
mod workspace;

use std::fmt::Debug;

use async_trait::async_trait;

pub use error::{CreateError, DestroyError, FilesError, ProcessError, SpawnError, WorkspaceError};
pub use files::{FileEntry, FileKind, Files};
pub use id::{BadSandboxId, ProcessId, SandboxId};
pub use output::{CaptureLimits, CapturedStream, SandboxOutput, StreamCapture};
pub use process::{BadSignal, OutputEvent, OutputEvents, ProcessIo, ProcessStdin, SandboxedProcess, Signal, Stream};
pub use spawn::{SpawnConfig, StdinMode, TtySize};
pub use workspace::{Change, ChangeKind, Workspace};

use crate::capability::Capabilities;
use crate::plan::{EnforcementReport, Plan};
use crate::runtime::{Isolation, RuntimeKind};

/// A way of making boxes.
///
/// Call [`SandboxBackend::probe`], make a plan with [`crate::plan::plan`], then [`SandboxBackend::create`] as often as
/// wanted, from any task.
#[async_trait]
pub trait SandboxBackend: Send + Sync + Debug {
    /// Its name.
    fn kind(&self) -> RuntimeKind;

    /// How strongly its boxes are isolated at best; [`Capabilities::isolation`] says what holds on this machine.
    fn isolation(&self) -> Isolation;

    /// What it can hold on this machine, now, found by trying. Changes nothing outside, and is cheap enough to be
    /// called at start-up; callers keep the answer. A backend that cannot work here says so by controls that are
    /// unsupported, each with the reason.
    async fn probe(&self) -> Capabilities;

    /// Makes a box that holds the plan, ready to spawn in.
    ///
    /// The plan must come from this backend's own capabilities. If the machine has changed since the probe and a
    /// control cannot be held any more, this is [`CreateError::Refused`] and not a weaker box.
    async fn create(&self, plan: &Plan) -> Result<Box<dyn Sandbox>, CreateError>;
}

/// A live box.
///
/// Commands may be spawned one after another and in parallel; they see each other's processes and files. The limits of
/// the policy hold for the box as a whole, except the timeout and the output limit, which hold per command.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// Its name, unique on this machine.
    fn id(&self) -> &SandboxId;

    /// What was asked for and what holds it.
    fn report(&self) -> &EnforcementReport;

    /// Starts a command. On success it is running (or has already ended); on error nothing of it is left.
    async fn spawn(&self, config: SpawnConfig) -> Result<Box<dyn SandboxedProcess>, SpawnError>;

    /// Access to the files as the code in the box sees them, if the backend has it.
    fn files(&self) -> Option<&dyn Files> {
        None
    }

    /// The changes in overlay trees, if the policy has any and the backend can tell.
    fn workspace(&self) -> Option<&dyn Workspace> {
        None
    }

    /// Ends everything in the box and removes it; returns when nothing is left. Running commands end as
    /// [`crate::outcome::Status::Canceled`].
    async fn destroy(self: Box<Self>) -> Result<(), DestroyError>;
}
