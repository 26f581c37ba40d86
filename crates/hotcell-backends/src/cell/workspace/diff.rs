//! What an overlay's upper layer says about the tree beneath it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hotcell_core::backend::{Change, ChangeKind, FileKind, WorkspaceError};

use super::beneath::{self, Seen};
use super::marks::{self, Cover};
use super::{OverlayTree, Upper, content, failed};

/// How many entries are looked at before giving up: the code in the box decides how many there are.
const ENTRIES_MAX: usize = 1_000_000;
/// How long their paths may be together.
const PATH_BYTES_MAX: usize = 256 << 20;

/// A change, and where it is.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    /// The number of the overlay tree.
    pub(super) tree: usize,
    /// The path beneath that tree.
    pub(super) relative: PathBuf,
    pub(super) change: Change,
    /// What the host has at this path.
    pub(super) before: Option<Seen>,
}

impl Difference {
    /// Whether something that is no directory takes a directory's place.
    pub(super) fn replaces_directory(&self) -> bool {
        self.change.kind == ChangeKind::Changed
            && self.change.file != FileKind::Directory
            && self.before.is_some_and(|before| before.kind == FileKind::Directory)
    }
}

/// The differences of all trees, sorted by path; a directory comes before what is in it.
pub(super) fn differences(trees: &[OverlayTree]) -> Result<Vec<Difference>, WorkspaceError> {
    let mut walk = Walk { found: Vec::new(), entries: 0, path_bytes: 0 };
    for (number, tree) in trees.iter().enumerate() {
        walk.tree(number, tree)?;
    }
    walk.found.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    Ok(walk.found)
}

pub(super) struct Walk {
    found: Vec<Difference>,
    entries: usize,
    path_bytes: usize,
}

/// A directory of the upper layer that is still to be looked at. Only its path is kept: a deep tree must not use up the
/// descriptors.
struct Pending {
    relative: PathBuf,
    /// Whether the host has a directory there too.
    has_lower: bool,
}

/// What a changed path is now.
pub(super) struct Now {
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    pub(super) size: u64,
}

impl From<&Seen> for Now {
    fn from(seen: &Seen) -> Self {
        Self { kind: seen.kind, mode: seen.mode, size: seen.size }
    }
}

/// The place being looked at.
pub(super) struct Place<'a> {
    number: usize,
    pub(super) tree: &'a OverlayTree,
}

impl Place<'_> {
    pub(super) fn failed(&self, operation: &str, relative: &Path, source: io::Error) -> WorkspaceError {
        failed(operation, &self.tree.path_of(relative), 0, source)
    }
}

impl Walk {
    fn tree(&mut self, number: usize, tree: &OverlayTree) -> Result<(), WorkspaceError> {
        let place = Place { number, tree };
        match &tree.upper {
            Upper::Layer(upper) => self.layer(&place, upper),
            #[cfg(feature = "remote")]
            Upper::Copy(copy) => copy.differences(self, &place),
        }
    }

    fn layer(&mut self, place: &Place<'_>, upper: &OwnedFd) -> Result<(), WorkspaceError> {
        // The top itself is not compared: its attributes are those of a directory that Hotcell made.
        let mut pending = vec![Pending { relative: PathBuf::new(), has_lower: true }];
        while let Some(next) = pending.pop() {
            self.directory(place, upper, &next, &mut pending)?;
        }
        Ok(())
    }

    fn directory(
        &mut self,
        place: &Place<'_>,
        upper: &OwnedFd,
        at: &Pending,
        pending: &mut Vec<Pending>,
    ) -> Result<(), WorkspaceError> {
        let wrong = |source| place.failed("read the changes in", &at.relative, source);
        let upper = match beneath::open_directory(upper, &at.relative) {
            Ok(upper) => upper,
            // Something that was left running in the box removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        let lower = if at.has_lower {
            let opened = beneath::open_place(&place.tree.lower, &at.relative);
            Some(opened.map_err(|source| place.failed("reach", &at.relative, source))?)
        } else {
            None
        };
        let cover = marks::cover(&upper).map_err(wrong)?;
        let mut named = HashSet::new();
        for name in beneath::names(&upper).map_err(wrong)? {
            let name = name.map_err(wrong)?;
            let relative = at.relative.join(&name);
            self.count(place, &relative)?;
            if cover == Cover::Opaque {
                named.insert(name.clone());
            }
            let wrong = |source| place.failed("compare", &relative, source);
            let Some(after) = beneath::look(&upper, &name).map_err(wrong)? else { continue };
            let before = look_below(lower.as_ref(), &name).map_err(wrong)?;
            if marks::is_deletion(&upper, &name, &after, cover).map_err(wrong)? {
                if let Some(before) = before {
                    self.deleted(place, relative, before)?;
                }
                continue;
            }
            let kind = compare(&upper, lower.as_ref(), &name, &after, before.as_ref()).map_err(wrong)?;
            if after.kind == FileKind::Directory {
                let has_lower = before.is_some_and(|before| before.kind == FileKind::Directory);
                pending.push(Pending { relative: relative.clone(), has_lower });
            }
            if let Some(kind) = kind {
                let emptied = self.changed(place, relative, kind, Now::from(&after), before);
                if let Some(directory) = emptied {
                    self.deleted_beneath(place, directory)?;
                }
            }
        }
        if cover == Cover::Opaque && at.has_lower {
            self.covered(place, &at.relative, &named)?;
        }
        Ok(())
    }

