//! The library's handle on one box.

mod join;
mod keeper;
mod native;
mod shared;
mod stage;

pub use join::Joined;
pub use keeper::Keeper;
pub(crate) use shared::CellShared;
pub use stage::{NotMade, Staged};

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::keeper::Unfinished;
use self::shared::{Answer, ForgetEnd, Origin, Reading, read_notices};
use crate::cgroup;
use crate::process::{Launch, LaunchError, Running, Signaler};
use crate::wire::{Writer, order};

/// The box, or the conversation with it, is gone.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CellError {
    /// It ended, or was ended.
    #[error("the box is gone")]
    Gone,
    /// An argument has a NUL byte in it.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which argument.
        what: &'static str,
    },
    /// Talking to its init failed.
    #[error("cannot talk to the box")]
    Conversation(#[source] io::Error),
}

/// A file operation inside the box failed: there, not on the host.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The kernel said no, inside the box.
    #[error(transparent)]
    Inside(io::Error),
    /// The box is gone.
    #[error(transparent)]
    Cell(#[from] CellError),
}

/// What everything in a box uses at one moment, by its own procfs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Processes and threads.
    pub tasks: u64,
    /// CPU time of what runs, in clock ticks.
    pub ticks: u64,
    /// Memory, shared pages counted by their share.
    pub memory_kib: u64,
}

/// How full the private file systems of a box are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Storage {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that still fit.
    pub free: u64,
    /// Files that still fit.
    pub free_files: u64,
}

impl Storage {
    fn of(root: &OwnedFd) -> io::Result<Self> {
        let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the call fills one statfs, which is read only if it succeeded.
        let found = unsafe {
            if libc::fstatfs(root.as_raw_fd(), found.as_mut_ptr()) < 0 {
                return Err(io::Error::last_os_error());
            }
            found.assume_init()
        };
        let block = found.f_bsize as u64;
        Ok(Self {
            used: (found.f_blocks - found.f_bfree) * block,
            free: found.f_bavail * block,
            free_files: found.f_ffree,
        })
    }
}

/// A live box. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Cell {
    shared: Arc<CellShared>,
    /// Here and not in what tasks share: who keeps the box can end when it is let go of, whatever lingers.
    keeper: Arc<dyn Keeper>,
    reader: JoinHandle<()>,
    gone: watch::Receiver<bool>,
    root: Option<OwnedFd>,
    uppers: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
}

/// What a live box is made of.
struct Parts {
    conversation: AsyncFd<OwnedFd>,
    unfinished: Unfinished,
    cgroup: Option<cgroup::Group>,
    root: Option<OwnedFd>,
    uppers: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
    origin: Origin,
}

impl Cell {
    fn assemble(parts: Parts) -> Self {
        let keeper = parts.unfinished.finish();
        let shared = Arc::new(CellShared::new(parts.conversation, &keeper, parts.cgroup, parts.origin));
        let (said_gone, gone) = watch::channel(false);
        let reader = tokio::spawn(read_notices(Reading::new(Arc::clone(&shared), said_gone)));
        Self { shared, keeper, reader, gone, root: parts.root, uppers: parts.uppers, listener: parts.listener }
    }

    /// How many bytes the private file systems of the box hold, and how many more fit: bytes and files.
    /// `None` where they cannot be looked at from here.
    pub fn storage(&self) -> io::Result<Option<Storage>> {
        self.root.as_ref().map(Storage::of).transpose()
    }

    /// The directories of changes of the overlays, in the order of the steps that made them.
    pub fn uppers(&self) -> &[OwnedFd] {
        &self.uppers
    }

    /// Takes the descriptor on which refused system calls are announced, if the filter was loaded that way.
    pub fn take_listener(&mut self) -> Option<OwnedFd> {
        self.listener.take()
    }

    /// The box's cgroup, for reading what it used.
    pub fn cgroup(&self) -> Option<&cgroup::Group> {
        self.shared.cgroup.as_ref()
    }

