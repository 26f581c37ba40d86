//! What was given to a box, and what it has.

use std::os::unix::ffi::OsStringExt;

use hotcell_core::backend::FileKind;

use crate::cell::workspace::copied::{Content, Record};

/// A directory.
pub(super) fn directory(mode: u32) -> Record {
    Record { kind: FileKind::Directory, mode: mode & 0o777, size: 0, content: Content::None }
}

/// A regular file.
pub(super) fn file(mode: u32, size: u64, fingerprint: u64) -> Record {
    Record { kind: FileKind::File, mode: mode & 0o777, size, content: Content::Bytes(fingerprint) }
}

/// A symbolic link. Its mode means nothing.
pub(super) fn link(target: &[u8]) -> Record {
    let target = std::ffi::OsString::from_vec(target.to_vec());
    Record { kind: FileKind::Link, mode: 0o777, size: 0, content: Content::Target(target) }
}

/// A pipe, a socket or a device.
pub(super) fn special(mode: u32) -> Record {
    Record { kind: FileKind::Other, mode: mode & 0o777, size: 0, content: Content::None }
}
