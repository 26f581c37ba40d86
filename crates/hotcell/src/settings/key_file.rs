//! The file with the key for a server.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_core::config::{Config, ConfigError, RemoteConfig, Sourced};

use super::SettingsError;
use super::file::{ROOT, effective_user};

/// The longest key, and the newline after it.
const LONGEST: u64 = (64 << 10) + 2;
const OPEN_TO_OTHERS: u32 = 0o077;

/// Puts the key in the place of its file's name, which has been made absolute.
pub(super) fn read_into(remote: &mut RemoteConfig) -> Result<(), SettingsError> {
    let Some(file) = remote.api_key_file.take() else { return Ok(()) };
    let bad =
        |reason: String| SettingsError::KeyFile { at: file.origin.clone().into(), file: file.value.clone(), reason };
    let text = read(&file.value).map_err(bad)?;
    let key = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    let mut checked = Config::default();
    checked.set("remote.api_key", key, file.origin.clone()).map_err(|error| {
        bad(match error {
            ConfigError::BadValue { reason, .. } => format!("does not hold a key: {reason}"),
            _ => "does not hold a key".to_owned(),
        })
    })?;
    remote.api_key = checked.remote.api_key;
    Ok(())
}

/// The text of a file that is nobody else's. It may be a pipe, for instance that of a shell's `<(…)`.
fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err("is a directory; name a file that has the key and nothing else".to_owned());
    }
    // Whoever can write it decides in whose account files and code arrive.
    let me = effective_user().map_err(|error| format!("cannot be judged: {error}"))?;
    if ![ROOT, me].contains(&metadata.uid()) {
        return Err(format!("belongs to user {}, and you are user {me}; make it your own with chown", metadata.uid()));
    }
    if metadata.mode() & OPEN_TO_OTHERS != 0 {
        return Err("can be read or written by others than its owner; run chmod 600 on it".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST {
        return Err("is longer than any key (64 KiB)".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "does not hold a key: it is not text".to_owned())
}

/// The name as an absolute path; `None` if it stands for no path.
pub(super) fn at(place: Option<PathBuf>, file: &mut Sourced<PathBuf>) -> Result<(), SettingsError> {
    match place {
        Some(place) => {
            file.value = place;
            Ok(())
        }
        None => Err(SettingsError::KeyFile {
            at: file.origin.clone().into(),
            file: file.value.clone(),
            reason: "is not a path that means anything here; write the whole path".to_owned(),
        }),
    }
}
