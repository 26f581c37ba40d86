//! Files and links that get their name only when they are complete.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file or link in a directory, under a temporary name or none. What is not placed is removed.
///
/// A file has no name while it is filled, where the file system can do that: then even a killed program leaves nothing.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    directory: BorrowedFd<'a>,
    file: Option<File>,
    name: Option<OsString>,
}

impl<'a> Draft<'a> {
    /// An empty file that only its owner can open.
    pub(super) fn file(directory: BorrowedFd<'a>) -> io::Result<Self> {
        let nameless = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, c".", nameless, OWNER_ONLY) {
            Ok(file) => return Ok(Self { directory, file: Some(file.into()), name: None }),
            Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, name) = with_new_name(|name| rustix::fs::openat(directory, name.as_bytes(), flags, OWNER_ONLY))?;
        Ok(Self { directory, file: Some(file.into()), name: Some(name) })
    }

    /// A symbolic link.
    pub(super) fn link(directory: BorrowedFd<'a>, target: &OsStr) -> io::Result<Self> {
        let make = |name: &OsStr| rustix::fs::symlinkat(target.as_bytes(), directory, name.as_bytes());
        let ((), name) = with_new_name(make)?;
        Ok(Self { directory, file: None, name: Some(name) })
    }

    /// The file, unless it is a link.
    pub(super) fn as_file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Changes the owner of what has been made.
    pub(super) fn set_owner(&self, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Some(rustix::fs::Uid::from_raw(uid)), Some(rustix::fs::Gid::from_raw(gid)));
        match (&self.file, &self.name) {
            (Some(file), _) => rustix::fs::fchown(file, uid, gid)?,
            (None, Some(name)) => {
                rustix::fs::chownat(self.directory, name.as_bytes(), uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Gives it its name. What has that name is replaced, or else is an error.
    pub(super) fn place(mut self, name: &OsStr, replace: bool) -> io::Result<()> {
        if self.name.is_none() && !replace {
            return self.give_name(name).map_err(Into::into);
        }
        let temporary = match self.name.clone() {
            Some(temporary) => temporary,
            None => with_new_name(|temporary| self.give_name(temporary))?.1,
        };
        self.name = Some(temporary.clone());
        let (from, to) = (temporary.as_bytes(), name.as_bytes());
        if replace {
            rustix::fs::renameat(self.directory, from, self.directory, to)?;
        } else {
            match rustix::fs::renameat_with(self.directory, from, self.directory, to, RenameFlags::NOREPLACE) {
                // Some file systems cannot rename that way. The temporary name is removed by `drop`.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    rustix::fs::linkat(self.directory, from, self.directory, to, AtFlags::empty())?;
                    return Ok(());
                }
                result => result?,
            }
        }
        self.name = None;
        Ok(())
    }

    fn give_name(&self, name: &OsStr) -> rustix::io::Result<()> {
        let Some(file) = &self.file else { return Err(Errno::INVAL) };
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, descriptor, self.directory, name.as_bytes(), AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The error that led here is the one to report.
            let _ = rustix::fs::unlinkat(self.directory.as_fd(), name.as_bytes(), AtFlags::empty());
        }
    }
}

/// Tries names until one is free.
fn with_new_name<T>(make: impl Fn(&OsStr) -> rustix::io::Result<T>) -> io::Result<(T, OsString)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..100 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".hotcell-{}-{number}", std::process::id()));
        match make(&name) {
            Ok(made) => return Ok((made, name)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST.into())
}
