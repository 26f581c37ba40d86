//! What a model is told when a call fails: what was refused, by which rule, and what it may do instead.

use std::fmt;

use hotcell_core::backend::{FilesError, ProcessError, SpawnError};
use hotcell_core::text::Printable;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ToolError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The rule of the policy that refused it, as it is written in a configuration; none where no rule did.
    pub rule: Option<String>,
    /// What failed, on what, why. Nothing in it drives a terminal.
    pub message: String,
    /// What the model may do instead.
    pub instead: Option<String>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// A rule of the policy does not allow it.
    Refused,
    /// There is no such file, directory, process or tool.
    NotFound,
    /// More than a limit allows.
    TooLarge,
    /// It took too long.
    Timeout,
    /// The arguments are not what the tool takes.
    InvalidInput,
    /// What is at the path is of another kind.
    WrongKind,
    /// The text to replace is not there, or more than once.
    NoMatch,
    /// Something else has to end first.
    Busy,
    /// The host's files changed meanwhile.
    Conflict,
    /// This box cannot do that.
    Unsupported,
    /// The box is gone.
    Lost,
    /// Something failed that is neither the model's nor the policy's doing.
    Failed,
}

impl ErrorKind {
    /// Its name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NotFound => "not_found",
            Self::TooLarge => "too_large",
            Self::Timeout => "timeout",
            Self::InvalidInput => "invalid_input",
            Self::WrongKind => "wrong_kind",
            Self::NoMatch => "no_match",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::Unsupported => "unsupported",
            Self::Lost => "lost",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl ToolError {
    /// A failure that no rule of the policy is the reason of.
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, rule: None, message: message.into(), instead: None }
    }

    /// Arguments that the tool does not take.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// The box is gone.
    pub(super) fn lost(reason: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Lost, format!("the box is gone: {}", Printable(&reason.to_string())))
            .instead("tell the person who runs you: files that were not committed are lost, and a new box is needed")
    }

    /// With the rule that refused it.
    pub(super) fn rule(mut self, rule: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self
    }

    /// With what the model may do instead.
    pub(super) fn instead(mut self, instead: impl Into<String>) -> Self {
        self.instead = Some(instead.into());
        self
    }

    /// As programs see it: `{"error": {"kind", "rule", "message", "instead"}}`.
    pub fn to_value(&self) -> Value {
        json!({ "error": {
            "kind": self.kind.as_str(),
            "rule": self.rule,
            "message": self.message,
            "instead": self.instead,
        }})
    }

    /// As a model reads it.
    pub fn to_text(&self) -> String {
        let mut text = format!("error ({}): {}", self.kind, self.message);
        if let Some(rule) = &self.rule {
            text.push_str("\nrule: ");
            text.push_str(rule);
        }
        if let Some(instead) = &self.instead {
            text.push_str("\ninstead: ");
            text.push_str(instead);
        }
        text
    }
}

impl From<ProcessError> for ToolError {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Lost { reason } => Self::lost(reason),
            ProcessError::Ended => Self::new(ErrorKind::NotFound, "the process has already ended")
                .instead("read what it wrote with process_output"),
            ProcessError::Unsupported { .. } => Self::new(ErrorKind::Unsupported, error.to_string()),
            other => Self::new(ErrorKind::Failed, Printable(&other.to_string()).to_string()),
        }
    }
}

impl From<SpawnError> for ToolError {
    fn from(error: SpawnError) -> Self {
        let message = error.to_string();
        match error {
            SpawnError::Lost { reason } => Self::lost(reason),
            SpawnError::NotFound { .. } => Self::new(ErrorKind::NotFound, message),
            SpawnError::NotExecutable { .. } => Self::new(ErrorKind::WrongKind, message),
            SpawnError::BadCwd { .. } => Self::new(ErrorKind::NotFound, message)
                .rule("filesystem: only what its rules name, and the system directories, can be seen")
                .instead("leave `cwd` out to start in the workspace"),
            SpawnError::TooLong { .. } => Self::new(ErrorKind::TooLarge, message),
            SpawnError::InvalidArgument { .. } => Self::invalid(message),
            SpawnError::NotAllowed { .. } => Self::new(ErrorKind::Refused, message),
            SpawnError::LimitTooLow { limit, .. } => Self::new(ErrorKind::Refused, message)
                .rule(format!("limits: {limit}"))
                .instead("stop background processes with stop_process, then try again"),
            _ => Self::new(ErrorKind::Failed, message),
        }
    }
}

/// A failure of the files of a box, where the policy has nothing to say about the path.
pub(super) fn of_files(error: &FilesError) -> ToolError {
    let kind = match error {
        FilesError::NotFound { .. } => ErrorKind::NotFound,
        FilesError::Denied { .. } => ErrorKind::Refused,
        FilesError::BadPath { .. } => ErrorKind::InvalidInput,
        FilesError::WrongKind { .. } => ErrorKind::WrongKind,
        FilesError::TooLarge { .. } => ErrorKind::TooLarge,
        FilesError::Lost { reason } => return ToolError::lost(reason),
        _ => ErrorKind::Failed,
    };
    let mut message = error.to_string();
    if let FilesError::Failed { source, .. } = error {
        message = format!("{message}: {}", Printable(&source.to_string()));
    }
    ToolError::new(kind, message)
}
