//! The library's handle on one box.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::cgroup;
use crate::process::{Ended, Launch, LaunchError, Running, Signaler};
use crate::socket::{self, Received};
use crate::spawner::{CreateError, Spawner, WeakSpawner, describe_stage};
use crate::spec::CellSpec;
use crate::wire::{Malformed, Reader, Writer, event, notice, order, stage};

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

/// How long an init may take to answer. It has nothing to wait for; a machine may be very busy.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// An answer that somebody waits for.
#[derive(Debug)]
enum Answer {
    Started { since: u64, terminal: Option<OwnedFd> },
    NotStarted { stage: u8, errno: i32 },
    Done { errno: i32, descriptor: Option<OwnedFd> },
    Sampled(Sample),
}

#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u32, oneshot::Sender<Answer>>,
    ends: HashMap<u32, oneshot::Sender<Ended>>,
    gone: bool,
}

#[derive(Debug)]
pub(crate) struct CellShared {
    pub(crate) id: u32,
    conversation: AsyncFd<OwnedFd>,
    spawner: WeakSpawner,
    waiting: Mutex<Waiting>,
    next_token: AtomicU32,
    cgroup: Option<cgroup::Group>,
}

/// A live box. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Cell {
    shared: Arc<CellShared>,
    /// Here and not in what tasks share: the spawner ends when its last box is let go of, whatever lingers.
    spawner: Spawner,
    reader: JoinHandle<()>,
    gone: watch::Receiver<bool>,
    root: OwnedFd,
    uppers: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
}

/// While a box is being made: ends it if that is abandoned.
struct Unfinished {
    id: u32,
    spawner: Option<Spawner>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(spawner) = self.spawner.take() {
            spawner.kill(self.id);
            spawner.release(self.id);
        }
    }
}

impl Cell {
    /// Waits until the box that was asked for is ready.
    pub(crate) async fn open(
        id: u32,
        conversation: AsyncFd<OwnedFd>,
        spawner: Spawner,
        spec: &CellSpec,
    ) -> Result<Self, CreateError> {
        let mut unfinished = Unfinished { id, spawner: Some(spawner.clone()) };
        let mut cgroup = None;
        // The spawner's word and the init's come in either order.
        let mut ready = None;
        let (cgroup, (root, uppers, listener)) = loop {
            if let (Some(_), Some(_)) = (&cgroup, &ready)
                && let Some(both) = cgroup.take().zip(ready.take())
            {
                break both;
            }
            let Some(received) = socket::receive(&conversation).await.map_err(CreateError::Conversation)? else {
                return Err(CreateError::Lost);
            };
            match read_first(&received, spec).unwrap_or(Err(CreateError::Lost))? {
                First::Created(name) => cgroup = Some(name),
                First::Ready { uppers, listener } => {
                    let mut descriptors = received.descriptors.into_iter();
                    let root = descriptors.next().ok_or(CreateError::Lost)?;
                    let directories: Vec<OwnedFd> = descriptors.by_ref().take(uppers).collect();
                    ready = Some((root, directories, if listener { descriptors.next() } else { None }));
                }
            }
        };
        unfinished.spawner = None;
        let shared = Arc::new(CellShared {
            id,
            conversation,
            cgroup: spawner.cgroups().group(&cgroup).map_err(CreateError::Conversation)?,
            spawner: spawner.downgrade(),
            waiting: Mutex::default(),
            next_token: AtomicU32::new(1),
        });
        let (said_gone, gone) = watch::channel(false);
        let reader = tokio::spawn(read_notices(Reading { shared: Arc::clone(&shared), said_gone, ended: false }));
        Ok(Self { shared, spawner, reader, gone, root, uppers, listener })
    }

    /// How many bytes the private file systems of the box hold, and how many more fit: bytes and files.
    pub fn storage(&self) -> io::Result<Storage> {
        Storage::of(&self.root)
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
        let ends = ForgetEnd { shared: &self.shared, token, since: ticks_since_boot(), armed: true };
        self.shared.lock().ends.insert(token, send_end);
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
        // The init ends at once if it is well; the spawner sees to it if it is not.
        self.shared.try_tell(&Writer::new(order::END).u32(0).finish());
        self.spawner.kill(self.shared.id);
    }

    /// Waits until nothing of the box runs any more.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        // An error means that the reader ended, which it does when the box is gone.
        let _ = gone.wait_for(|gone| *gone).await;
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
        self.spawner.kill(self.shared.id);
        self.spawner.release(self.shared.id);
        self.reader.abort();
    }
}

impl CellShared {
    fn token(&self) -> u32 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held; and if it did, the maps would still be sound.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn tell(&self, record: &[u8]) -> Result<(), CellError> {
        if self.lock().gone {
            return Err(CellError::Gone);
        }
        socket::send_async(&self.conversation, record, &[]).await.map_err(CellError::Conversation)
    }

    /// Says something if there is room for it.
    fn try_tell(&self, record: &[u8]) {
        let _ = socket::send(self.conversation.as_raw_fd(), record, &[]);
    }

