//! Carrying changes over to the host's tree, one at a time, beneath its pinned descriptor.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_core::backend::{ChangeKind, FileKind, WorkspaceError};
use rustix::fs::{AtFlags, Gid, Mode, Uid};

use super::beneath::{self, Seen};
use super::check::Baseline;
use super::diff::Difference;
use super::draft::Draft;
use super::{OverlayTree, Upper, content, failed};

/// Lets the owner work in a directory while it is being filled.
const FILLING: u32 = 0o700;

/// A commit in progress.
#[derive(Debug)]
pub(super) struct Apply<'a> {
    trees: &'a [OverlayTree],
    baseline: &'a mut Baseline,
    applied: usize,
}

/// What went wrong, and while doing what.
type Wrong = (&'static str, io::Error);

fn wrong<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> Wrong {
    move |error| (operation, error.into())
}

impl<'a> Apply<'a> {
    pub(super) fn new(trees: &'a [OverlayTree], baseline: &'a mut Baseline) -> Self {
        Self { trees, baseline, applied: 0 }
    }

    /// Applies the differences, which are sorted and checked. What is deleted goes last, so that a failure on the way
    /// loses nothing; only what a file takes the place of has to go first.
    pub(super) fn run(mut self, differences: &[Difference]) -> Result<(), WorkspaceError> {
        let mut brought = Vec::new();
        let mut done = self.carry_over(differences, &mut brought);
        // Also after a failure: nobody else could use a directory that is left as it was for filling.
        for directory in brought.into_iter().rev() {
            let finished =
                self.attempt(directory, |apply, parent, name| apply.finish_directory(parent, name, directory));
            done = done.and(finished);
        }
        done
    }

    /// Everything but the modes of directories, which are added to `brought`.
    fn carry_over<'d>(
        &mut self,
        differences: &'d [Difference],
        brought: &mut Vec<&'d Difference>,
    ) -> Result<(), WorkspaceError> {
        let mut rest = differences;
        let mut deletions = Vec::new();
        while let Some((next, after)) = rest.split_first() {
            rest = after;
            if next.change.kind == ChangeKind::Deleted {
                deletions.push(next);
                continue;
            }
            if next.replaces_directory() {
                let inside = rest.iter().take_while(|inner| inner.change.path.starts_with(&next.change.path)).count();
                let (inside, after) = rest.split_at(inside);
                rest = after;
                for gone in inside.iter().rev() {
                    self.step(gone, Self::delete)?;
                }
            }
            self.step(next, Self::bring)?;
            if next.change.file == FileKind::Directory {
                brought.push(next);
            }
        }
        for gone in deletions.into_iter().rev() {
            self.step(gone, Self::delete)?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        difference: &Difference,
        work: fn(&mut Self, &OwnedFd, &OsStr, &Difference) -> Result<(), Wrong>,
    ) -> Result<(), WorkspaceError> {
        self.attempt(difference, |apply, parent, name| {
            apply.expect(parent, name, difference)?;
            work(apply, parent, name, difference)
        })?;
        self.applied += 1;
        Ok(())
    }

    /// Does something in the directory that a path is in, and remembers how that left both.
    fn attempt(
        &mut self,
        difference: &Difference,
        work: impl FnOnce(&mut Self, &OwnedFd, &OsStr) -> Result<(), Wrong>,
    ) -> Result<(), WorkspaceError> {
        let path = &difference.change.path;
        self.try_attempt(difference, work).map_err(|(operation, source)| failed(operation, path, self.applied, source))
    }

    fn try_attempt(
        &mut self,
        difference: &Difference,
        work: impl FnOnce(&mut Self, &OwnedFd, &OsStr) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let (Some(above), Some(name)) = (difference.relative.parent(), difference.relative.file_name()) else {
            return Err(("change", io::ErrorKind::InvalidInput.into()));
        };
        let tree = self.tree(difference)?;
        let above_path = tree.path_of(above);
        let parent = beneath::open_place(&tree.lower, above).map_err(wrong("reach"))?;
        let above_before = beneath::look_at(&parent).map_err(wrong("reach"))?;
        let was_ours = self.baseline.holds(&above_path, &above_before);
        let done = work(self, &parent, name);
        // Also after a failure: the next commit must not take half of this one for somebody else's change.
        if was_ours {
            let above_after = beneath::look_at(&parent).map_err(wrong("look at"))?;
            self.baseline.record(&above_path, &above_after);
        }
        if done.is_ok()
            && let Some(after) = beneath::look(&parent, name).map_err(wrong("look at"))?
        {
            self.baseline.record(&difference.change.path, &after);
        }
        done
    }

    fn tree(&self, difference: &Difference) -> Result<&'a OverlayTree, Wrong> {
        self.trees.get(difference.tree).ok_or_else(|| ("reach", io::ErrorKind::NotFound.into()))
    }

    /// Makes sure that the host still has what the check saw. A directory may have been emptied by this commit.
    fn expect(&self, parent: &OwnedFd, name: &OsStr, difference: &Difference) -> Result<(), Wrong> {
        let now = beneath::look(parent, name).map_err(wrong("look at"))?;
        let as_expected = match (&now, &difference.before) {
            (None, None) => true,
            (Some(now), Some(before)) => {
                // Removing another name of the same file is a change of it too.
                now.is_same_file(before) && (before.kind == FileKind::Directory || before.links > 1 || now == before)
            }
            _ => false,
        };
        if as_expected { Ok(()) } else { Err(("change", changed_meanwhile())) }
    }

    fn delete(&mut self, parent: &OwnedFd, name: &OsStr, difference: &Difference) -> Result<(), Wrong> {
        remove(parent, name, difference.before.as_ref()).map_err(wrong("delete"))
    }

    fn bring(&mut self, parent: &OwnedFd, name: &OsStr, difference: &Difference) -> Result<(), Wrong> {
        let tree = self.tree(difference)?;
        let before = difference.before.as_ref();
        let mode = difference.change.mode_after.unwrap_or(0);
        match (difference.change.kind, difference.change.file) {
            (ChangeKind::Mode, FileKind::Directory) => {
                set_mode(tree, parent, name, mode | FILLING).map_err(wrong("change the mode of"))
            }
            // Another's file is replaced, as the box did it: its owner's rights are not lent to new content.
            (ChangeKind::Mode, FileKind::File) if !before.is_some_and(|before| tree.is_foreign(before)) => {
                set_mode(tree, parent, name, mode).map_err(wrong("change the mode of"))
            }
            (_, FileKind::Directory) => {
                remove(parent, name, before).map_err(wrong("replace"))?;
                make_directory(parent, name, tree.caller).map_err(wrong("make the directory"))
            }
            (_, FileKind::File) => {
                let draft = copy_file(tree, parent, &difference.relative, mode).map_err(wrong("copy"))?;
                place(draft, parent, name, before)
            }
            (_, FileKind::Link) => {
                let draft = copy_link(tree, parent, &difference.relative).map_err(wrong("copy the link"))?;
                place(draft, parent, name, before)
            }
            // Left out by the check.
            _ => Err(("copy", io::ErrorKind::Unsupported.into())),
        }
    }

    /// Gives a directory its mode, now that nothing more is put into it.
    fn finish_directory(&mut self, parent: &OwnedFd, name: &OsStr, difference: &Difference) -> Result<(), Wrong> {
        let mode = difference.change.mode_after.unwrap_or(FILLING);
        set_mode(self.tree(difference)?, parent, name, mode).map_err(wrong("change the mode of"))
    }
}

