//! Boxes that are ready before they are needed.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hotcell_core::backend::{Sandbox, SpawnConfig};
use hotcell_core::policy::Policy;
use tokio::task::JoinHandle;

use crate::{Engine, EngineError};

/// How long the pool lets the taker of a box go ahead before it makes the next one.
const REFILL_DELAY: Duration = Duration::from_millis(5);

/// Keeps a number of boxes of one policy ready. Each is used once: what one user left in it, no other sees.
///
/// ```
/// use hotcell::{Engine, Policy, Pool, SpawnConfig};
///
/// # async fn example() -> Result<(), hotcell::EngineError> {
/// let engine = Engine::new().await?;
/// let pool = Pool::new(&engine, Policy::default(), 2).await?;
/// let sandbox = pool.take().await?;
/// let process = sandbox.spawn(SpawnConfig::new("true")).await?;
/// assert!(process.wait().await?.status.success());
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    policy: Policy,
    size: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Box<dyn Sandbox>>,
    refill: Option<JoinHandle<()>>,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pool {
    /// Makes `size` boxes under `policy`. Fails if not even one can be made.
    pub async fn new(engine: &Engine, policy: Policy, size: usize) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared { engine: engine.clone(), policy, size, state: Mutex::default() });
        for _ in 0..size {
            let sandbox = shared.make().await?;
            shared.lock().ready.push_back(sandbox);
        }
        Ok(Self { shared })
    }

    /// Takes a box that is ready, or makes one if none is. The pool fills up again in the background.
    pub async fn take(&self) -> Result<PooledSandbox, EngineError> {
        let ready = self.shared.lock().ready.pop_front();
        let sandbox = match ready {
            Some(sandbox) => sandbox,
            None => self.shared.engine.create(&self.shared.policy).await?,
        };
        Shared::refill(&self.shared);
        Ok(PooledSandbox { sandbox })
    }

    /// How many boxes are ready now.
    pub fn ready(&self) -> usize {
        self.shared.lock().ready.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        if let Some(refill) = state.refill.take() {
            refill.abort();
        }
        // Ends every box that nobody took.
        state.ready.clear();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a box and has it go once through starting a program: one that cannot be executed, so nothing runs, but what
    /// the kernel sets up at the first start is there for the real one.
    async fn make(&self) -> Result<Box<dyn Sandbox>, EngineError> {
        let sandbox = self.engine.create(&self.policy).await?;
        let _ = sandbox.spawn(SpawnConfig::new("/")).await;
        Ok(sandbox)
    }

    /// Starts filling up, unless that is under way.
    fn refill(this: &Arc<Self>) {
        let mut state = this.lock();
        if state.refill.as_ref().is_some_and(|refill| !refill.is_finished()) {
            return;
        }
        let shared = Arc::clone(this);
        state.refill = Some(tokio::spawn(async move {
            // Whoever took a box is about to use it, and gets the machine first.
            tokio::time::sleep(REFILL_DELAY).await;
            loop {
                {
                    let state = shared.lock();
                    if state.closed || state.ready.len() >= shared.size {
                        return;
                    }
                }
                // A failure shows at the next take, which then makes its own and says why it cannot.
                let Ok(sandbox) = shared.make().await else { return };
                let mut state = shared.lock();
                if !state.closed {
                    state.ready.push_back(sandbox);
                }
            }
        }));
    }
}

/// A box from a pool. It is the taker's alone, and ends when it is dropped.
pub struct PooledSandbox {
    sandbox: Box<dyn Sandbox>,
}

impl std::fmt::Debug for PooledSandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PooledSandbox").field(self.sandbox.id()).finish()
    }
}

impl PooledSandbox {
    /// Ends the box and waits until nothing of it runs.
    pub async fn destroy(self) -> Result<(), EngineError> {
        Ok(self.sandbox.destroy().await?)
    }
}

impl Deref for PooledSandbox {
    type Target = dyn Sandbox;

    fn deref(&self) -> &Self::Target {
        &*self.sandbox
    }
}
