//! Why code could not be run.

use hotcell_core::backend::{FilesError, ProcessError, SpawnError};
use hotcell_core::text::Printable;

/// Why code could not be run. What the code itself did wrong is no error, but part of its output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No such language.
    #[error("`{}` is not a language that is known here; there are {known}", Printable(.language))]
    UnknownLanguage {
        /// What was asked for.
        language: String,
        /// Those that there are.
        known: String,
    },
    /// The language has no contexts.
    #[error("`{}` code runs once, each time in a new process: it has no contexts", Printable(.language))]
    NoContexts {
        /// Which.
        language: String,
    },
    /// What runs the language is not in the box.
    #[error("`{}` is not in the box; {hint}", Printable(.program))]
    NotInstalled {
        /// What is missing.
        program: String,
        /// How to get it.
        hint: String,
    },
    /// The process that runs the code did not come up.
    #[error("`{}` did not get ready to run code: {reason}", Printable(.program))]
    NotReady {
        /// What was started.
        program: String,
        /// How it ended, and what it said.
        reason: String,
    },
    /// The context is of another language or box, or there are too many.
    #[error("the context `{}` cannot be used: {reason}", Printable(.context))]
    Context {
        /// Which.
        context: String,
        /// Why.
        reason: String,
    },
    /// The request itself is wrong.
    #[error("{what} is not valid: {reason}")]
    Invalid {
        /// Which part.
        what: String,
        /// Why.
        reason: String,
    },
    /// The box could not start it.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The box lost it.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file that it needs could not be put into the box.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl CodeError {
    pub(super) fn invalid(what: &str, reason: impl Into<String>) -> Self {
        Self::Invalid { what: what.to_owned(), reason: reason.into() }
    }

    pub(super) fn context(context: &str, reason: impl Into<String>) -> Self {
        Self::Context { context: context.to_owned(), reason: reason.into() }
    }
}
