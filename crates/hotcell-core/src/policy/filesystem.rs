//! Which host paths the code can reach, with which access.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Serialize, Serializer};

use super::protect::DEFAULT_PROTECTED;
use crate::config::Origin;

/// What the code may do with a path; each grants all that the ones before it grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Nothing.
    Deny,
    /// Read and execute.
    Read,
    /// Read, and write to a layer that the host does not see until it is committed.
    Overlay,
    /// Read and write the host's own files.
    Write,
}

impl Access {
    /// The key in `[filesystem]`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Read => "read",
            Self::Overlay => "overlay",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// An access for a path and all that is beneath it, until a deeper rule says otherwise.
///
/// A rule whose origin is the project file was accepted because the *text* of its path lies beneath a grant. A
/// backend must not follow a symbolic link out of that grant on its behalf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathRule {
    /// Absolute, without `.` and `..`; links are not resolved.
    #[serde(serialize_with = "crate::serialize::path")]
    pub path: PathBuf,
    /// What may be done.
    pub access: Access,
    /// Where it was written.
    pub origin: Origin,
}

/// A place that a protected name stands for.
///
/// To hold it, a backend also keeps the directories between the tree and the path in place: `.git` must not be renamed
/// away, nor be made a link or a file that leads elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtectedPath {
    /// The absolute path, which need not exist.
    #[serde(serialize_with = "crate::serialize::path")]
    pub path: PathBuf,
    /// The writable tree it is in: the path of the nearest rule above it.
    #[serde(serialize_with = "crate::serialize::path")]
    pub tree: PathBuf,
    /// That rule's access: in a `Write` tree the path must not change; in an `Overlay` tree it may change in the
    /// overlay, but is not committed to the host.
    pub access: Access,
}

/// Which host paths the code can reach. System directories are the backend's business and always read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilesystemPolicy {
    /// Unique by path, shallow to deep: a backend can apply them in order.
    pub rules: Vec<PathRule>,
    /// Names, relative to the top of every writable tree, that the code cannot change; sorted, unique.
    #[serde(serialize_with = "lossy_paths")]
    pub protect: Vec<PathBuf>,
    /// Single places that the code cannot change where they are in a writable tree: absolute, without `.` and `..`, links not
    /// resolved; sorted, unique.
    #[serde(serialize_with = "lossy_paths", skip_serializing_if = "Vec::is_empty")]
    pub protect_paths: Vec<PathBuf>,
}

impl Default for FilesystemPolicy {
    /// No host files; the built-in protected names.
    fn default() -> Self {
        let mut protect: Vec<PathBuf> = DEFAULT_PROTECTED.iter().map(|entry| PathBuf::from(entry.name)).collect();
        protect.sort();
        Self { rules: Vec::new(), protect, protect_paths: Vec::new() }
    }
}

impl FilesystemPolicy {
    /// What the rules grant for a path: the most specific rule wins, no rule means [`Access::Deny`].
    ///
    /// Decided by the text of the path. Protected names are not looked at; see [`FilesystemPolicy::effective_access`].
    pub fn access(&self, path: &Path) -> Access {
        normalize(path).and_then(|path| self.nearest_rule(&path)).map_or(Access::Deny, |rule| rule.access)
    }

    /// Like [`FilesystemPolicy::access`], with protected paths counted as [`Access::Read`]: that is what the host's files
    /// can suffer there. In an overlay the code can write a protected path, but that is never committed.
    ///
    /// ```
    /// use hotcell_core::policy::{Access, Policy};
    /// let files = Policy::builder().write("/src").build()?.filesystem;
    /// assert_eq!(files.effective_access("/src/main.rs".as_ref()), Access::Write);
    /// assert_eq!(files.effective_access("/src/.git/hooks/pre-commit".as_ref()), Access::Read);
    /// # Ok::<(), hotcell_core::layers::PolicyError>(())
    /// ```
    pub fn effective_access(&self, path: &Path) -> Access {
        let Some(path) = normalize(path) else { return Access::Deny };
        let Some(rule) = self.nearest_rule(&path) else { return Access::Deny };
        let inside = path.strip_prefix(&rule.path).unwrap_or(&path);
        let is_protected = || {
            let mut places = self.protect_paths.iter().filter_map(|place| place.strip_prefix(&rule.path).ok());
            // A rule for the place itself is meant.
            places.any(|place| !place.as_os_str().is_empty() && inside.starts_with(place))
                || self.names_beneath(&rule.path).any(|name| inside.starts_with(name))
        };
        if rule.access >= Access::Overlay && is_protected() { Access::Read } else { rule.access }
    }

    /// The places that the protected names stand for, in all trees that can be written, and the single protected places that are in
    /// one, sorted.
    ///
    /// A place that a rule makes writable by name is not among them: whoever named it meant it. A tree that starts inside a
    /// protected name's path is covered too: with `.git/hooks` protected and `/src/.git` writable, `/src/.git/hooks`
    /// is protected.
    pub fn protected_paths(&self) -> Vec<ProtectedPath> {
        let mut protected: Vec<ProtectedPath> = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.access >= Access::Overlay) {
            let names = self.names_beneath(&rule.path).map(|name| rule.path.join(name));
            let places = self.protect_paths.iter().filter(|place| place.starts_with(&rule.path)).cloned();
            for path in names.chain(places) {
                let named_writable =
                    self.rules.iter().any(|other| other.path == path && other.access >= Access::Overlay);
                let above = path.parent().and_then(|parent| self.nearest_rule(parent));
                if !named_writable && above.is_some_and(|above| above.path == rule.path) {
                    protected.push(ProtectedPath { path, tree: rule.path.clone(), access: rule.access });
                }
            }
        }
        protected.sort_by(|a, b| a.path.cmp(&b.path));
        protected.dedup_by(|a, b| a.path == b.path);
        protected
    }

    /// Adds a rule, or replaces the one at the same path, keeping the order.
    pub(crate) fn insert(&mut self, rule: PathRule) {
        self.rules.retain(|existing| existing.path != rule.path);
        let key = |rule: &PathRule| (rule.path.components().count(), rule.path.clone());
        let place = self.rules.partition_point(|existing| key(existing) < key(&rule));
        self.rules.insert(place, rule);
    }

    /// The rule that governs a normal path.
    pub(crate) fn nearest_rule(&self, path: &Path) -> Option<&PathRule> {
        // Shallow to deep, so the last match is the deepest.
        self.rules.iter().rev().find(|rule| path.starts_with(&rule.path))
    }

    /// The protected names as paths relative to this tree: each name, and what remains of a name whose beginning is
    /// the end of the tree's own path.
    fn names_beneath<'a>(&'a self, tree: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.protect.iter().flat_map(move |name| {
            let beginnings = name.ancestors().skip(1).filter(|beginning| tree.ends_with(beginning));
            beginnings.filter_map(|beginning| name.strip_prefix(beginning).ok())
        })
    }
}

/// The path without `.`, `..` and doubled separators, by text alone; none unless it is absolute.
pub(crate) fn normalize(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // At the root this does nothing, as in every kernel.
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    Some(normal)
}

fn lossy_paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
