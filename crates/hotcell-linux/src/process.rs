//! Programs inside a box.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::cell::{CellError, CellShared, check_nul};
use crate::socket;
use crate::wire::{RECORD_MAX, Writer, order, spawn_flag, spawn_stage};

/// What the program's standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Pipes; with or without one for standard input (without: nothing can be read).
    Pipes {
        /// Whether there is a pipe to standard input.
        input: bool,
    },
    /// A terminal of the box's own, with this many rows and columns.
    Terminal {
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
}

/// A program to start.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program: a path inside the box, or a name to be looked up.
    pub program: OsString,
    /// Its arguments, without the program itself.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory, inside the box.
    pub directory: PathBuf,
    /// The directories, separated by colons, in which a program without a slash is looked up.
    pub search: OsString,
    /// Resource limits (`RLIMIT_*`): which, soft, hard.
    pub limits: Vec<(u32, u64, u64)>,
    /// Its standard descriptors.
    pub standard: Standard,
}

/// A program could not be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// There is no such program in the box.
    #[error("`{}` is not there", program.display())]
    NotFound {
        /// The program as it was named.
        program: OsString,
    },
    /// It is there but cannot be executed.
    #[error("`{}` cannot be executed: {source}", program.display())]
    NotExecutable {
        /// The program as it was named.
        program: OsString,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The working directory cannot be entered.
    #[error("cannot enter the working directory `{}`: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Arguments and environment are larger than the kernel takes.
    #[error("the arguments and the environment are too long ({bytes} bytes)")]
    TooLong {
        /// How long they are.
        bytes: usize,
    },
    /// No more processes fit in the box.
    #[error("the box cannot start another process: {source}")]
    NoProcess {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another preparation failed.
    #[error("cannot {step}: {source}")]
    Prepare {
        /// What was being done.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The box is gone, or an argument was refused.
    #[error(transparent)]
    Cell(#[from] CellError),
}

impl LaunchError {
    pub(crate) fn from_stage(stage: u8, errno: i32, launch: &Launch) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        let program = launch.program.clone();
        match (stage, errno) {
            (spawn_stage::EXEC, libc::ENOENT | libc::ENOTDIR) => Self::NotFound { program },
            (spawn_stage::EXEC, libc::E2BIG) => Self::TooLong { bytes: launch.size() },
            (spawn_stage::EXEC, libc::ENOMEM) => Self::NoProcess { source },
            (spawn_stage::EXEC, _) => Self::NotExecutable { program, source },
            (spawn_stage::DIRECTORY, _) => Self::Directory { directory: launch.directory.clone(), source },
            (spawn_stage::CLONE | spawn_stage::TABLE, _) => Self::NoProcess { source },
            (spawn_stage::TERMINAL, _) => Self::Prepare { step: "make a terminal", source },
            (spawn_stage::LIMITS, _) => Self::Prepare { step: "set resource limits", source },
            (spawn_stage::SESSION, _) => Self::Prepare { step: "make a session", source },
            (spawn_stage::PIPES, _) => Self::Prepare { step: "make the pipes", source },
            (spawn_stage::FILTER, _) => Self::Prepare { step: "load the command's system call filter", source },
            _ => Self::Prepare { step: "read the order", source },
        }
    }
}

/// The pipes of a program: the ends that go into the box, and ours.
pub(crate) struct Plumbing {
    into_box: Vec<OwnedFd>,
    /// Standard input is nothing, which every program of every box can share.
    empty_input: bool,
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    error: Option<OwnedFd>,
}

impl Plumbing {
    fn lay(standard: Standard) -> io::Result<Self> {
        let Standard::Pipes { input } = standard else {
            return Ok(Self { into_box: Vec::new(), empty_input: false, input: None, output: None, error: None });
        };
        let mut into_box = Vec::with_capacity(3);
        let mut input_write = None;
        if input {
            let (read, write) = socket::pipe()?;
            into_box.push(read);
            input_write = Some(write);
        } else {
            nothing()?;
        }
        let (output_read, output_write) = socket::pipe()?;
        let (error_read, error_write) = socket::pipe()?;
        into_box.extend([output_write, error_write]);
        Ok(Self {
            into_box,
            empty_input: !input,
            input: input_write,
            output: Some(output_read),
            error: Some(error_read),
        })
    }

    pub(crate) fn theirs(&self) -> Vec<BorrowedFd<'_>> {
        let nothing = if self.empty_input { nothing().ok().map(|file| file.as_fd()) } else { None };
        nothing.into_iter().chain(self.into_box.iter().map(AsFd::as_fd)).collect()
    }

    /// Our ends; those in the box are closed here.
    pub(crate) fn ours(self, terminal: Option<OwnedFd>) -> Ours {
        Ours { input: self.input, output: self.output, error: self.error, terminal }
    }
}

/// A file from which nothing can be read, opened once.
fn nothing() -> io::Result<&'static File> {
    static NOTHING: OnceLock<File> = OnceLock::new();
    if let Some(file) = NOTHING.get() {
        return Ok(file);
    }
    let file = File::open("/dev/null")?;
    Ok(NOTHING.get_or_init(|| file))
}

/// Our ends of a program's standard descriptors.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    error: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

impl Launch {
    fn size(&self) -> usize {
        let arguments: usize = self.arguments.iter().map(|argument| argument.len() + 1).sum();
        let environment: usize = self.environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        self.program.len() + 1 + arguments + environment
    }

