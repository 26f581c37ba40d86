//! Making and removing files beneath a pinned directory.
//!
//! Directories are opened with `openat2` and `RESOLVE_IN_ROOT`: an absolute link or one with `..` leads to somewhere in the image, as
//! it would in the box, and never out of it. Images rely on that: where `/lib` is a link to `usr/lib`, later layers write to
//! `lib/…`. The last name of a path is always taken as it is.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::removal::{children, remove};

/// For directories: links are followed inside the root.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);
/// For names: nothing is followed.
const EXACTLY: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Why an entry cannot be unpacked.
#[derive(Debug)]
pub(super) enum Problem {
    /// No honest layer has it.
    Hostile(&'static str),
    System(io::Error),
}

impl From<Errno> for Problem {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NAMETOOLONG => Self::Hostile("a name in it is too long"),
            Errno::LOOP => Self::Hostile("links in its path lead in circles"),
            Errno::NOTDIR => Self::Hostile("something in its path is not a directory"),
            Errno::XDEV => Self::Hostile("its path leads to another file system"),
            errno => Self::System(errno.into()),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// What an entry says about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) modified: u64,
}

impl Attributes {
    /// For directories that no entry is about.
    const PLAIN: Self = Self { mode: 0o755, owner: 0, group: 0, modified: 0 };
}

#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// Root gives files away; others keep them.
    privileged: bool,
    /// The most directories inside each other.
    deepest: u32,
    /// How deep each directory is, by its inode: the path by which it was reached says nothing where links are in it.
    depths: HashMap<u64, u32>,
    /// The inodes that the current layer made or mentioned. Its whiteouts are about the layers below.
    fresh: HashSet<u64>,
    /// The directories that the current layer's whiteouts emptied of everything older. Nothing older can come back, and without this
    /// many whiteouts of one large directory would take for ever.
    emptied: HashSet<u64>,
    /// The directory that was used last; entries of one directory come together.
    last: Option<(Vec<u8>, Rc<Place>)>,
}

/// An open directory of the tree.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    depth: u32,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    privileged: bool,
}

impl Tree {
    pub(super) fn new(root: OwnedFd, privileged: bool, deepest: u32) -> io::Result<Self> {
        let inode = rustix::fs::fstat(&root)?.st_ino;
        Ok(Self {
            root,
            privileged,
            deepest,
            depths: HashMap::from([(inode, 0)]),
            fresh: HashSet::new(),
            emptied: HashSet::new(),
            last: None,
        })
    }

