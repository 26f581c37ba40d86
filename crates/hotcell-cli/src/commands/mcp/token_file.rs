//! The file with the tokens of clients.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use hotcell::text::PrintablePath;
use hotcell_mcp::http::Tokens;

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

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Because(format!("it cannot be read: {error}")),
        }
    }
}

/// The text of a file that is nobody else's.
fn read(path: &Path) -> Result<String, Unread> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let me = rustix::process::geteuid().as_raw();
    let reason = if metadata.is_dir() {
        Some("it is a directory".to_owned())
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
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| Unread::Because(format!("it cannot be read: {error}")))?;
    if text.len() as u64 > LONGEST {
        return Err(Unread::Because("it is longer than any list of tokens".to_owned()));
    }
    Ok(text)
}

/// A new file that only its owner can read. One that is there by now is somebody else's doing.
fn write(path: &Path, secret: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{secret}\n").as_bytes())
}
