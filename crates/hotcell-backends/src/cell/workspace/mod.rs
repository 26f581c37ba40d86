//! Overlay workspaces: what the code in a box changed, applied to the host's files or thrown away.
//!
//! ```text
//! upper layer ──diff──▶ Differences ──check (policy, conflicts)──▶ apply beneath the pinned tree
//! ```
//!
//! The upper layer is hostile: whoever runs in the box decides what is in it, and something that was left running may
//! change it at any time. Nothing in it is followed, everything is counted, and what is applied to the host is decided
//! by paths that were checked, not by what the upper layer turns into later.

mod apply;
pub(crate) mod beneath;
mod check;
mod content;
#[cfg(feature = "remote")]
pub(crate) mod copied;
mod diff;
mod draft;
mod marks;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use hotcell_core::backend::{Change, Workspace, WorkspaceError};
use hotcell_core::policy::FilesystemPolicy;
use tokio::sync::Mutex;

use apply::Apply;
use beneath::Seen;
pub(crate) use check::Baseline;
#[cfg(feature = "remote")]
use copied::CopiedTree;

/// A tree of the host's that a box sees through an overlay.
#[derive(Debug)]
pub(crate) struct OverlayTree {
    /// Its path, the same on the host and in the box.
    pub(crate) place: PathBuf,
    /// The host's directory, pinned when the box was made.
    pub(crate) lower: OwnedFd,
    /// What the box has there.
    pub(crate) upper: Upper,
    /// User and group that committed files are given; none leaves them to whoever commits.
    pub(crate) caller: Option<(u32, u32)>,
}

/// What a box has in the place of a tree.
#[derive(Debug)]
pub(crate) enum Upper {
    /// The directory of changes of an overlay, from the box's own file system, readable.
    Layer(OwnedFd),
    /// A whole copy.
    #[cfg(feature = "remote")]
    Copy(CopiedTree),
}

impl OverlayTree {
    fn path_of(&self, relative: &Path) -> PathBuf {
        if relative.as_os_str().is_empty() { self.place.clone() } else { self.place.join(relative) }
    }

    /// Whether a file belongs to somebody else than the one for whom files are committed.
    fn is_foreign(&self, seen: &Seen) -> bool {
        self.caller.is_some_and(|(uid, _)| uid != seen.owner)
    }
}

/// The overlay trees of one box.
///
/// The work is done on a blocking thread. A future that is dropped does not stop it: a commit that has begun is
/// completed.
///
/// Permission bits are compared and committed without set-user-id, set-group-id and sticky. Sockets, pipes and
/// devices are listed, and never committed. Extended attributes and times are not carried over; a hard link becomes a
/// file of its own.
///
/// After a commit the box keeps its copies of what it changed, so nothing that the host changes in those files later is
/// seen in it. After [`Workspace::discard`] the changes can no longer be listed or committed; the code in the box still
/// sees them, because a layer cannot be emptied under a mounted overlay. [`OverlayWorkspace::is_discarded`] is there so
/// that nothing more is started in such a box.
#[derive(Debug)]
pub(crate) struct OverlayWorkspace {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    trees: Vec<OverlayTree>,
    filesystem: FilesystemPolicy,
    running: Arc<AtomicUsize>,
    /// Held by whoever compares or changes the trees.
    baseline: Arc<Mutex<Baseline>>,
    /// Changed while the baseline is held, read by anybody.
    discarded: AtomicBool,
}

impl OverlayWorkspace {
    /// A workspace of these trees. `created` is a moment before the first command: what the host changes after it is a
    /// conflict. `running` counts the commands that run in the box.
    pub(crate) fn new(
        overlays: Vec<OverlayTree>,
        filesystem: FilesystemPolicy,
        created: SystemTime,
        running: Arc<AtomicUsize>,
    ) -> Self {
        let baseline = Arc::new(Mutex::new(Baseline::new(created)));
        let discarded = AtomicBool::new(false);
        Self { shared: Arc::new(Shared { trees: overlays, filesystem, running, baseline, discarded }) }
    }

    /// Whether the changes were thrown away, so that what the box sees is no longer worth anything. Never waits.
    pub(crate) fn is_discarded(&self) -> bool {
        self.shared.discarded.load(Ordering::Acquire)
    }

