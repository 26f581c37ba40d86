//! Orders, and the notices that answer them: what the handles on one box share.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use super::{CellError, Keeper, Sample};
use crate::cgroup;
use crate::process::Ended;
use crate::socket::{self, Received};
use crate::wire::{Malformed, Reader, Writer, event, notice, order};

/// How long an init may take to answer. It has nothing to wait for; a machine may be very busy.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// An answer that somebody waits for.
#[derive(Debug)]
pub(super) enum Answer {
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
    /// Why the conversation ended, where a bridge said so.
    broken: Option<String>,
}

/// Who else speaks on the conversation besides the init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The spawner that made the box.
    Spawner,
    /// Nobody: somebody else made it.
    Elsewhere,
    /// The bridge over which it is reached.
    Bridge,
}

/// What the handles on a box and its programs share.
#[derive(Debug)]
pub(crate) struct CellShared {
    conversation: AsyncFd<OwnedFd>,
    /// Not kept alive from here.
    keeper: Weak<dyn Keeper>,
    waiting: Mutex<Waiting>,
    next_token: AtomicU32,
    pub(super) cgroup: Option<cgroup::Group>,
    origin: Origin,
}

impl CellShared {
    pub(super) fn new(
        conversation: AsyncFd<OwnedFd>,
        keeper: &Arc<dyn Keeper>,
        cgroup: Option<cgroup::Group>,
        origin: Origin,
    ) -> Self {
        Self {
            conversation,
            keeper: Arc::downgrade(keeper),
            waiting: Mutex::default(),
            next_token: AtomicU32::new(1),
            cgroup,
            origin,
        }
    }

    /// Whether the init is on the far side of a stream.
    pub(crate) fn is_bridged(&self) -> bool {
        self.origin == Origin::Bridge
    }

    /// Why the conversation with the box ended, where that is known.
    pub(super) fn broken(&self) -> Option<String> {
        self.lock().broken.clone()
    }

    /// Kills the box, if its keeper is still there; if not, it is gone already.
    fn kill(&self) {
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.kill();
        }
    }

    pub(super) fn token(&self) -> u32 {
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
    pub(super) fn try_tell(&self, record: &[u8]) {
        let _ = socket::send(self.conversation.as_raw_fd(), record, &[]);
    }

    /// Like [`CellShared::tell`], for places that cannot await.
    pub(crate) fn tell_now(&self, record: &[u8]) {
        // A box that is gone needs no orders.
        let sent = socket::send(self.conversation.as_raw_fd(), record, &[]);
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // An init that does not listen any more.
            self.kill();
        }
    }

    pub(super) async fn ask(
        &self,
        token: u32,
        record: &[u8],
        descriptors: &[BorrowedFd<'_>],
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
                self.kill();
                Err(CellError::Gone)
            }
        }
    }
}

/// Forgets that somebody wanted to know about the end of a program that did not start.
pub(super) struct ForgetEnd<'a> {
    shared: &'a CellShared,
    token: u32,
    /// When the program was asked for, in ticks since boot.
    since: u64,
    armed: bool,
}

impl<'a> ForgetEnd<'a> {
    /// From now on, whoever holds the other end of `said` hears of the end of the program.
    pub(super) fn new(shared: &'a CellShared, token: u32, said: oneshot::Sender<Ended>) -> Self {
        shared.lock().ends.insert(token, said);
        Self { shared, token, since: ticks_since_boot(), armed: true }
    }

    pub(super) fn keep(mut self) {
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

/// Hands every notice to whoever waits for it, until the box is gone.
pub(super) async fn read_notices(mut reading: Reading) {
    loop {
        match socket::receive(&reading.shared.conversation).await {
            Ok(Some(received)) => match dispatch(&reading.shared, received) {
                Ok(false) => {}
                Ok(true) => break,
                Err(Malformed) => return,
            },
            // Its socket ended, or nobody can read it: not the word of somebody who would know.
            Ok(None) | Err(_) => return,
        }
    }
    reading.ended = true;
}

/// Reading the notices of a box: when that ends, even because the runtime does, everybody who waits is told.
pub(super) struct Reading {
    shared: Arc<CellShared>,
    said_gone: watch::Sender<bool>,
    /// The box is known to have ended.
    ended: bool,
}

impl Reading {
    pub(super) fn new(shared: Arc<CellShared>, said_gone: watch::Sender<bool>) -> Self {
        Self { shared, said_gone, ended: false }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.ended {
            // Nobody hears the box any more, so nobody holds its limits: it ends.
            self.shared.kill();
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
    match kind {
        event::GONE if shared.origin == Origin::Spawner => return Ok(true),
        event::BROKEN if shared.origin == Origin::Bridge => {
            shared.lock().broken = Some(String::from_utf8_lossy(reader.bytes()?).into_owned());
            return Ok(false);
        }
        _ => {}
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
