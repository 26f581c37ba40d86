//! Running code in a box: once, or in a context that remembers.
//!
//! A context is a process in the box that keeps variables between pieces of code. It speaks a small framed protocol over its
//! standard input and output. What it says is what untrusted code says: it is bounded and checked, and never trusted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_core::backend::{CapturedStream, Sandbox, Stream};
use hotcell_core::outcome::Status;
use serde::Serialize;

/// The languages that code may be written in: those that are built in, and those of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    more: BTreeMap<String, Vec<String>>,
}

impl Languages {
    /// Adds a language: its name and the command that runs a file, whose path is appended.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, command: Vec<String>) -> Self {
        self.more.insert(name.into(), command);
        self
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.more.keys().map(String::as_str).collect()
    }
}

/// A piece of code to run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Code {
    /// The language's name.
    pub language: String,
    /// The code itself.
    pub source: String,
    /// The context that remembers; none runs it once, in a process of its own.
    pub context: Option<String>,
    /// How long it may take; none is the box's own limit.
    pub timeout: Option<Duration>,
    /// Where it starts, if not where the policy says. Only for code that runs once.
    pub cwd: Option<PathBuf>,
    /// Variables besides those of the policy. Only for code that runs once.
    pub env: BTreeMap<String, String>,
}

impl Code {
    /// Code that runs once.
    pub fn new(language: impl Into<String>, source: impl Into<String>) -> Self {
        Self { language: language.into(), source: source.into(), ..Self::default() }
    }

    /// In a context that remembers.
    #[must_use]
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.context = Some(name.into());
        self
    }

    /// With a time limit of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Something that the code did, told while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum CodeEvent<'a> {
    /// It wrote this.
    Output(Stream, &'a [u8]),
    /// It shows this.
    Result(&'a RichResult),
}

/// Who hears of what the code does while it runs.
pub type OnEvent<'a> = &'a (dyn Fn(CodeEvent<'_>) + Send + Sync);

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "status")]
#[non_exhaustive]
pub enum CodeStatus {
    /// To its end.
    Done,
    /// With an exception, or an exit status other than 0.
    Failed {
        /// The exit status of code that ran once.
        exit_code: Option<i32>,
    },
    /// Its time was over. A context may have lost its variables: see [`CodeOutput::context_was_replaced`].
    TimedOut,
    /// Somebody interrupted it.
    Interrupted,
    /// Its process is gone: killed by a signal, by a limit of the box, or by itself.
    Crashed {
        /// What ended it.
        reason: String,
    },
}

/// Something that code shows: the same thing in one or more formats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RichResult {
    /// Whether it is the value of the last expression; else something that was displayed on the way.
    pub is_value: bool,
    /// Content by media type; what is not text is in Base64.
    pub data: BTreeMap<String, String>,
}

/// What was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exception {
    /// Its type.
    pub name: String,
    /// What it says.
    pub message: String,
    /// Where it came from, with the lines of the code.
    pub traceback: String,
}

/// What a piece of code did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodeOutput {
    /// How it ended.
    pub status: CodeStatus,
    /// What it wrote, head and tail.
    pub stdout: CapturedStream,
    /// What it wrote to standard error, head and tail.
    pub stderr: CapturedStream,
    /// What it showed.
    pub results: Vec<RichResult>,
    /// What it raised.
    pub exception: Option<Exception>,
    /// Whether the context had to be made anew, so that its variables are lost.
    pub context_was_replaced: bool,
    /// What might help: how to install what is missing.
    pub hint: Option<String>,
    /// How its process ended, where it has.
    pub process: Option<Status>,
    /// How long it took.
    pub wall: Duration,
}

/// A context that there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContextInfo {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: String,
    /// How many pieces of code it has run.
    pub count: u64,
    /// Whether it is running one.
    pub busy: bool,
}

/// Why code could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No such language.
    #[error("`{language}` is not a language that is known here; there are {known}")]
    UnknownLanguage {
        /// What was asked for.
        language: String,
        /// Those that there are.
        known: String,
    },
    /// The language has no contexts.
    #[error("`{language}` code runs once, each time in a new process: it has no contexts")]
    NoContexts {
        /// Which.
        language: String,
    },
    /// What runs the language is not in the box.
    #[error("`{program}` is not in the box; {hint}")]
    NotInstalled {
        /// What is missing.
        program: String,
        /// How to get it.
        hint: String,
    },
    /// The context is of another language, busy, or there are too many.
    #[error("the context `{context}` cannot be used: {reason}")]
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
    Spawn(#[from] hotcell_core::backend::SpawnError),
    /// The box lost it.
    #[error(transparent)]
    Process(#[from] hotcell_core::backend::ProcessError),
    /// A file that it needs could not be put into the box.
    #[error(transparent)]
    Files(#[from] hotcell_core::backend::FilesError),
}

/// Runs code in one box, and keeps its contexts.
#[derive(Debug, Default)]
pub struct Interpreter {
    languages: Languages,
}

impl Interpreter {
    /// Without any context yet.
    pub fn new(languages: Languages) -> Self {
        Self { languages }
    }

    /// The languages that it knows.
    pub fn languages(&self) -> &Languages {
        &self.languages
    }

    /// Runs a piece of code to its end. Dropping the future ends what ran once, and interrupts a context.
    pub async fn run(
        &self,
        _sandbox: &dyn Sandbox,
        code: &Code,
        _on_event: OnEvent<'_>,
    ) -> Result<CodeOutput, CodeError> {
        Err(CodeError::UnknownLanguage { language: code.language.clone(), known: self.languages.names().join(", ") })
    }

    /// Interrupts what a context runs; whether it ran something.
    pub async fn interrupt(&self, _context: &str) -> Result<bool, CodeError> {
        Ok(false)
    }

    /// Makes a context anew, without its variables; whether there was one.
    pub async fn restart(&self, _sandbox: &dyn Sandbox, _context: &str) -> Result<bool, CodeError> {
        Ok(false)
    }

    /// Ends a context; whether there was one.
    pub async fn remove(&self, _context: &str) -> Result<bool, CodeError> {
        Ok(false)
    }

    /// The contexts that there are.
    pub fn contexts(&self) -> Vec<ContextInfo> {
        Vec::new()
    }

    /// Ends all contexts.
    pub async fn close(&self) {}
}
