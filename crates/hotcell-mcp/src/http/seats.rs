//! Sessions: whose they are, how many there may be and for how long.
//!
//! rmcp keeps the conversation of a session. This keeps what has to hold whatever that does: a session belongs to the token that
//! began it, and when it ends, its box ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::tokens::Owner;
use crate::server::{Server, WeakServer};

/// How many sessions, and how long.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SessionLimits {
    /// The most at the same time.
    pub sessions: usize,
    /// How long one lives whose client says nothing after its greeting: the answer may not have reached it.
    pub unused: Duration,
    /// How long one lives in which nothing is asked and no call or process in the background runs.
    pub idle: Duration,
    /// How long one lives in all.
    pub total: Duration,
}

impl Default for SessionLimits {
    /// 16 sessions, a minute, half an hour, 12 hours.
    fn default() -> Self {
        Self {
            sessions: 16,
            unused: Duration::from_secs(60),
            idle: Duration::from_secs(30 * 60),
            total: Duration::from_secs(12 * 60 * 60),
        }
    }
}

/// The place of one session.
#[derive(Debug)]
pub(crate) struct Seat {
    owner: Owner,
    began: Instant,
    used: Mutex<Instant>,
    /// Whether anything came after the greeting.
    known: AtomicBool,
    busy: AtomicUsize,
    server: OnceLock<WeakServer>,
    /// Given back when the session ends, whoever still holds the seat then.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Seat {
    /// Tells the seat whose box ends with it.
    pub(crate) fn take(&self, server: &Server) {
        let _ = self.server.set(server.downgrade());
    }

    /// Keeps the session from being idle for as long as a call runs.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy { seat: Arc::clone(self) }
    }

    /// Removes the session's box and gives the place up.
    pub(super) async fn close(&self) {
        if let Some(server) = self.server.get().and_then(WeakServer::upgrade) {
            server.close().await;
        }
        drop(lock(&self.permit).take());
    }

    fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn is_over(&self, limits: &SessionLimits, now: Instant) -> bool {
        // A server or a long build is work, and the client may come back for it: it is idle from its end on.
        if self.server.get().and_then(WeakServer::upgrade).is_some_and(|server| server.runs_in_background()) {
            self.touch();
        }
        let known = self.known.load(Ordering::SeqCst);
        let most = if known { limits.idle } else { limits.idle.min(limits.unused) };
        let idle = self.busy.load(Ordering::SeqCst) == 0 && now.duration_since(*lock(&self.used)) >= most;
        idle || now.duration_since(self.began) >= limits.total
    }
}

/// A call that runs.
pub(crate) struct Busy {
    seat: Arc<Seat>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.seat.touch();
        self.seat.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Seats {
    limits: SessionLimits,
    free: Arc<Semaphore>,
    taken: Mutex<HashMap<String, Arc<Seat>>>,
}

impl Seats {
    pub(super) fn new(limits: SessionLimits) -> Self {
        Self { limits, free: Arc::new(Semaphore::new(limits.sessions)), taken: Mutex::default() }
    }

    /// A place for a session that may come to be; none if there is none left.
    pub(super) fn reserve(&self, owner: Owner) -> Option<Arc<Seat>> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let now = Instant::now();
        Some(Arc::new(Seat {
            owner,
            began: now,
            used: Mutex::new(now),
            known: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            server: OnceLock::new(),
            permit: Mutex::new(Some(permit)),
        }))
    }

    /// The session has come to be.
    pub(super) fn occupy(&self, id: &str, seat: Arc<Seat>) {
        lock(&self.taken).insert(id.to_owned(), seat);
    }

    /// Whether this session is this owner's. A stranger learns nothing else than of one that does not exist.
    pub(super) fn admit(&self, id: &str, owner: Owner) -> bool {
        let taken = lock(&self.taken);
        let seat = taken.get(id).filter(|seat| seat.owner == owner && !seat.is_over(&self.limits, Instant::now()));
        let Some(seat) = seat else { return false };
        seat.known.store(true, Ordering::SeqCst);
        seat.touch();
        true
    }

    /// The place of a session that is to end: nobody is admitted to it from now on.
    pub(super) fn vacate(&self, id: &str) -> Option<Arc<Seat>> {
        lock(&self.taken).remove(id)
    }

    /// The sessions whose time is over.
    pub(super) fn over(&self) -> Vec<String> {
        let now = Instant::now();
        let taken = lock(&self.taken);
        taken.iter().filter(|(_, seat)| seat.is_over(&self.limits, now)).map(|(id, _)| id.clone()).collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<String> {
        lock(&self.taken).keys().cloned().collect()
    }

    /// How often to look for sessions whose time is over.
    pub(super) fn interval(&self) -> Duration {
        let shortest = self.limits.unused.min(self.limits.idle).min(self.limits.total);
        (shortest / 4).clamp(Duration::from_millis(20), Duration::from_secs(10))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
