//! What is planted for single attacks, apart from the secrets that every attempt has.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;

/// Plants the thing of this name below `root`, if it is not there yet, and says where.
pub(super) fn plant(name: &str, root: &Path, token: &str) -> io::Result<PathBuf> {
    let place = |path: &str| root.join(path);
    match name {
        "named" => {
            file(&place("host/named").join(token), b"", 0o666)?;
            Ok(place("host/named"))
        }
        "link" => {
            let link = place("host/link");
            if link.symlink_metadata().is_err() {
                symlink(token, &link)?;
            }
            Ok(link)
        }
        "attribute" => {
            let path = place("host/attributed");
            file(&path, b"attributed\n", 0o666)?;
            rustix::fs::setxattr(&path, "user.secret", token.as_bytes(), XattrFlags::empty())?;
            Ok(path)
        }
        "tool" => {
            file(&place("host/tool"), format!("#!/bin/sh\necho {token}\n").as_bytes(), 0o777)?;
            Ok(place("host/tool"))
        }
        "denied" => {
            file(&place("shown/denied/file"), format!("{token}\n").as_bytes(), 0o666)?;
            Ok(place("shown/denied/file"))
        }
        "private" => {
            file(&place("workspace/deep/private/file"), format!("{token}\n").as_bytes(), 0o666)?;
            Ok(place("workspace/deep/private/file"))
        }
        _ => {
            directory(&place("workspace/fresh"))?;
            Ok(place("workspace/fresh"))
        }
    }
}

/// Makes a file, and the directory that it is in. Nothing but a box is to stand in the way.
fn file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        directory(parent)?;
    }
    io::Write::write_all(&mut File::create_new(path)?, content)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        directory(parent)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o777))
}
