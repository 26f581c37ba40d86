//! What must hold before the first change reaches the host.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hotcell_core::backend::{ChangeKind, FileKind, WorkspaceError};
use hotcell_core::policy::{Access, FilesystemPolicy};

use super::beneath::{Identity, Seen};
use super::diff::Difference;
use super::{OverlayTree, Upper, failed};

/// A file that claims to be larger is not carried over: no overlay holds as much, so it is nearly all hole, and the
/// host's file system may not take it.
const FILE_MAX: u64 = 1 << 40;

/// Leaves out what is never committed: sockets, pipes and devices, and what vanished beneath one.
pub(super) fn committable(differences: Vec<Difference>) -> Vec<Difference> {
    let mut left_out: Option<PathBuf> = None;
    differences
        .into_iter()
        .filter(|difference| {
            let path = &difference.change.path;
            if left_out.as_ref().is_some_and(|above| path.starts_with(above)) {
                return false;
            }
            let special = difference.change.file == FileKind::Other && difference.change.kind != ChangeKind::Deleted;
            if special {
                left_out = Some(path.clone());
            }
            !special
        })
        .collect()
}

/// Refuses changes to what the policy does not let the box change on the host.
///
/// Those are protected paths and paths with a narrower rule, and whatever contains one of them and would be made,
/// removed or replaced.
pub(super) fn permission(differences: &[Difference], policy: &FilesystemPolicy) -> Result<(), WorkspaceError> {
    let touched = forbidden(differences, policy);
    if touched.is_empty() { Ok(()) } else { Err(WorkspaceError::Protected { paths: touched.into_iter().collect() }) }
}

/// The paths that the policy does not let the box change on the host, of those that it changed. At most one per fence and its
/// parents: there are few however much was changed.
fn forbidden(differences: &[Difference], policy: &FilesystemPolicy) -> BTreeSet<PathBuf> {
    let mut fences: BTreeSet<PathBuf> = policy.protected_paths().into_iter().map(|protected| protected.path).collect();
    fences.extend(policy.rules.iter().map(|rule| rule.path.clone()));
    let mut touched = BTreeSet::new();
    for Difference { change, before, .. } in differences {
        // A file that may be written by name has nothing in it that could be protected.
        let is_written_file = change.file == FileKind::File
            && before.is_some_and(|before| before.kind == FileKind::File)
            && policy.rules.iter().any(|rule| rule.path == change.path && rule.access == Access::Write);
        if is_written_file {
            continue;
        }
        if policy.effective_access(&change.path) < Access::Overlay {
            let fence = fences.iter().rfind(|fence| change.path.starts_with(fence));
            touched.insert(fence.unwrap_or(&change.path).clone());
        } else if change.kind != ChangeKind::Mode {
            let contains_fence = |fence: &PathBuf| *fence != change.path && fence.starts_with(&change.path);
            if fences.iter().any(contains_fence) {
                touched.insert(change.path.clone());
            }
        }
    }
    touched
}

/// Leaves out what the policy does not let the box change on the host, with everything beneath it, as it would have been refused in a
/// box that writes to the host's own files. What was left out.
#[cfg(feature = "remote")]
pub(super) fn leave_out_forbidden(differences: &mut Vec<Difference>, policy: &FilesystemPolicy) -> Vec<PathBuf> {
    let touched = forbidden(differences, policy);
    differences.retain(|difference| !touched.iter().any(|above| difference.change.path.starts_with(above)));
    touched.into_iter().collect()
}

/// Refuses what is known not to work, so that it does not fail in the middle.
pub(super) fn feasibility(differences: &[Difference], trees: &[OverlayTree]) -> Result<(), WorkspaceError> {
    for Difference { tree, change, before, .. } in differences {
        let Some(tree) = trees.get(*tree) else { continue };
        let denied = |reason| io::Error::new(io::ErrorKind::PermissionDenied, reason);
        if change.size.is_some_and(|size| size > FILE_MAX) {
            let reason = format!("it claims to be larger than {FILE_MAX} bytes");
            return Err(failed("copy", &change.path, 0, io::Error::other(reason)));
        }
        let is_copied = change.file == FileKind::File && matches!(change.kind, ChangeKind::Added | ChangeKind::Changed);
        // Without a caller to give files to, this is an ordinary user, who cannot read everything of a layer.
        let is_layer = matches!(tree.upper, Upper::Layer(_));
        if is_copied && is_layer && tree.caller.is_none() && change.mode_after.is_some_and(|mode| mode & 0o400 == 0) {
            let source = denied("its owner may not read it; make it readable in the box");
            return Err(failed("copy", &change.path, 0, source));
        }
        let is_foreign = before.is_some_and(|before| tree.is_foreign(&before));
        if is_foreign && change.kind == ChangeKind::Mode && change.file == FileKind::Directory {
            let source = denied("it belongs to somebody else than the tree");
            return Err(failed("change the mode of", &change.path, 0, source));
        }
    }
    Ok(())
}

/// What the host's files looked like when the box was made, as far as their time of change tells.
///
/// A change within the few milliseconds of the clock's grain after that moment is not noticed.
#[derive(Debug)]
pub(crate) struct Baseline {
    created: (i64, u32),
    /// What commits of this workspace have changed since, and how they left it.
    ours: HashMap<PathBuf, Identity>,
}

impl Baseline {
    /// What holds at this moment.
    pub(crate) fn new(created: SystemTime) -> Self {
        let since = created.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Self { created: (seconds, since.subsec_nanos()), ours: HashMap::new() }
    }

    /// Whether nobody else has changed this file.
    pub(super) fn holds(&self, path: &Path, seen: &Seen) -> bool {
        seen.identity.changed <= self.created || self.ours.get(path) == Some(&seen.identity)
    }

    /// Remembers how a commit left a file.
    pub(super) fn record(&mut self, path: &Path, seen: &Seen) {
        self.ours.insert(path.to_owned(), seen.identity);
    }

    /// Refuses to overwrite what somebody else changed.
    pub(super) fn conflicts(&self, differences: &[Difference]) -> Result<(), WorkspaceError> {
        for Difference { change, before, .. } in differences {
            if before.is_some_and(|before| !self.holds(&change.path, &before)) {
                return Err(WorkspaceError::Conflict { path: change.path.clone() });
            }
        }
        Ok(())
    }
}