    async fn work<T: Send + 'static>(
        &self,
        work: fn(&Shared, &mut Baseline) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        let shared = Arc::clone(&self.shared);
        // Who waits for a turn holds no thread; who has one keeps it to the end of the work, whether or not somebody waits for that.
        let mut baseline = Arc::clone(&shared.baseline).lock_owned().await;
        if self.is_discarded() {
            return Err(WorkspaceError::Lost { reason: "its changes were thrown away; create a new box".to_owned() });
        }
        let done = tokio::task::spawn_blocking(move || work(&shared, &mut baseline)).await;
        done.unwrap_or_else(|error| Err(WorkspaceError::Lost { reason: error.to_string() }))
    }
}

#[async_trait]
impl Workspace for OverlayWorkspace {
    async fn diff(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.work(Shared::diff_at_rest).await
    }

    async fn commit(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.work(Shared::commit).await
    }

    async fn diff_now(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.work(Shared::diff).await
    }

    async fn discard(&self) -> Result<(), WorkspaceError> {
        // A commit that has begun is completed first.
        let _unchanged = self.shared.baseline.lock().await;
        self.shared.check_idle()?;
        self.shared.discarded.store(true, Ordering::Release);
        Ok(())
    }
}

impl Shared {
    /// For whoever holds the baseline: a command may start while one waits for that.
    fn check_idle(&self) -> Result<(), WorkspaceError> {
        if self.running.load(Ordering::Acquire) > 0 { Err(WorkspaceError::Busy) } else { Ok(()) }
    }

    fn diff_at_rest(&self, baseline: &mut Baseline) -> Result<Vec<Change>, WorkspaceError> {
        self.check_idle()?;
        self.diff(baseline)
    }

    fn diff(&self, _: &mut Baseline) -> Result<Vec<Change>, WorkspaceError> {
        differences(&self.trees)
    }

    fn commit(&self, baseline: &mut Baseline) -> Result<Vec<Change>, WorkspaceError> {
        self.check_idle()?;
        commit(&self.trees, &self.filesystem, baseline)
    }
}

/// What the box changed.
pub(crate) fn differences(trees: &[OverlayTree]) -> Result<Vec<Change>, WorkspaceError> {
    Ok(changes(diff::differences(trees)?))
}

/// Applies what the box changed to the host's files, or nothing if some of it must not or cannot be.
pub(crate) fn commit(
    trees: &[OverlayTree],
    filesystem: &FilesystemPolicy,
    baseline: &mut Baseline,
) -> Result<Vec<Change>, WorkspaceError> {
    let differences = check::committable(diff::differences(trees)?);
    check::permission(&differences, filesystem)?;
    apply(trees, baseline, differences)
}

/// Applies what the box changed to the host's files, except where the policy does not let it: those paths are the second of the
/// pair.
#[cfg(feature = "remote")]
pub(crate) fn commit_allowed(
    trees: &[OverlayTree],
    filesystem: &FilesystemPolicy,
    baseline: &mut Baseline,
) -> Result<(Vec<Change>, Vec<PathBuf>), WorkspaceError> {
    let mut differences = check::committable(diff::differences(trees)?);
    let left_out = check::leave_out_forbidden(&mut differences, filesystem);
    Ok((apply(trees, baseline, differences)?, left_out))
}

fn apply(
    trees: &[OverlayTree],
    baseline: &mut Baseline,
    differences: Vec<diff::Difference>,
) -> Result<Vec<Change>, WorkspaceError> {
    baseline.conflicts(&differences)?;
    check::feasibility(&differences, trees)?;
    Apply::new(trees, baseline).run(&differences)?;
    Ok(changes(differences))
}

fn changes(differences: Vec<diff::Difference>) -> Vec<Change> {
    differences.into_iter().map(|difference| difference.change).collect()
}

/// A failure after `applied` changes were applied.
fn failed(operation: &str, path: &Path, applied: usize, source: io::Error) -> WorkspaceError {
    WorkspaceError::Failed { operation: operation.to_owned(), path: path.to_owned(), applied, source }
}
