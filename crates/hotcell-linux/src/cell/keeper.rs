//! Who can end a box from outside.

use std::fmt::Debug;
use std::sync::Arc;

/// Whoever made a box, and can end it whatever its init does. Neither call waits or fails: what cannot be done at once is
/// seen to in the background.
pub trait Keeper: Send + Sync + Debug {
    /// Kills everything in the box. May be called more than once, and when the box is gone.
    fn kill(&self);
    /// Nobody holds the box any more: removes what is left of it, now or as soon as it has ended. Called once, and last.
    fn release(&self);
}

/// While a box is being made: ends it if that is abandoned.
pub(super) struct Unfinished {
    keeper: Option<Arc<dyn Keeper>>,
    /// The same, for when it is finished.
    kept: Arc<dyn Keeper>,
}

impl Unfinished {
    pub(super) fn new(keeper: Arc<dyn Keeper>) -> Self {
        Self { keeper: Some(Arc::clone(&keeper)), kept: keeper }
    }

    /// The box is made; whoever has the keeper sees to it from now on.
    pub(super) fn finish(mut self) -> Arc<dyn Keeper> {
        self.keeper = None;
        Arc::clone(&self.kept)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.kill();
            keeper.release();
        }
    }
}