    /// Like [`CellShared::tell`], for places that cannot await.
    pub(crate) fn tell_now(&self, record: &[u8]) {
        // A box that is gone needs no orders.
        let sent = socket::send(self.conversation.as_raw_fd(), record, &[]);
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // An init that does not listen any more.
            self.spawner.kill(self.id);
        }
    }

    async fn ask(
        &self,
        token: u32,
        record: &[u8],
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<Answer, CellError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.lock();
            if waiting.gone {
                return Err(CellError::Gone);
            }
            waiting.answers.insert(token, sender);
        }
        if let Err(error) = socket::send_async(&self.conversation, record, descriptors).await {
            self.lock().answers.remove(&token);
            return Err(CellError::Conversation(error));
        }
        match tokio::time::timeout(ANSWER_TIME, receiver).await {
            Ok(answer) => answer.map_err(|_| CellError::Gone),
            Err(_) => {
                // Something in the box keeps its init from its work: a box that cannot be ruled is ended.
                self.spawner.kill(self.id);
                Err(CellError::Gone)
            }
        }
    }
}

/// Forgets that somebody wanted to know about the end of a program that did not start.
struct ForgetEnd<'a> {
    shared: &'a CellShared,
    token: u32,
    /// When the program was asked for, in ticks since boot.
    since: u64,
    armed: bool,
}

impl ForgetEnd<'_> {
    fn keep(mut self) {
        self.armed = false;
    }
}

impl Drop for ForgetEnd<'_> {
    fn drop(&mut self) {
        if self.armed {
            let abandoned = self.shared.lock().ends.remove(&self.token).is_some();
            if abandoned {
                // The future was dropped between asking and hearing: it may run, and nobody would know.
                self.shared.tell_now(&Writer::new(order::KILL_TREE).u32(self.token).u64(self.since).finish());
            }
        }
    }
}

/// The moment, in the unit and by the clock in which `/proc` tells when a process started.
fn ticks_since_boot() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills one timespec. If it fails, everything counts as younger.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let per_second = cgroup::ticks_per_second();
    time.tv_sec as u64 * per_second + time.tv_nsec as u64 * per_second / 1_000_000_000
}

pub(crate) fn check_nul(what: &'static str, text: &OsStr) -> Result<(), CellError> {
    if text.as_bytes().contains(&0) { Err(CellError::Nul { what }) } else { Ok(()) }
}

enum First {
    Created(String),
    Ready { uppers: usize, listener: bool },
}

fn read_first(received: &Received, spec: &CellSpec) -> Result<Result<First, CreateError>, Malformed> {
    let mut reader = Reader::new(&received.record);
    Ok(match reader.u8()? {
        event::CREATED => {
            let (errno, code, index) = (reader.i32()?, reader.u8()?, reader.u32()?);
            let name = String::from_utf8_lossy(reader.bytes()?).into_owned();
            if errno == 0 {
                Ok(First::Created(name))
            } else {
                let tree = if code == stage::TREE { spec.opened_tree(index) } else { None };
                let step = describe_stage(code, index, spec);
                Err(CreateError::Step { step, tree, source: io::Error::from_raw_os_error(errno) })
            }
        }
        notice::READY => Ok(First::Ready { uppers: usize::from(reader.u8()?), listener: reader.u8()? != 0 }),
        notice::FAILED => {
            let (number, errno) = (reader.u32()?, reader.i32()?);
            let (step, tree) = (spec.describe(number), spec.tree_path(number));
            Err(CreateError::Step { step, tree, source: io::Error::from_raw_os_error(errno) })
        }
        _ => Err(CreateError::Lost),
    })
}

/// Hands every notice to whoever waits for it, until the box is gone.
async fn read_notices(mut reading: Reading) {
    loop {
        match socket::receive(&reading.shared.conversation).await {
            Ok(Some(received)) => match dispatch(&reading.shared, received) {
                Ok(false) => {}
                Ok(true) => break,
                Err(Malformed) => return,
            },
            Ok(None) => break,
            Err(_) => return,
        }
    }
    reading.ended = true;
}

/// Reading the notices of a box: when that ends, even because the runtime does, everybody who waits is told.
struct Reading {
    shared: Arc<CellShared>,
    said_gone: watch::Sender<bool>,
    /// The box is known to have ended.
    ended: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.ended {
            // Nobody hears the box any more, so nobody holds its limits: it ends.
            self.shared.spawner.kill(self.shared.id);
        }
        let mut waiting = self.shared.lock();
        waiting.gone = true;
        // Dropping the senders tells everybody who waits.
        waiting.answers.clear();
        waiting.ends.clear();
        drop(waiting);
        let _ = self.said_gone.send(true);
    }
}

/// `Ok(true)`: that was the last.
fn dispatch(shared: &CellShared, received: Received) -> Result<bool, Malformed> {
    let mut reader = Reader::new(&received.record);
    let kind = reader.u8()?;
    if kind == event::GONE {
        return Ok(true);
    }
    let token = reader.u32()?;
    let descriptor = received.descriptors.into_iter().next();
    let answer = match kind {
        notice::STARTED => Answer::Started { since: reader.u64()?, terminal: descriptor },
        notice::SPAWN_FAILED => Answer::NotStarted { stage: reader.u8()?, errno: reader.i32()? },
        notice::DONE => Answer::Done { errno: reader.i32()?, descriptor },
        notice::SAMPLED => {
            Answer::Sampled(Sample { tasks: reader.u64()?, ticks: reader.u64()?, memory_kib: reader.u64()? })
        }
        notice::EXITED => {
            let ended = Ended::new(reader.i32()?, reader.u64()?, reader.u64()?, reader.u64()?);
            if let Some(sender) = shared.lock().ends.remove(&token) {
                // Whoever waited may have stopped waiting.
                let _ = sender.send(ended);
            }
            return Ok(false);
        }
        _ => return Err(Malformed),
    };
    if let Some(sender) = shared.lock().answers.remove(&token) {
        let _ = sender.send(answer);
    }
    Ok(false)
}
