//! Removing and measuring trees, without following a link and without leaving their file system.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// More than any tree has that was made here; without a bound the stack would be one.
const DEEPEST: u32 = 400;

/// Removes a directory and everything in it.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    empty(&directory, 0)?;
    drop(directory);
    std::fs::remove_dir(path)
}

/// Bytes that a tree takes on disk, with its directories.
pub fn tree_size(path: &Path) -> io::Result<u64> {
    measure(&rustix::fs::open(path, DIRECTORY, Mode::empty())?, 0)
}

/// The names in a directory.
pub(crate) fn children(directory: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    Ok(names)
}

/// Removes what is at a name, whatever it is.
pub(super) fn remove(directory: &OwnedFd, name: &[u8]) -> io::Result<()> {
    remove_at(directory, name, 0)
}

fn remove_at(directory: &OwnedFd, name: &[u8], depth: u32) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno.into()),
    }
    let inner = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?;
    empty(&inner, depth)?;
    drop(inner);
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

fn empty(directory: &OwnedFd, depth: u32) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other("its directories are too deep"));
    }
    for name in children(directory)? {
        remove_at(directory, &name, depth + 1)?;
    }
    Ok(())
}

fn measure(directory: &OwnedFd, depth: u32) -> io::Result<u64> {
    if depth > DEEPEST {
        return Err(io::Error::other("its directories are too deep"));
    }
    let mut sum = 0_u64;
    for name in children(directory)? {
        let status = rustix::fs::statat(directory, &name[..], AtFlags::SYMLINK_NOFOLLOW)?;
        let blocks = u64::try_from(status.st_blocks).unwrap_or(0);
        // A file with several names is counted once, by parts.
        let links = match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => u64::from(status.st_nlink as u32).max(1),
            _ => 1,
        };
        sum = sum.saturating_add(blocks.saturating_mul(512) / links);
        if FileType::from_raw_mode(status.st_mode) == FileType::Directory {
            let inner = rustix::fs::openat(directory, &name[..], DIRECTORY, Mode::empty())?;
            sum = sum.saturating_add(measure(&inner, depth + 1)?);
        }
    }
    Ok(sum)
}
