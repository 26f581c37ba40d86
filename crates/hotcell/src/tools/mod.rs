//! What an agent's model may call: commands, code and files in one box that is kept.
//!
//! A [`Toolbox`] is a box, an interpreter and processes in the background. [`Toolbox::definitions`] are the tools, with a JSON
//! Schema and a description written for a model; [`Toolbox::call`] calls one by its name. Each is also a method with types:
//!
//! ```
//! use hotcell::tools::{ExecShell, Toolbox, ToolboxOptions, WriteFile};
//! use hotcell::{Engine, Policy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new().await?;
//! let toolbox = Toolbox::open(&engine, ToolboxOptions::new(Policy::default(), "/tmp")).await?;
//! toolbox.write_file(WriteFile::new("hello.sh", "echo hello from the box\n")).await?;
//! let said = toolbox.exec_shell(ExecShell::new("sh hello.sh")).await?;
//! assert_eq!(said.stdout, "hello from the box\n");
//!
//! // What a model asks for by name and JSON; a refusal is part of the result.
//! let result = toolbox.call("read_file", serde_json::json!({"path": "/root/.ssh/id_rsa"}), None).await;
//! assert!(result.is_error);
//! assert_eq!(result.structured["error"]["kind"], "not_found");
//! toolbox.close().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! What a call asks for can only narrow the policy. Paths are resolved inside the box, by the kernel, with the rights of the
//! code in it: a file tool can do nothing that a command could not. Everything in a result is bounded, and nothing in its text
//! drives a terminal.

mod access;
pub mod anthropic;
mod background;
mod catalogue;
mod code;
mod denials;
mod edit;
mod error;
mod exec;
mod leftovers;
mod list;
pub mod openai;
mod options;
mod processes;
mod read;
mod result;
mod rules;
mod search;
mod status;
mod text;
mod workspace;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotcell_core::plan::EnforcementReport;
use hotcell_core::policy::Policy;
use serde_json::Value;

pub use code::{Raised, RunCode, RunCodeResult, ShownResult};
pub use denials::{Denial, Evidence};
pub use edit::{EditFile, EditFileResult};
pub use error::{ErrorKind, ToolError};
pub use exec::{ExecShell, ExecShellResult};
pub use list::{EntryKind, ListFiles, ListFilesResult, ListedFile};
pub use options::{OpenError, ToolLimits, ToolboxOptions};
pub use processes::{Key, ProcessInput, ProcessInputResult, ProcessOutput, ProcessOutputResult, StopProcess};
pub use read::{ContentEncoding, ReadEncoding, ReadFile, ReadFileResult};
pub use result::{CallProgress, Image, OnProgress, ToolDefinition, ToolResult};
pub use search::{Match, SearchFiles, SearchFilesResult};
pub use status::{
    ContextShown, ControlShown, LimitShown, PathAccess, ProcessShown, SandboxStatus, SandboxStatusResult,
};
pub use workspace::{
    ChangedFile, ChangedHow, WorkspaceCommit, WorkspaceCommitResult, WorkspaceDiff, WorkspaceDiffResult,
};
pub use write::{WriteEncoding, WriteFile, WriteFileResult};

use access::Shared;

use crate::Engine;

/// How long [`Toolbox::close`] waits for calls that nobody polls.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// A box and what a model may do in it. Cheap to clone; [`Toolbox::close`] removes the box, as does dropping the last clone.
///
/// Calls may be made in parallel from any task. Dropping the future of a call ends what it had started in the foreground.
#[derive(Debug, Clone)]
pub struct Toolbox {
    shared: Arc<Shared>,
}

impl Toolbox {
    /// Makes the box.
    pub async fn open(engine: &Engine, options: ToolboxOptions) -> Result<Self, OpenError> {
        catalogue::check_names(options.tools.as_deref())?;
        Ok(Self { shared: Arc::new(Shared::open(engine, options).await?) })
    }

    /// The tools that there are.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        catalogue::definitions(&self.shared)
    }

    /// Calls a tool. What fails is part of the result. Dropping the future ends what the call had started in the foreground.
    pub async fn call(&self, name: &str, arguments: Value, progress: Option<OnProgress>) -> ToolResult {
        catalogue::call(self, name, arguments, progress).await
    }

    /// What holds the box, by which mechanism.
    pub fn report(&self) -> &EnforcementReport {
        &self.shared.report
    }

    /// What the code in the box may do.
    pub fn policy(&self) -> &Policy {
        &self.shared.options.policy
    }

    /// The directory that relative paths start from.
    pub fn workspace(&self) -> &Path {
        &self.shared.options.workspace
    }

    /// Whether a process that a call started in the background runs.
    pub fn runs_in_background(&self) -> bool {
        self.shared.processes.any_running()
    }

    /// Ends all calls and processes, and removes the box with everything in it. Calls after this fail with
    /// [`ErrorKind::Lost`].
    ///
    /// A call whose future is kept and not polled keeps the box, too: this waits for it two seconds and no longer, and the box is removed when
    /// that future is polled or dropped. Dropping the future of `close` changes nothing.
    pub async fn close(&self) {
        let shared = Arc::clone(&self.shared);
        let closing = tokio::spawn(async move { shared.close().await });
        let _ = tokio::time::timeout(CLOSE_PATIENCE, closing).await;
    }
}
