//! A piece of code, and what came of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use hotcell_core::backend::{CapturedStream, ProcessStdin, Stream};
use hotcell_core::outcome::Status;
use serde::Serialize;

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
    /// What the code is called, such as the path of a script: what its arguments begin with. Without a name they begin as they do for code that is
    /// given on a command line, with `-c` or `-e`. Only for code that runs once.
    pub name: Option<OsString>,
    /// Its arguments, as the language has them: `sys.argv`, `process.argv`, `$1` and so on. Only for code that runs once.
    pub args: Vec<OsString>,
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

/// Who writes to the standard input of code, once that is the code's own; see [`Interpreter::run_with_stdin`](super::Interpreter::run_with_stdin).
pub type Feed<'a> = Box<dyn FnOnce(Box<dyn ProcessStdin>) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send + 'a>;

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
        /// The exit status; that of code in a context is what it would have been as a script.
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

/// What a piece of code did. Everything in it but the status is what untrusted code says of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodeOutput {
    /// How it ended.
    pub status: CodeStatus,
    /// What it wrote, head and tail.
    pub stdout: CapturedStream,
    /// What it wrote to standard error, head and tail. The traceback of an exception is not in it, but in [`CodeOutput::exception`].
    pub stderr: CapturedStream,
    /// What it showed.
    pub results: Vec<RichResult>,
    /// How many results were left out, because they were too many, too large, cut off, or no valid results.
    pub results_left_out: u64,
    /// What it raised.
    pub exception: Option<Exception>,
    /// Whether code in a context asked for its own end, as `sys.exit()` does. Python and Node go on with their variables; a shell is made anew.
    pub exited: bool,
    /// Whether the variables of the context are lost: its process ended in this call, or since the one before.
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