    /// Starts a program.
    pub async fn launch(&self, launch: Launch) -> Result<Running, LaunchError> {
        let token = self.shared.token();
        let (record, plumbing) = launch.encode(token)?;
        let (send_end, end) = oneshot::channel();
        let ends = ForgetEnd::new(&self.shared, token, send_end);
        let answer = self.shared.ask(token, &record, &plumbing.theirs()).await?;
        let (since, terminal) = match answer {
            Answer::Started { since, terminal } => (since, terminal),
            Answer::NotStarted { stage, errno } => return Err(LaunchError::from_stage(stage, errno, &launch)),
            Answer::Done { .. } | Answer::Sampled(_) => return Err(CellError::Gone.into()),
        };
        ends.keep();
        let signaler = Signaler::new(Arc::clone(&self.shared), token, since);
        Ok(Running::new(signaler, end, plumbing.ours(terminal)))
    }

    /// Sends a signal to everything in the box but its init.
    pub async fn signal_all(&self, signal: i32) -> Result<(), CellError> {
        self.shared.tell(&Writer::new(order::SIGNAL_ALL).u32(0).i32(signal).finish()).await
    }

    /// Kills everything in the box, at once and for good. [`Cell::gone`] says when it is done.
    pub fn kill(&self) {
        // The init ends at once if it is well; its keeper sees to it if it is not.
        self.shared.try_tell(&Writer::new(order::END).u32(0).finish());
        self.keeper.kill();
    }

    /// Waits until nothing of the box runs any more.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An error means that the reader ended, which it does when the box is gone.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Why a box with a [bridge](crate::bridge) was lost, if it was and that is known.
    pub fn broken(&self) -> Option<String> {
        self.shared.broken()
    }

    /// Opens a file inside the box, by its init, with the flags of `open(2)`.
    pub async fn open_file(&self, path: &Path, flags: i32, mode: u32) -> Result<OwnedFd, FileError> {
        let token = self.shared.token();
        check_nul("the path", path.as_os_str())?;
        let flags = (flags | libc::O_CLOEXEC) as u64;
        let record = Writer::new(order::OPEN).u32(token).u64(flags).u32(mode).path(path).finish();
        match self.shared.ask(token, &record, &[]).await? {
            Answer::Done { errno: 0, descriptor: Some(descriptor) } => Ok(descriptor),
            Answer::Done { errno, .. } => Err(FileError::Inside(io::Error::from_raw_os_error(errno))),
            _ => Err(CellError::Gone.into()),
        }
    }

    /// Makes a directory inside the box.
    pub async fn make_directory(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        check_nul("the path", path.as_os_str())?;
        let token = self.shared.token();
        self.file_order(token, Writer::new(order::MAKE_DIRECTORY).u32(token).u32(mode).path(path)).await
    }

    /// Removes a file or an empty directory inside the box.
    pub async fn remove(&self, path: &Path, directory: bool) -> Result<(), FileError> {
        check_nul("the path", path.as_os_str())?;
        let token = self.shared.token();
        self.file_order(token, Writer::new(order::REMOVE).u32(token).u8(u8::from(directory)).path(path)).await
    }

    /// Renames inside the box.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), FileError> {
        check_nul("the path", from.as_os_str())?;
        check_nul("the new path", to.as_os_str())?;
        let token = self.shared.token();
        self.file_order(token, Writer::new(order::RENAME).u32(token).path(from).path(to)).await
    }

    async fn file_order(&self, token: u32, record: Writer) -> Result<(), FileError> {
        match self.shared.ask(token, &record.finish(), &[]).await? {
            Answer::Done { errno: 0, .. } => Ok(()),
            Answer::Done { errno, .. } => Err(FileError::Inside(io::Error::from_raw_os_error(errno))),
            _ => Err(CellError::Gone.into()),
        }
    }

    /// Counts what runs in the box, through its init.
    pub async fn sample(&self) -> Result<Sample, CellError> {
        let token = self.shared.token();
        match self.shared.ask(token, &Writer::new(order::SAMPLE).u32(token).finish(), &[]).await? {
            Answer::Sampled(sample) => Ok(sample),
            _ => Err(CellError::Gone),
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.keeper.kill();
        self.keeper.release();
        self.reader.abort();
    }
}

pub(crate) fn check_nul(what: &'static str, text: &OsStr) -> Result<(), CellError> {
    if text.as_bytes().contains(&0) { Err(CellError::Nul { what }) } else { Ok(()) }
}
