//! Looking at files beneath a pinned directory, and nowhere else.
//!
//! Every path is resolved from a descriptor without following a link, leaving the directory or entering another mount.
//! Neither the code in the box nor somebody on the host can lead a lookup elsewhere by swapping what is at a path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use hotcell_core::backend::FileKind;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::super::files::kind_of;
pub(crate) use super::super::files::names;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// What was at a path at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: FileKind,
    /// Without set-user-id, set-group-id and sticky: those never cross between the box and the host.
    pub(crate) mode: u32,
    /// Those three bits.
    pub(crate) special_bits: u32,
    pub(crate) size: u64,
    pub(crate) owner: u32,
    /// How many names it has.
    pub(crate) links: u32,
    /// The exact file type and the device number: what tells one special file from another.
    pub(crate) special: (u32, u32, u32),
    pub(crate) identity: Identity,
}

/// Which file it is, and in which state: it changes whenever the file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    /// The time of the last change, of content or attributes, which programs cannot set.
    pub(crate) changed: (i64, u32),
}

impl Seen {
    fn new(status: &Statx) -> Self {
        let bits = u32::from(status.stx_mode);
        Self {
            kind: kind_of(status),
            mode: bits & 0o777,
            special_bits: bits & 0o7000,
            size: status.stx_size,
            owner: status.stx_uid,
            links: status.stx_nlink,
            special: (bits & !0o7777, status.stx_rdev_major, status.stx_rdev_minor),
            identity: Identity {
                device: (status.stx_dev_major, status.stx_dev_minor),
                inode: status.stx_ino,
                changed: (status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec),
            },
        }
    }

    /// A character device with the number zero: how an overlay marks that something is deleted.
    pub(crate) fn is_whiteout(&self) -> bool {
        FileType::from_raw_mode(self.special.0) == FileType::CharacterDevice
            && (self.special.1, self.special.2) == (0, 0)
    }

    /// Whether it is the same file, whatever happened to it.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.identity.device == other.identity.device
            && self.identity.inode == other.identity.inode
    }
}

fn open(root: impl AsFd, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::empty(), RESOLVE).map_err(|errno| match errno {
        Errno::XDEV => io::Error::new(io::ErrorKind::CrossesDevices, "another file system is mounted there"),
        Errno::LOOP => io::Error::new(io::ErrorKind::NotADirectory, "a symbolic link is in the way"),
        errno => errno.into(),
    })
}

/// Opens a directory for listing it.
pub(crate) fn open_directory(root: impl AsFd, relative: &Path) -> io::Result<OwnedFd> {
    open(root, relative, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a directory for reaching what is in it.
pub(crate) fn open_place(root: impl AsFd, relative: &Path) -> io::Result<OwnedFd> {
    open(root, relative, OFlags::PATH | OFlags::DIRECTORY)
}

/// Opens a file for nothing but naming it in further calls.
pub(crate) fn pin(root: impl AsFd, relative: &Path) -> io::Result<(OwnedFd, Seen)> {
    let pinned = open(root, relative, OFlags::PATH)?;
    let seen = look_at(&pinned)?;
    Ok((pinned, seen))
}

/// Opens a regular file for reading; anything else is an error, and a pipe does not make this wait.
pub(crate) fn open_file(root: impl AsFd, relative: &Path) -> io::Result<(File, Seen)> {
    let file = open(root, relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let seen = look_at(&file)?;
    if seen.kind != FileKind::File {
        return Err(io::Error::other("it is not a regular file any more"));
    }
    Ok((File::from(file), seen))
}

/// What an open descriptor is.
pub(crate) fn look_at(descriptor: impl AsFd) -> io::Result<Seen> {
    let status = rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(Seen::new(&status))
}

/// What is at a name in a directory, if anything; a link is not followed.
pub(crate) fn look(directory: impl AsFd, name: &OsStr) -> io::Result<Option<Seen>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(directory, name.as_bytes(), flags, StatxFlags::BASIC_STATS) {
        Ok(status) => Ok(Some(Seen::new(&status))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The target of a link.
pub(crate) fn link_target(directory: impl AsFd, name: &OsStr) -> io::Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(directory, name.as_bytes(), Vec::new())?.into_bytes()))
}