fn place(draft: Draft<'_>, parent: &OwnedFd, name: &OsStr, before: Option<&Seen>) -> Result<(), Wrong> {
    let replace = match before {
        None => false,
        Some(before) if before.kind == FileKind::Directory => {
            remove(parent, name, Some(before)).map_err(wrong("replace"))?;
            false
        }
        Some(_) => true,
    };
    draft.place(name, replace).map_err(wrong("put in place"))
}

/// Removes what is there, if it is there; a directory only when it is empty.
fn remove(parent: &OwnedFd, name: &OsStr, before: Option<&Seen>) -> io::Result<()> {
    let flags = match before {
        None => return Ok(()),
        Some(before) if before.kind == FileKind::Directory => AtFlags::REMOVEDIR,
        Some(_) => AtFlags::empty(),
    };
    Ok(rustix::fs::unlinkat(parent, name.as_bytes(), flags)?)
}

fn copy_file<'a>(tree: &OverlayTree, parent: &'a OwnedFd, relative: &Path, mode: u32) -> io::Result<Draft<'a>> {
    let draft = Draft::file(parent.as_fd())?;
    match &tree.upper {
        Upper::Layer(upper) => {
            let (source, seen) = beneath::open_file(upper, relative)?;
            content::copy(&source, draft.as_file()?, seen.size)?;
        }
        #[cfg(feature = "remote")]
        Upper::Copy(copy) => copy.write_content(relative, draft.as_file()?)?,
    }
    if let Some((uid, gid)) = tree.caller {
        draft.set_owner(uid, gid)?;
    }
    rustix::fs::fchmod(draft.as_file()?, permission_bits(mode))?;
    Ok(draft)
}

fn copy_link<'a>(tree: &OverlayTree, parent: &'a OwnedFd, relative: &Path) -> io::Result<Draft<'a>> {
    let (Some(above), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let target = match &tree.upper {
        Upper::Layer(upper) => beneath::link_target(beneath::open_place(upper, above)?, name)?,
        #[cfg(feature = "remote")]
        Upper::Copy(copy) => copy.link_target(relative)?,
    };
    let draft = Draft::link(parent.as_fd(), &target)?;
    if let Some((uid, gid)) = tree.caller {
        draft.set_owner(uid, gid)?;
    }
    Ok(draft)
}

/// Makes a directory that only its owner can use until it is complete.
fn make_directory(parent: &OwnedFd, name: &OsStr, caller: Option<(u32, u32)>) -> io::Result<()> {
    rustix::fs::mkdirat(parent, name.as_bytes(), permission_bits(FILLING))?;
    let Some((uid, gid)) = caller else { return Ok(()) };
    let directory = beneath::open_directory(parent, Path::new(name))?;
    // The tree's owner could have put another directory in its place, to be given it. Nothing is lost with one that is
    // empty.
    if beneath::names(&directory)?.next().is_some() {
        return Err(changed_meanwhile());
    }
    Ok(rustix::fs::fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
}

/// Sets the permission bits of a file or directory. A directory's set-group-id and sticky bits stay as they are.
fn set_mode(tree: &OverlayTree, parent: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<()> {
    let (pinned, seen) = beneath::pin(parent, Path::new(name))?;
    let kept = match seen.kind {
        FileKind::File => 0,
        FileKind::Directory => seen.special_bits,
        _ => return Err(changed_meanwhile()),
    };
    if tree.is_foreign(&seen) {
        return Err(changed_meanwhile());
    }
    // By way of procfs, because the file itself may not be readable.
    let path = format!("/proc/self/fd/{}", pinned.as_raw_fd());
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(kept | (mode & 0o777)))?)
}

fn permission_bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o777)
}

fn changed_meanwhile() -> io::Error {
    io::Error::other("it changed on the host meanwhile")
}
