//! How far the fetching of an image is.

use std::fmt;
use std::sync::Arc;

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullProgress {
    /// The image.
    pub image: String,
    /// The layer that this is about, if it is about one.
    pub layer: Option<String>,
    /// What is being done, in the words of whoever does it.
    pub status: String,
    /// Bytes so far, and in all, where that is known.
    pub bytes: Option<(u64, u64)>,
}

/// Hears how far a pull is.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&PullProgress) + Send + Sync>);

impl Progress {
    /// Calls `hear` at every step. It must not block.
    pub fn new(hear: impl Fn(&PullProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is fetched then"))]
    pub(crate) fn tell(&self, progress: &PullProgress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