    pub(super) fn begin_layer(&mut self) {
        self.fresh.clear();
        self.emptied.clear();
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    pub(super) fn set_root(&mut self, attributes: Attributes) -> Result<(), Problem> {
        self.set_directory(&self.root, attributes)
    }

    pub(super) fn directory(&mut self, parent: &[u8], name: &[u8], attributes: Attributes) -> Result<(), Problem> {
        let place = self.make_place(parent)?;
        let there = look(&place.directory, name)?;
        if there.is_some_and(|status| FileType::from_raw_mode(status.st_mode) != FileType::Directory) {
            self.remove(&place, name)?;
        }
        let directory = self.make_directory(&place, name)?;
        self.set_directory(&directory, attributes)
    }

    pub(super) fn file(&mut self, parent: &[u8], name: &[u8]) -> Result<NewFile, Problem> {
        let place = self.make_place(parent)?;
        self.remove(&place, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat2(&place.directory, name, flags, Mode::from_raw_mode(0o600), EXACTLY)?;
        self.fresh.insert(rustix::fs::fstat(&file)?.st_ino);
        Ok(NewFile { file: File::from(file), privileged: self.privileged })
    }

    pub(super) fn symlink(
        &mut self,
        parent: &[u8],
        name: &[u8],
        target: &[u8],
        attributes: Attributes,
    ) -> Result<(), Problem> {
        let place = self.make_place(parent)?;
        self.remove(&place, name)?;
        rustix::fs::symlinkat(target, &place.directory, name)?;
        if self.privileged {
            let (owner, group) = ids(attributes);
            rustix::fs::chownat(&place.directory, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.note(&place, name)
    }

    pub(super) fn hard_link(
        &mut self,
        parent: &[u8],
        name: &[u8],
        target_parent: &[u8],
        target_name: &[u8],
    ) -> Result<(), Problem> {
        const NOT_THERE: Problem = Problem::Hostile("it is a link to a file that is not in the image");
        let target = self.place(target_parent)?.ok_or(NOT_THERE)?;
        let status = look(&target.directory, target_name)?.ok_or(NOT_THERE)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(Problem::Hostile("it is a hard link to something that is not a file"));
        }
        let place = self.make_place(parent)?;
        if look(&place.directory, name)?.is_some_and(|there| there.st_ino == status.st_ino) {
            // It is that file already.
            return self.note(&place, name);
        }
        self.remove(&place, name)?;
        // What was removed could have been the directory of the target.
        rustix::fs::linkat(&target.directory, target_name, &place.directory, name, AtFlags::empty())
            .map_err(|errno| if errno == Errno::NOENT { NOT_THERE } else { errno.into() })?;
        self.note(&place, name)
    }

    /// Removes what the layers below have at that name.
    pub(super) fn hide(&mut self, parent: &[u8], name: &[u8]) -> Result<(), Problem> {
        match self.place(parent)? {
            Some(place) => self.remove_lower(&place.directory, name),
            None => Ok(()),
        }
    }

    /// Removes what the layers below have in that directory.
    pub(super) fn hide_all(&mut self, parent: &[u8]) -> Result<(), Problem> {
        match self.place(parent)? {
            Some(place) => self.empty(&place.directory),
            None => Ok(()),
        }
    }

    /// Removes from a directory what was there before this layer.
    fn empty(&mut self, directory: &OwnedFd) -> Result<(), Problem> {
        if self.emptied.insert(rustix::fs::fstat(directory)?.st_ino) {
            for name in children(directory)? {
                self.remove_lower(directory, &name)?;
            }
        }
        Ok(())
    }

    /// Removes what was there before this layer, and keeps what this layer made, however deep in it that is.
    fn remove_lower(&mut self, directory: &OwnedFd, name: &[u8]) -> Result<(), Problem> {
        let Some(status) = look(directory, name)? else { return Ok(()) };
        let fresh = self.fresh.contains(&status.st_ino);
        if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
            return if fresh { Ok(()) } else { Ok(remove(directory, name)?) };
        }
        self.last = None;
        // As deep as the tree is at most.
        let inner = rustix::fs::openat2(directory, name, DIRECTORY, Mode::empty(), EXACTLY)?;
        self.empty(&inner)?;
        if fresh {
            return Ok(());
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The directory at a path, if it is there.
    fn place(&mut self, path: &[u8]) -> Result<Option<Rc<Place>>, Problem> {
        if let Some((_, place)) = self.last.as_ref().filter(|(last, _)| last == path) {
            return Ok(Some(Rc::clone(place)));
        }
        let shown: &[u8] = if path.is_empty() { b"." } else { path };
        let directory = match rustix::fs::openat2(&self.root, shown, DIRECTORY, Mode::empty(), INSIDE) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let inode = rustix::fs::fstat(&directory)?.st_ino;
        // Every directory of the tree was made here.
        let depth = self.depths.get(&inode).copied().ok_or(Problem::Hostile("its path leads out of the image"))?;
        let place = Rc::new(Place { directory, depth });
        self.last = Some((path.to_vec(), Rc::clone(&place)));
        Ok(Some(place))
    }

    /// The directory at a path. What is missing of it is made.
    fn make_place(&mut self, path: &[u8]) -> Result<Rc<Place>, Problem> {
        if let Some(place) = self.place(path)? {
            return Ok(place);
        }
        let mut prefix: Vec<u8> = Vec::with_capacity(path.len());
        let mut place = self.place(b"")?.ok_or(Problem::Hostile("the root is gone"))?;
        for name in path.split(|byte| *byte == b'/') {
            if !prefix.is_empty() {
                prefix.push(b'/');
            }
            prefix.extend_from_slice(name);
            place = match self.place(&prefix)? {
                Some(place) => place,
                None => {
                    let directory = self.make_directory(&place, name)?;
                    self.set_directory(&directory, Attributes::PLAIN)?;
                    Rc::new(Place { depth: place.depth.saturating_add(1), directory })
                }
            };
        }
        Ok(place)
    }

    /// Opens a directory, made if it is not there.
    fn make_directory(&mut self, place: &Place, name: &[u8]) -> Result<OwnedFd, Problem> {
        let depth = place.depth.saturating_add(1);
        if depth > self.deepest {
            return Err(Problem::Hostile("it is too deep"));
        }
        match rustix::fs::mkdirat(&place.directory, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let directory = rustix::fs::openat2(&place.directory, name, DIRECTORY, Mode::empty(), EXACTLY).map_err(
            |errno| match errno {
                Errno::LOOP => Problem::Hostile("a link that leads nowhere is in its path"),
                errno => errno.into(),
            },
        )?;
        let inode = rustix::fs::fstat(&directory)?.st_ino;
        self.depths.insert(inode, depth);
        self.fresh.insert(inode);
        Ok(directory)
    }

    fn set_directory(&self, directory: &OwnedFd, attributes: Attributes) -> Result<(), Problem> {
        // The sticky bit makes directories safer for those who share them; the other two are dropped.
        let mode = attributes.mode & 0o1777;
        if self.privileged {
            let (owner, group) = ids(attributes);
            rustix::fs::fchown(directory, owner, group)?;
            rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?;
        } else {
            rustix::fs::fchmod(directory, Mode::from_raw_mode(mode | 0o700))?;
        }
        Ok(())
    }

    /// Remembers that the current layer made what is at that name.
    fn note(&mut self, place: &Place, name: &[u8]) -> Result<(), Problem> {
        if let Some(status) = look(&place.directory, name)? {
            self.fresh.insert(status.st_ino);
        }
        Ok(())
    }

    /// Removes whatever is at a name.
    fn remove(&mut self, place: &Place, name: &[u8]) -> Result<(), Problem> {
        if look(&place.directory, name)?.is_some() {
            // The directory that was used last may be in what is removed, or be found through it.
            self.last = None;
            remove(&place.directory, name)?;
        }
        Ok(())
    }
}

impl NewFile {
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)
    }

    pub(super) fn finish(self, attributes: Attributes) -> io::Result<()> {
        let mode = attributes.mode & 0o777;
        if self.privileged {
            let (owner, group) = ids(attributes);
            rustix::fs::fchown(&self.file, owner, group)?;
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode))?;
        } else {
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode | 0o600))?;
        }
        let time = Timespec { tv_sec: i64::try_from(attributes.modified).unwrap_or(i64::MAX), tv_nsec: 0 };
        // Programs compare these: an interpreter's compiled files are only used if their source is as old as they say.
        Ok(rustix::fs::futimens(&self.file, &Timestamps { last_access: time, last_modification: time })?)
    }
}

fn ids(attributes: Attributes) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(attributes.owner)), Some(Gid::from_raw(attributes.group)))
}

/// What is at a name, if anything.
fn look(directory: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, Problem> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT) {
        Ok(status) => Ok(Some(status)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
