//! The file with the tokens of clients.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use hotcell::text::PrintablePath;
use hotcell_mcp::http::Tokens;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::failure::Failure;

/// More is no list of tokens.
const LONGEST: u64 = 1 << 20;
const ROOT: u32 = 0;
const OPEN_TO_OTHERS: u32 = 0o077;

/// The tokens, and what to tell the user if one had to be made.
pub(super) fn tokens(file: Option<&Path>) -> Result<(Tokens, Option<String>), Failure> {
    let Some(path) = file else {
        let (tokens, secret) = generate()?;
        return Ok((tokens, Some(format!("the token of this run is {secret}"))));
    };
    match read(path) {
        Ok(text) => {
            let tokens = Tokens::parse(&text).map_err(|error| bad(path, error))?;
            Ok((tokens, None))
        }
        Err(Unread::Absent) => {
            let (tokens, secret) = generate()?;
            write(path, &secret).map_err(|error| bad(path, format!("it cannot be made: {error}")))?;
            Ok((tokens, Some(format!("a token was made and is in `{}`", PrintablePath(path)))))
        }
        Err(Unread::Because(reason)) => Err(bad(path, reason)),
    }
}

fn generate() -> Result<(Tokens, String), Failure> {
    Tokens::generate().map_err(|error| Failure::new("token", error))
}

fn bad(path: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::new("token", format!("the token file `{}`: {reason}", PrintablePath(path)))
}

enum Unread {
    Absent,
    Because(String),
}

/// The text of a file that is nobody else's.
fn read(path: &Path) -> Result<String, Unread> {
    let unreadable = |error: io::Error| Unread::Because(format!("it cannot be read: {error}"));
    let file = open(path)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let me = rustix::process::geteuid().as_raw();
    let reason = if !metadata.is_file() {
        Some("it is not a regular file".to_owned())
    } else if ![ROOT, me].contains(&metadata.uid()) {
        Some(format!("it belongs to user {}, and you are user {me}; make it your own with chown", metadata.uid()))
    } else if metadata.mode() & OPEN_TO_OTHERS != 0 {
        Some("others can read or write it; run chmod 600 on it".to_owned())
    } else {
        None
    };
    if let Some(reason) = reason {
        return Err(Unread::Because(reason));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(Unread::Because("it is longer than any list of tokens".to_owned()));
    }
    Ok(text)
}

/// Opens what is at the path itself, and waits for nobody: a pipe has a reader only when it has a writer.
fn open(path: &Path) -> Result<File, Unread> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::NOENT) => Err(Unread::Absent),
        Err(Errno::LOOP) => Err(Unread::Because("it is a symbolic link; name the file that it leads to".to_owned())),
        Err(error) => Err(Unread::Because(format!("it cannot be read: {error}"))),
    }
}

/// A new file that only its owner can read, and its directory if there is none. A file that is there by now is somebody else's doing.
fn write(path: &Path, secret: &str) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{secret}\n").as_bytes())
}
