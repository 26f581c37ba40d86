//! What a tree of files looks like, in words that can be compared.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, ioctl_getflags};

/// All directories below and including `root`.
pub(super) fn directories(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(directory) = found.get(next).cloned() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.symlink_metadata()?.is_dir() {
                found.push(path);
            }
        }
        next += 1;
    }
    Ok(found)
}

/// Describes everything at and below `path`, which is relative to `root`.
pub(super) fn describe(root: &Path, path: &Path, seen: &mut BTreeMap<String, String>) {
    let full = root.join(path);
    let Ok(metadata) = full.symlink_metadata() else { return };
    let content = match metadata.file_type() {
        kind if kind.is_dir() => "directory".to_owned(),
        kind if kind.is_symlink() => format!("link to {}", fs::read_link(&full).unwrap_or_default().display()),
        // The intruder's own image is too long to keep, and a change of it shows in its size or time.
        kind if kind.is_file() && metadata.len() < 4096 => {
            String::from_utf8_lossy(&fs::read(&full).unwrap_or_default()).into_owned()
        }
        kind => format!("{kind:?}"),
    };
    // A directory's times and links change with what is in it, which is described anyway.
    let times = if metadata.is_dir() {
        String::new()
    } else {
        format!(" {}.{} {}", metadata.mtime(), metadata.mtime_nsec(), metadata.nlink())
    };
    seen.insert(
        path.display().to_string(),
        format!(
            "{:o} {}:{} {} bytes{times} [{}{}] {content:?}",
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            if metadata.is_dir() { 0 } else { metadata.len() },
            attributes(&full),
            flags(&full, &metadata),
        ),
    );
    if metadata.is_dir() {
        for entry in fs::read_dir(&full).into_iter().flatten().flatten() {
            describe(root, &path.join(entry.file_name()), seen);
        }
    }
}

/// The names of a file's extended attributes.
fn attributes(path: &Path) -> String {
    let mut names = [0u8; 1024];
    match rustix::fs::llistxattr(path, &mut names) {
        Ok(length) => String::from_utf8_lossy(&names[..length]).replace('\0', " "),
        Err(_) => String::new(),
    }
}

/// Describes what code in a box may leave nowhere in a tree that it may write to: programs that run with the rights of
/// their owners, capabilities, device nodes, flags that outlive the box.
pub(super) fn describe_harmful(root: &Path, path: &Path, seen: &mut BTreeMap<String, String>) {
    let full = root.join(path);
    let Ok(metadata) = full.symlink_metadata() else { return };
    let kind = metadata.file_type();
    // An empty program does nothing, and loses the bits when it is written to.
    let set_id = kind.is_file() && metadata.mode() & 0o6000 != 0 && metadata.len() > 0;
    let device = kind.is_char_device() || kind.is_block_device();
    let (attributes, flags) = (attributes(&full), flags(&full, &metadata));
    if set_id || device || attributes.contains("security.capability") || !flags.is_empty() {
        let what = format!("{:o} [{attributes}{flags}] {kind:?}", metadata.mode());
        seen.insert(format!("{} (harmful to the host)", path.display()), what);
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(&full).into_iter().flatten().flatten() {
            describe_harmful(root, &path.join(entry.file_name()), seen);
        }
    }
}

/// The flags of an inode that somebody has to set: immutable, append-only, not to be backed up and the like.
fn flags(path: &Path, metadata: &fs::Metadata) -> String {
    if !metadata.is_file() && !metadata.is_dir() {
        return String::new();
    }
    let set = IFlags::IMMUTABLE | IFlags::APPEND | IFlags::NODUMP | IFlags::NOATIME | IFlags::SYNC;
    let flags = File::open(path).ok().and_then(|file| ioctl_getflags(file).ok()).map(|flags| flags & set);
    flags.filter(|flags| !flags.is_empty()).map(|flags| format!("flags {:#x}", flags.bits())).unwrap_or_default()
}
