//! The marks that overlayfs, mounted with `userxattr`, leaves on directories and files of an upper layer.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use hotcell_core::backend::FileKind;
use rustix::io::Errno;

use super::beneath::{self, Seen};

const OPAQUE: &str = "user.overlay.opaque";
const WHITEOUT: &str = "user.overlay.whiteout";

/// How a directory of the upper layer covers the one beneath it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// What it does not name shines through.
    Merged,
    /// As [`Cover::Merged`], and empty files in it may be marked as deletions.
    MarkedDeletions,
    /// Nothing shines through.
    Opaque,
}

/// Reads how a directory covers the one beneath it.
pub(super) fn cover(directory: impl AsFd) -> io::Result<Cover> {
    let mut value = [0; 2];
    match rustix::fs::fgetxattr(directory, OPAQUE, &mut value[..]) {
        Ok(1) if value[0] == b'y' => Ok(Cover::Opaque),
        Ok(1) if value[0] == b'x' => Ok(Cover::MarkedDeletions),
        // A value that overlayfs does not know means nothing to it, whatever its length.
        Ok(_) | Err(Errno::NODATA | Errno::RANGE | Errno::NOTSUP) => Ok(Cover::Merged),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether an entry of the upper layer says that what is beneath it is deleted.
pub(super) fn is_deletion(directory: impl AsFd, name: &OsStr, seen: &Seen, cover: Cover) -> io::Result<bool> {
    if seen.is_whiteout() {
        return Ok(true);
    }
    if cover != Cover::MarkedDeletions || seen.kind != FileKind::File || seen.size != 0 {
        return Ok(false);
    }
    let (file, _) = beneath::open_file(directory, Path::new(name))?;
    match rustix::fs::fgetxattr(file, WHITEOUT, &mut [0; 8][..]) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
