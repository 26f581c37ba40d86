//! What was changed in overlay trees.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::Serialize;

use super::{FileKind, WorkspaceError};

/// The changes in the overlay trees of a box.
///
/// Call these when no command runs: [`WorkspaceError::Busy`] otherwise, because the answer would be out of date before
/// it is given. After `commit` the box can be used again and nothing differs; `discard` gives up the changes and with them
/// the box, in which nothing more can be started.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// What was added, changed and deleted, sorted by path; a directory comes before what is in it.
    async fn diff(&self) -> Result<Vec<Change>, WorkspaceError>;

    /// Applies the changes to the host's files and returns them.
    ///
    /// Protected paths are refused before anything is applied ([`WorkspaceError::Protected`]), devices and
    /// set-user-id bits are never carried over, and a link of the guest's is never followed.
    async fn commit(&self) -> Result<Vec<Change>, WorkspaceError>;

    /// Like [`Workspace::diff`], although commands run: the picture of a moment, for a caller who knows that it may be out of date as soon as it
    /// is taken. A backend that cannot give one says [`WorkspaceError::Busy`].
    async fn diff_now(&self) -> Result<Vec<Change>, WorkspaceError> {
        self.diff().await
    }

    /// Throws the changes away.
    async fn discard(&self) -> Result<(), WorkspaceError>;
}

/// One difference between an overlay and the tree beneath it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The absolute path, the same inside and outside.
    #[serde(serialize_with = "crate::serialize::path")]
    pub path: PathBuf,
    /// What happened.
    pub kind: ChangeKind,
    /// What is there now; for a deletion, what was there.
    pub file: FileKind,
    /// The permission bits before; none if it was not there.
    pub mode_before: Option<u32>,
    /// The permission bits now; none if it is not there.
    pub mode_after: Option<u32>,
    /// The size in bytes now; none for what is not a regular file.
    pub size: Option<u64>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Its content is different, or it became something else.
    Changed,
    /// It is gone.
    Deleted,
    /// Only its permission bits are different.
    Mode,
}
