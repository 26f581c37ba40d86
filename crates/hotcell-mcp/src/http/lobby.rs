//! Who is connected: strangers, who have a few places and a few seconds, and clients who have shown a token.
//!
//! Anybody who can reach the server can connect. Strangers have places of their own, so they take none from clients; and when all
//! of those are taken, the oldest has to go, so a client that shows its token at once gets in however many others wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The places of all connections.
#[derive(Debug)]
pub(super) struct Lobby {
    strangers: Arc<Semaphore>,
    clients: Arc<Semaphore>,
    /// How long one may be a stranger.
    introduction: Duration,
    /// The strangers, the oldest first.
    waiting: Mutex<VecDeque<Weak<Visitor>>>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visitor {
    clients: Arc<Semaphore>,
    introduction: Duration,
    place: Mutex<Place>,
    sent_away: CancellationToken,
}

#[derive(Debug)]
enum Place {
    Stranger { _permit: OwnedSemaphorePermit },
    Client { _permit: OwnedSemaphorePermit },
}

impl Lobby {
    pub(super) fn new(strangers: usize, clients: usize, introduction: Duration) -> Self {
        let places = |most: usize| Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        Self { strangers: places(strangers), clients: places(clients), introduction, waiting: Mutex::default() }
    }

    /// A place for somebody who has just come; the oldest stranger goes if there is none.
    pub(super) async fn enter(&self) -> Result<Arc<Visitor>, AcquireError> {
        if self.strangers.available_permits() == 0 {
            self.send_oldest_away();
        }
        let permit = Arc::clone(&self.strangers).acquire_owned().await?;
        let visitor = Arc::new(Visitor {
            clients: Arc::clone(&self.clients),
            introduction: self.introduction,
            place: Mutex::new(Place::Stranger { _permit: permit }),
            sent_away: CancellationToken::new(),
        });
        let mut waiting = lock(&self.waiting);
        waiting.retain(|other| other.upgrade().is_some_and(|other| other.is_stranger()));
        waiting.push_back(Arc::downgrade(&visitor));
        Ok(visitor)
    }

    fn send_oldest_away(&self) {
        let mut waiting = lock(&self.waiting);
        while let Some(oldest) = waiting.pop_front() {
            if let Some(oldest) = oldest.upgrade().filter(|oldest| oldest.is_stranger()) {
                oldest.sent_away.cancel();
                return;
            }
        }
    }
}

impl Visitor {
    /// This one has shown a token; false if there is no place for one more client.
    pub(super) fn admit(&self) -> bool {
        let mut place = lock(&self.place);
        if let Place::Stranger { .. } = *place {
            let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() else { return false };
            *place = Place::Client { _permit: permit };
        }
        true
    }

    /// Returns when a stranger has to go, and never for a client.
    pub(super) async fn overstays(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.introduction) => {}
            () = self.sent_away.cancelled() => {}
        }
        if !self.is_stranger() {
            std::future::pending::<()>().await;
        }
    }

    fn is_stranger(&self) -> bool {
        matches!(*lock(&self.place), Place::Stranger { .. })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
