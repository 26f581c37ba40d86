//! The library's handle on the spawner process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::io::unix::AsyncFd;

use crate::cell::Cell;
use crate::cgroup::Layout;
use crate::spec::{CellSpec, Namespaces, Owner};
use crate::wire::{Reader, Writer, request, stage};
use crate::{helper, socket};

/// The first of the users that boxes of a privileged caller run as on the host: far from any that a system gives out,
/// and never stored in a file (trees are id-mapped).
const USER_BASE: u32 = 0x7800_0000;
/// Each spawner has a range of its own, as long as no two that run have process numbers that are equal in these bits.
const USER_RANGES: u32 = 1 << 16;
const USERS_PER_RANGE: u32 = 4096;

/// What the boxes of a spawner have in common.
#[derive(Debug, Clone, Copy)]
pub struct SpawnerOptions {
    /// Whether the caller may open trees and choose users on the host: root with `CAP_SYS_ADMIN`.
    pub privileged: bool,
    /// How many boxes to have half made ahead of being asked. At least one is, as a trial.
    pub warm: u32,
    /// The namespaces of those.
    pub namespaces: Namespaces,
    /// The user (inside) of those.
    pub user: Owner,
}

/// The spawner could not be started.
#[derive(Debug, Error)]
#[error("the spawner process could not be started: cannot {step}")]
pub struct StartError {
    step: &'static str,
    #[source]
    source: io::Error,
}

