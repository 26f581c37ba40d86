//! What is known of a file.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde_json::{Value, json};

use super::connect::Fault;
use crate::{clock, go, identity};

/// An `EntryInfo`; what has its default value is left out.
pub(super) fn entry(path: &Path) -> Result<Value, Fault> {
    let metadata = path.symlink_metadata().map_err(|error| {
        let reason = go::with_path("lstat", path, &error);
        if error.kind() == io::ErrorKind::NotFound {
            Fault::new("not_found", format!("file not found: {reason}"))
        } else {
            Fault::new("internal", format!("error getting file info: {reason}"))
        }
    })?;
    let is_link = metadata.is_symlink();
    let target = is_link.then(|| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    // A link is what it leads to.
    let meant = if is_link { path.metadata().ok() } else { Some(metadata.clone()) };
    let kind = match &meant {
        Some(meant) if meant.is_file() => "FILE_TYPE_FILE",
        Some(meant) if meant.is_dir() => "FILE_TYPE_DIRECTORY",
        _ => "FILE_TYPE_UNSPECIFIED",
    };
    let mut entry = json!({
        "name": path.file_name().unwrap_or_default().to_string_lossy(),
        "path": path.to_string_lossy(),
        "permissions": permissions(metadata.file_type(), metadata.mode()),
        "owner": identity::user_name(metadata.uid()),
        "group": identity::group_name(metadata.gid()),
        "modifiedTime": clock::rfc3339(metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or(0)),
    });
    if kind != "FILE_TYPE_UNSPECIFIED" {
        entry["type"] = kind.into();
    }
    if metadata.len() != 0 {
        entry["size"] = metadata.len().to_string().into();
    }
    let mode = meant.map_or(0, |meant| meant.mode() & 0o777);
    if mode != 0 {
        entry["mode"] = mode.into();
    }
    if let Some(target) = target {
        entry["symlinkTarget"] = target.to_string_lossy().into();
    }
    Ok(entry)
}

/// As Go writes them: `-rw-r--r--`, `drwxr-xr-x`, `Lrwxrwxrwx`.
fn permissions(kind: FileType, mode: u32) -> String {
    let mut text = String::new();
    let signs = [
        (kind.is_dir(), 'd'),
        (kind.is_symlink(), 'L'),
        (kind.is_block_device() || kind.is_char_device(), 'D'),
        (kind.is_fifo(), 'p'),
        (kind.is_socket(), 'S'),
        (mode & 0o4000 != 0, 'u'),
        (mode & 0o2000 != 0, 'g'),
        (kind.is_char_device(), 'c'),
        (mode & 0o1000 != 0, 't'),
    ];
    text.extend(signs.iter().filter(|(is, _)| *is).map(|(_, sign)| sign));
    if text.is_empty() {
        text.push('-');
    }
    for (index, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> index) != 0 { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_written_as_go_does() {
        let of = |path: &str| {
            let metadata = Path::new(path).symlink_metadata().unwrap();
            permissions(metadata.file_type(), metadata.mode())
        };
        assert_eq!(of("/tmp"), "dtrwxrwxrwx");
        assert_eq!(of("/dev/null"), "Dcrw-rw-rw-");
        assert!(of("/proc/self").starts_with("Lrwx"));
    }
}