    pub(crate) fn encode(&self, token: u32) -> Result<(Vec<u8>, Plumbing), LaunchError> {
        check_nul("the program", &self.program)?;
        check_nul("the working directory", self.directory.as_os_str())?;
        if self.size() > RECORD_MAX / 2 {
            return Err(LaunchError::TooLong { bytes: self.size() });
        }
        let (flags, rows, columns) = match self.standard {
            Standard::Terminal { rows, columns } => (spawn_flag::TERMINAL, rows, columns),
            Standard::Pipes { input: true } => (0, 0, 0),
            Standard::Pipes { input: false } => (spawn_flag::NO_INPUT, 0, 0),
        };
        let mut record = Writer::new(order::SPAWN)
            .u32(token)
            .u32(flags)
            .u32(u32::from(rows))
            .u32(u32::from(columns))
            .path(&self.directory)
            .text(&self.search)
            .u32(self.limits.len() as u32);
        for (resource, soft, hard) in &self.limits {
            record = record.u32(*resource).u64(*soft).u64(*hard);
        }
        record = record.u32(self.arguments.len() as u32 + 1).text(&self.program);
        for argument in &self.arguments {
            check_nul("an argument", argument)?;
            record = record.text(argument);
        }
        record = record.u32(self.environment.len() as u32);
        for (name, value) in &self.environment {
            check_nul("an environment variable", name)?;
            check_nul("an environment variable", value)?;
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            record = record.text(OsStr::from_bytes(pair.as_bytes()));
        }
        let plumbing =
            Plumbing::lay(self.standard).map_err(|source| LaunchError::Prepare { step: "make the pipes", source })?;
        Ok((record.finish(), plumbing))
    }
}

/// How a program ended, and what it and the children that it waited for used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one killed it.
    pub signal: Option<i32>,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest resident set of one process.
    pub max_resident_kib: u64,
}

impl Ended {
    pub(crate) fn new(status: i32, user_micros: u64, system_micros: u64, max_resident_kib: u64) -> Self {
        let exited = libc::WIFEXITED(status);
        Self {
            code: exited.then(|| libc::WEXITSTATUS(status)),
            signal: (!exited).then(|| libc::WTERMSIG(status)),
            user: Duration::from_micros(user_micros),
            system: Duration::from_micros(system_micros),
            max_resident_kib,
        }
    }
}

/// A program that runs in a box. Dropping it kills the program and what it started, unless it has ended.
#[derive(Debug)]
pub struct Running {
    signaler: Signaler,
    end: Option<oneshot::Receiver<Ended>>,
    ours: Ours,
    ended: bool,
}

impl Running {
    pub(crate) fn new(signaler: Signaler, end: oneshot::Receiver<Ended>, ours: Ours) -> Self {
        Self { signaler, end: Some(end), ours, ended: false }
    }

    /// A number for it, unique in its box.
    pub fn token(&self) -> u32 {
        self.signaler.token
    }

    /// Takes the pipe to its standard input.
    pub fn take_input(&mut self) -> Option<OwnedFd> {
        self.ours.input.take()
    }

    /// Takes the pipe from its standard output.
    pub fn take_output(&mut self) -> Option<OwnedFd> {
        self.ours.output.take()
    }

    /// Takes the pipe from its standard error.
    pub fn take_error(&mut self) -> Option<OwnedFd> {
        self.ours.error.take()
    }

    /// Takes our end of its terminal.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.ours.terminal.take()
    }

    /// Whether its output comes to an end of its own after the program's, however many daemons hold it: then it is read to
    /// the end of the file. If not, what is in the pipes when the program ends is all that it wrote.
    pub fn output_ends(&self) -> bool {
        self.signaler.shared.is_bridged()
    }

    /// A handle that can signal it while somebody else waits for it.
    pub fn signaler(&self) -> Signaler {
        self.signaler.clone()
    }

    /// Waits for its end. Cancel-safe; after the first result, `Gone`.
    pub async fn wait(&mut self) -> Result<Ended, CellError> {
        let Some(end) = self.end.as_mut() else { return Err(CellError::Gone) };
        let result = end.await;
        self.end = None;
        self.ended = true;
        result.map_err(|_| CellError::Gone)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.signaler.kill_tree_now();
        }
    }
}

/// Signals one program of a box.
#[derive(Debug, Clone)]
pub struct Signaler {
    shared: Arc<CellShared>,
    token: u32,
    since: u64,
}

impl Signaler {
    pub(crate) fn new(shared: Arc<CellShared>, token: u32, since: u64) -> Self {
        Self { shared, token, since }
    }

    fn kill_record(&self) -> Vec<u8> {
        Writer::new(order::KILL_TREE).u32(self.token).u64(self.since).finish()
    }

    /// Sends a signal to its process group.
    pub async fn signal(&self, signal: i32) -> Result<(), CellError> {
        self.shared.tell(&Writer::new(order::SIGNAL).u32(self.token).i32(signal).finish()).await
    }

    /// Gives its terminal another size, where that is on the far side of a stream ([`Running::output_ends`]); elsewhere
    /// [`crate::Terminal::resize`] does it.
    pub async fn resize(&self, rows: u16, columns: u16) -> Result<(), CellError> {
        if !self.shared.is_bridged() {
            return Err(CellError::Conversation(io::ErrorKind::Unsupported.into()));
        }
        let record = Writer::new(order::RESIZE).u32(self.token).u32(rows.into()).u32(columns.into()).finish();
        self.shared.tell(&record).await
    }

    /// Kills it and everything that it started, daemons included, even if it has ended itself.
    pub async fn kill_tree(&self) -> Result<(), CellError> {
        self.shared.tell(&self.kill_record()).await
    }

    fn kill_tree_now(&self) {
        self.shared.tell_now(&self.kill_record());
    }
}