/// A box could not be made; nothing of it is left.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A step of the set-up failed.
    #[error("cannot {step}: {source}")]
    Step {
        /// What was being done.
        step: String,
        /// The tree of the host's that it was about, if it was.
        tree: Option<PathBuf>,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The spawner, or the box's init, ended in the middle.
    #[error("the helper process ended unexpectedly")]
    Lost,
    /// The description is too large.
    #[error("the policy is too large: {count} paths are shown to the box, and {max} is the most")]
    TooManyTrees {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// Talking to the spawner failed.
    #[error("cannot talk to the spawner process")]
    Conversation(#[source] io::Error),
}

impl CreateError {
    /// Whether a tree was another file than the one that was pinned (ESTALE), which a fresh mount namespace may cure.
    fn is_stale(&self) -> bool {
        matches!(self, Self::Step { source, .. } if matches!(source.raw_os_error(), Some(libc::ESTALE | libc::ENOENT)))
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    socket: OwnedFd,
    cgroups: Arc<Layout>,
    next_id: AtomicU32,
    process: Mutex<Option<Child>>,
    /// The base that the spawner was told of, and may have done ahead.
    usual_base: Mutex<Vec<u8>>,
}

/// A running spawner. Dropping the last clone ends it and with it every box that it made, and waits for that.
#[derive(Debug, Clone)]
pub struct Spawner {
    shared: Arc<Shared>,
}

impl Spawner {
    /// Starts the process. It can make boxes once it has been [greeted](Spawner::greet).
    pub fn start(cgroups: Arc<Layout>) -> Result<Self, StartError> {
        let (ours, theirs) = socket::pair().map_err(|source| StartError { step: "make a socket pair", source })?;
        let child = helper::start(theirs).map_err(|source| StartError { step: "run the helper", source })?;
        Ok(Self::talking_on(ours, cgroups, Some(child)))
    }

    /// A handle on whoever answers on the other end of `socket`.
    pub(crate) fn talking_on(socket: OwnedFd, cgroups: Arc<Layout>, process: Option<Child>) -> Self {
        let shared = Shared {
            socket,
            cgroups,
            next_id: AtomicU32::new(1),
            process: Mutex::new(process),
            usual_base: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Tells the spawner what boxes will be like, without waiting for [the answer](Spawner::greeted). Most will have the
    /// base of `usual`.
    pub fn greet(&self, options: SpawnerOptions, usual: &CellSpec) -> Result<(), StartError> {
        let base = usual.base_record();
        let bases = self.shared.cgroups.bases();
        let hello = Writer::new(request::HELLO)
            .u8(u8::from(options.privileged))
            .u32(USER_BASE + self.process_id().unwrap_or_default() % USER_RANGES * USERS_PER_RANGE)
            .u32(options.warm)
            .u64(options.namespaces.flags())
            .u32(options.user.uid)
            .u32(options.user.gid)
            .u8(self.shared.cgroups.usual())
            .u8(self.shared.cgroups.version())
            .u8(bases.len() as u8)
            .text(format!("hotcell-{}", self.process_id().unwrap_or_default()))
            .bytes(&base)
            .finish();
        *self.usual_base() = base;
        let descriptors: Vec<_> = bases.iter().map(|base| base.as_fd()).collect();
        socket::send(self.shared.socket.as_raw_fd(), &hello, &descriptors)
            .map_err(|source| StartError { step: "greet the helper", source })
    }

    /// Waits for the answer to a greeting: whether boxes of that kind can be made here, found by half making one.
    pub async fn greeted(&self) -> Result<(), CreateError> {
        let copy = self.shared.socket.try_clone().map_err(CreateError::Conversation)?;
        let copy = socket::register(copy).map_err(CreateError::Conversation)?;
        let answer = socket::receive(&copy).await.map_err(CreateError::Conversation)?.ok_or(CreateError::Lost)?;
        let mut reader = Reader::new(&answer.record);
        match (reader.i32(), reader.u8()) {
            (Ok(0), _) => Ok(()),
            (Ok(errno), Ok(stage)) => {
                let nothing = CellSpec::new(
                    Namespaces { user: false, network: false, stage: false, same_user: false },
                    Owner { uid: 0, gid: 0 },
                );
                let step = describe_stage(stage, 0, &nothing);
                Err(CreateError::Step { step, tree: None, source: io::Error::from_raw_os_error(errno) })
            }
            _ => Err(CreateError::Lost),
        }
    }

    fn usual_base(&self) -> MutexGuard<'_, Vec<u8>> {
        self.shared.usual_base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process number of the spawner, for messages.
    pub fn process_id(&self) -> Option<u32> {
        self.shared.process.lock().ok().and_then(|process| process.as_ref().map(Child::id))
    }

    /// Makes a box. If the future is dropped, what was made so far is ended.
    pub async fn create(&self, spec: &CellSpec) -> Result<Cell, CreateError> {
        let max = crate::wire::DESCRIPTORS_MAX - 2;
        if spec.trees.len() > max {
            return Err(CreateError::TooManyTrees { count: spec.trees.len(), max });
        }
        let usual_base = self.knows_base(spec);
        match self.create_once(spec, false, usual_base).await {
            // A box that was half made ahead has the mounts of that moment; what was mounted since is not in it. And one
            // whose base could not be made ends without a word: made from the start, it says why.
            Err(error) if error.is_stale() || usual_base && matches!(error, CreateError::Lost) => {
                self.create_once(spec, true, false).await
            }
            other => other,
        }
    }

    /// Whether the spawner was told of this base, and may have made it ahead.
    pub(crate) fn knows_base(&self, spec: &CellSpec) -> bool {
        *self.usual_base() == spec.base_record()
    }

    async fn create_once(&self, spec: &CellSpec, fresh: bool, usual_base: bool) -> Result<Cell, CreateError> {
        let (id, conversation, _) = self.ask_for(spec, fresh, usual_base).await?;
        Cell::open(id, conversation, self.clone(), spec).await
    }

    /// Sends a create request. The number of the box, and both ends of the conversation with it.
    pub(crate) async fn ask_for(
        &self,
        spec: &CellSpec,
        fresh: bool,
        usual_base: bool,
    ) -> Result<(u32, AsyncFd<OwnedFd>, OwnedFd), CreateError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = socket::pair().map_err(CreateError::Conversation)?;
        let conversation = socket::register(ours).map_err(CreateError::Conversation)?;
        let record = spec.encode(id, fresh, usual_base);
        self.request(&record, &theirs).await?;
        Ok((id, conversation, theirs))
    }

    /// Sends a create request, waiting for room.
    async fn request(&self, record: &[u8], conversation: &OwnedFd) -> Result<(), CreateError> {
        let socket = self.shared.socket.as_raw_fd();
        match socket::send(socket, record, &[conversation.as_fd()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map_err(CreateError::Conversation),
        }
        // Many creates at once fill the socket. Registering a copy of it with the runtime only then keeps the usual
        // case short and lets the spawner be shared by several runtimes.
        let copy = self.shared.socket.try_clone().map_err(CreateError::Conversation)?;
        let copy = socket::register(copy).map_err(CreateError::Conversation)?;
        socket::send_async(&copy, record, &[conversation.as_fd()]).await.map_err(CreateError::Conversation)
    }

    /// Kills everything in a box. Errors mean that the spawner is gone, and then so is the box.
    pub(crate) fn kill(&self, id: u32) {
        let _ = socket::send_blocking(self.shared.socket.as_raw_fd(), &Writer::new(request::KILL).u32(id).finish());
    }

    /// Lets the spawner forget a box.
    pub(crate) fn release(&self, id: u32) {
        let _ = socket::send_blocking(self.shared.socket.as_raw_fd(), &Writer::new(request::RELEASE).u32(id).finish());
    }

    pub(crate) fn cgroups(&self) -> &Arc<Layout> {
        &self.shared.cgroups
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The end of the conversation is the order to end everything.
        // SAFETY: shutting down a socket that we own; it is closed right after.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        if let Ok(mut process) = self.process.lock()
            && let Some(mut child) = process.take()
        {
            // Everything is dead when it ends. Somebody else may have reaped it: then there is nothing to wait for.
            let ended = child.wait();
            if !ended.is_ok_and(|status| status.success()) {
                // It was killed, and could not remove what it had made.
                self.cgroups.sweep();
            }
        }
    }
}

/// What the spawner was doing, in words.
pub(crate) fn describe_stage(code: u8, index: u32, spec: &CellSpec) -> String {
    let index = index as usize;
    match code {
        stage::SLOT => "find room for another box".into(),
        stage::CGROUP => "make the box's cgroup".into(),
        stage::CLONE => "create the box's namespaces".into(),
        stage::ID_MAP => "map the box's user".into(),
        stage::ATTACH => "put the box in its cgroup".into(),
        stage::LIMIT => match spec.limits.get(index) {
            Some(limit) => format!("set {} to {}", limit.file, limit.value),
            None => "set a limit".into(),
        },
        stage::PLACEHOLDER => match spec.placeholders.get(index) {
            Some(placeholder) => format!("reserve {}", placeholder.root.join(&placeholder.path).display()),
            None => "reserve a protected path".into(),
        },
        stage::TREE => match spec.opened_tree(index as u32) {
            Some(path) => format!("open {}", path.display()),
            None => "open a tree".into(),
        },
        stage::TRIAL => "mount inside the box's namespaces".into(),
        stage::MAP_NAMESPACE => "make a user namespace for id-mapped mounts".into(),
        _ => "hand over the set-up".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Received;

    const USUAL: Namespaces = Namespaces { user: true, network: true, stage: false, same_user: false };

    /// What a helper answers to a greeting. `None`: it ends without a word.
    async fn answer(user_base: u32, namespaces: u64) -> Option<Received> {
        let (ours, theirs) = socket::pair().unwrap();
        let mut child = helper::start(theirs).unwrap();
        let ours = socket::register(ours).unwrap();
        let hello = Writer::new(request::HELLO).u8(0).u32(user_base).u32(0).u64(namespaces).u32(1000).u32(1000);
        let hello = hello.u8(0).u8(0).u8(0).text("hotcell-test").bytes(&0_u32.to_le_bytes()).finish();
        socket::send(ours.as_raw_fd(), &hello, &[]).unwrap();
        let heard = tokio::time::timeout(std::time::Duration::from_secs(10), socket::receive(&ours)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        heard.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_greeting_is_answered() {
        assert!(answer(USER_BASE, USUAL.flags()).await.is_some());
    }

    #[tokio::test]
    async fn users_that_do_not_fit_are_refused() {
        assert!(answer(u32::MAX, USUAL.flags()).await.is_none());
    }

    #[tokio::test]
    async fn flags_that_are_no_namespaces_are_refused() {
        for flag in [libc::CLONE_FILES, libc::CLONE_FS, libc::CLONE_VM] {
            assert!(answer(USER_BASE, USUAL.flags() | flag as u64).await.is_none(), "{flag:#x}");
        }
        assert!(answer(USER_BASE, USUAL.flags() & !(libc::CLONE_NEWPID as u64)).await.is_none());
    }
}