    /// Everything that an opaque directory hides.
    fn covered(&mut self, place: &Place<'_>, at: &Path, named: &HashSet<OsString>) -> Result<(), WorkspaceError> {
        let wrong = |source| place.failed("read", at, source);
        let lower = beneath::open_directory(&place.tree.lower, at).map_err(wrong)?;
        for name in beneath::names(&lower).map_err(wrong)? {
            let name = name.map_err(wrong)?;
            if !named.contains(&name)
                && let Some(before) = beneath::look(&lower, &name).map_err(wrong)?
            {
                self.deleted(place, at.join(name), before)?;
            }
        }
        Ok(())
    }

    /// A path that is different now; the directory that was there, if something else has taken its place.
    pub(super) fn changed(
        &mut self,
        place: &Place<'_>,
        relative: PathBuf,
        kind: ChangeKind,
        now: Now,
        before: Option<Seen>,
    ) -> Option<PathBuf> {
        let difference = Difference {
            tree: place.number,
            change: Change {
                path: place.tree.path_of(&relative),
                kind,
                file: now.kind,
                mode_before: before.map(|before| before.mode),
                mode_after: Some(now.mode),
                size: (now.kind == FileKind::File).then_some(now.size),
            },
            relative,
            before,
        };
        let emptied = difference.replaces_directory().then(|| difference.relative.clone());
        self.found.push(difference);
        emptied
    }

    /// A path that is gone, with everything beneath it.
    fn deleted(&mut self, place: &Place<'_>, relative: PathBuf, before: Seen) -> Result<(), WorkspaceError> {
        let directory = (before.kind == FileKind::Directory).then(|| relative.clone());
        self.gone(place, relative, before)?;
        match directory {
            Some(directory) => self.deleted_beneath(place, directory),
            None => Ok(()),
        }
    }

    fn deleted_beneath(&mut self, place: &Place<'_>, directory: PathBuf) -> Result<(), WorkspaceError> {
        let mut pending = vec![directory];
        while let Some(at) = pending.pop() {
            let wrong = |source| place.failed("read", &at, source);
            let lower = beneath::open_directory(&place.tree.lower, &at).map_err(wrong)?;
            for name in beneath::names(&lower).map_err(wrong)? {
                let name = name.map_err(wrong)?;
                let Some(before) = beneath::look(&lower, &name).map_err(wrong)? else { continue };
                let relative = at.join(&name);
                if before.kind == FileKind::Directory {
                    pending.push(relative.clone());
                }
                self.gone(place, relative, before)?;
            }
        }
        Ok(())
    }

    pub(super) fn gone(&mut self, place: &Place<'_>, relative: PathBuf, before: Seen) -> Result<(), WorkspaceError> {
        self.count(place, &relative)?;
        self.found.push(Difference {
            tree: place.number,
            change: Change {
                path: place.tree.path_of(&relative),
                kind: ChangeKind::Deleted,
                file: before.kind,
                mode_before: Some(before.mode),
                mode_after: None,
                size: None,
            },
            relative,
            before: Some(before),
        });
        Ok(())
    }

    pub(super) fn count(&mut self, place: &Place<'_>, relative: &Path) -> Result<(), WorkspaceError> {
        self.entries += 1;
        self.path_bytes += place.tree.place.as_os_str().len() + relative.as_os_str().len();
        if self.entries > ENTRIES_MAX || self.path_bytes > PATH_BYTES_MAX {
            let reason =
                format!("there are too many: more than {ENTRIES_MAX} entries or {PATH_BYTES_MAX} bytes of paths");
            return Err(failed("list the changes in", &place.tree.place, 0, io::Error::other(reason)));
        }
        Ok(())
    }
}

fn look_below(lower: Option<&OwnedFd>, name: &OsStr) -> io::Result<Option<Seen>> {
    lower.map_or(Ok(None), |lower| beneath::look(lower, name))
}

/// How an entry of the upper layer differs from what is beneath it, if it does.
fn compare(
    upper: &OwnedFd,
    lower: Option<&OwnedFd>,
    name: &OsStr,
    after: &Seen,
    before: Option<&Seen>,
) -> io::Result<Option<ChangeKind>> {
    let (Some(lower), Some(before)) = (lower, before) else { return Ok(Some(ChangeKind::Added)) };
    let same = after.kind == before.kind
        && match after.kind {
            FileKind::File => after.size == before.size && has_same_content(upper, lower, name, after.size)?,
            FileKind::Link => {
                // The mode of a link means nothing.
                let same = beneath::link_target(upper, name)? == beneath::link_target(lower, name)?;
                return Ok((!same).then_some(ChangeKind::Changed));
            }
            FileKind::Directory => true,
            _ => after.special == before.special,
        };
    Ok(if !same {
        Some(ChangeKind::Changed)
    } else if after.mode != before.mode {
        Some(ChangeKind::Mode)
    } else {
        None
    })
}

fn has_same_content(upper: &OwnedFd, lower: &OwnedFd, name: &OsStr, size: u64) -> io::Result<bool> {
    let open = |directory| beneath::open_file(directory, Path::new(name));
    match open(upper).and_then(|(above, _)| Ok((above, open(lower)?.0))) {
        Ok((above, below)) => content::is_same(&above, &below, size),
        // It cannot be shown to be the same.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}
