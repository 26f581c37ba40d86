//! One error per operation: what failed, on what, why, what to do.

use std::io;
use std::path::PathBuf;

use crate::plan::Refusal;
use crate::text::{Printable, PrintablePath};

/// Why a box was not made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The backend cannot hold the policy.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A path of the policy does not exist or cannot be used.
    #[error("cannot put `{}` into the box: {reason}; {hint}", PrintablePath(.path))]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// A step of making the box failed.
    #[error("could not set up the box: {step} failed: {reason}; {hint}")]
    Setup {
        /// Which step.
        step: String,
        /// What the kernel or server said.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// The backend does not answer.
    #[error("the {backend} backend is not available: {reason}; {hint}")]
    Unavailable {
        /// Its name.
        backend: String,
        /// Why.
        reason: String,
        /// What to do.
        hint: String,
    },
}

/// Why a command was not started. Nothing of it is left; the box is still usable, except after
/// [`SpawnError::Lost`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program in the box. Shells exit with 127.
    #[error("`{}` was not found in the box", Printable(.program))]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// The program cannot be executed. Shells exit with 126.
    #[error("`{}` cannot be executed: {reason}", Printable(.program))]
    NotExecutable {
        /// As it was asked for.
        program: String,
        /// Why.
        reason: String,
    },
    /// The working directory is not in the box, or is no directory.
    #[error("cannot start in `{}`: {reason}; name a directory that the policy makes visible", PrintablePath(.path))]
    BadCwd {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Arguments and environment are larger than the kernel takes.
    #[error(
        "the arguments and the environment are too long ({bytes} bytes, {limit} are possible); pass the data through stdin or a file"
    )]
    TooLong {
        /// How long they are.
        bytes: u64,
        /// How long they may be.
        limit: u64,
    },
    /// Something in the request that no kernel accepts.
    #[error("{what} is not valid: {reason}")]
    InvalidArgument {
        /// Which part.
        what: String,
        /// Why.
        reason: String,
    },
    /// The policy does not allow what the request asks for.
    #[error("the policy does not allow {what}; {hint}")]
    NotAllowed {
        /// What was asked for.
        what: String,
        /// What to change.
        hint: String,
    },
    /// A limit of the box is too low to start the command.
    #[error("the {limit} limit is too low to start a command: {reason}; raise it")]
    LimitTooLow {
        /// Which limit.
        limit: String,
        /// What happened.
        reason: String,
    },
    /// A step of starting the command failed.
    #[error("could not start the command: {step} failed: {reason}")]
    Setup {
        /// Which step.
        step: String,
        /// What the kernel or server said.
        reason: String,
    },
    /// The box is gone.
    #[error("the box is gone: {reason}; create a new one")]
    Lost {
        /// Why.
        reason: String,
    },
}

impl SpawnError {
    /// What a shell would exit with: 127, 126, or 125 for everything that is not about the program.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 125,
        }
    }
}

/// Why something could not be done with a command.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// It has ended.
    #[error("the command has already ended")]
    Ended,
    /// It has no terminal.
    #[error("the command has no terminal; ask for one when spawning it")]
    NoTerminal,
    /// The backend cannot do this.
    #[error("this backend cannot {operation}")]
    Unsupported {
        /// What was asked for.
        operation: String,
    },
    /// The kernel or server did not do it.
    #[error("could not {operation} the command: {reason}")]
    Failed {
        /// What was asked for, as a verb.
        operation: String,
        /// What was said.
        reason: String,
    },
    /// The box is gone, so how the command ended is not known. It has ended.
    #[error("the box is gone: {reason}; the command has been ended")]
    Lost {
        /// Why.
        reason: String,
    },
}

/// Why a box may not be gone completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DestroyError {
    /// Something is left.
    #[error("could not remove {what} of the box: {reason}; {hint}")]
    LeftBehind {
        /// What is left.
        what: String,
        /// Why.
        reason: String,
        /// How to remove it.
        hint: String,
    },
    /// It is not known whether something is left.
    #[error("lost touch with the box while removing it: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
}

/// Why a file operation in a box failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// There is nothing at this path.
    #[error("`{}` does not exist in the box", PrintablePath(.path))]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The policy or the permissions do not allow it.
    #[error("not allowed to {operation} `{}` in the box", PrintablePath(.path))]
    Denied {
        /// What was tried, as a verb.
        operation: String,
        /// The path.
        path: PathBuf,
    },
    /// A path that is not absolute or contains a NUL byte.
    #[error("`{}` is not a path in the box: {reason}", PrintablePath(.path))]
    BadPath {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What is at the path is of another kind than the operation needs.
    #[error("`{}` is not a {expected}", PrintablePath(.path))]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// What would be needed.
        expected: &'static str,
    },
    /// There is more than the caller wants.
    #[error("`{}` is larger than the limit of {limit}", PrintablePath(.path))]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// The caller's limit.
        limit: u64,
    },
    /// The kernel or server did not do it.
    #[error("could not {operation} `{}` in the box", PrintablePath(.path))]
    Failed {
        /// What was tried, as a verb.
        operation: String,
        /// The path.
        path: PathBuf,
        /// What was said.
        #[source]
        source: io::Error,
    },
    /// The box is gone.
    #[error("the box is gone: {reason}; create a new one")]
    Lost {
        /// Why.
        reason: String,
    },
}

/// Why an overlay could not be read, committed or thrown away.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// Commands are running.
    #[error("commands are still running in the box; wait for them or end them first")]
    Busy,
    /// The changes touch protected paths; nothing was committed.
    #[error("the changes touch protected paths and nothing was committed: {}", joined(.paths))]
    Protected {
        /// Which.
        paths: Vec<PathBuf>,
    },
    /// The tree changed under the overlay; nothing was committed.
    #[error("`{}` changed on the host since the box was made, and nothing was committed; look at the difference and apply it by hand",
        PrintablePath(.path))]
    Conflict {
        /// Where.
        path: PathBuf,
    },
    /// The kernel or server did not do it.
    #[error("could not {operation} `{}`{}", PrintablePath(.path), after(.applied))]
    Failed {
        /// What was tried, as a verb.
        operation: String,
        /// On what.
        path: PathBuf,
        /// How many changes had been applied before.
        applied: usize,
        /// What was said.
        #[source]
        source: io::Error,
    },
    /// The box is gone.
    #[error("the box is gone: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
}

fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", PrintablePath(path))).collect::<Vec<_>>().join(", ")
}

fn after(applied: &usize) -> String {
    if *applied == 0 { String::new() } else { format!(" after {applied} changes were applied") }
}
