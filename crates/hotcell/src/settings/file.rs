//! Reading one file, as far as it can be trusted.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hotcell_core::config::{Config, Layer, MAX_CONFIG_BYTES};

use super::SettingsError;

pub(super) const ROOT: u32 = 0;
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// A file that was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) config: Config,
    /// Device and inode: two names can be one file.
    pub(super) identity: (u64, u64),
}

/// The user's own file; none if there is none. It is found, not named, so it must be the user's own.
pub(super) fn read_own(path: &Path) -> Result<Option<ConfigFile>, SettingsError> {
    let (file, metadata) = match open(path) {
        Err(SettingsError::Unreadable { source, .. }) if is_absent(&source) => return Ok(None),
        opened => opened?,
    };
    only_a_file(path, &metadata)?;
    let me = effective_user().map_err(|source| SettingsError::Unreadable { file: path.to_owned(), source })?;
    if ![ROOT, me].contains(&metadata.uid()) {
        return Err(SettingsError::Untrusted {
            file: path.to_owned(),
            reason: format!("it belongs to user {}, and you are user {me}", metadata.uid()),
            hint: "make it your own with chown, or name it with --policy if you trust it".to_owned(),
        });
    }
    not_written_by_others(path, &metadata, me)?;
    parse(path, path, file, &metadata, Layer::User).map(Some)
}

/// The file that the user names; it may be a pipe, for instance that of a shell's `<(…)`.
pub(super) fn read_named(path: &Path) -> Result<ConfigFile, SettingsError> {
    let (file, metadata) = open(path)?;
    if metadata.is_dir() {
        return Err(SettingsError::NotAFile { file: path.to_owned(), what: kind(&metadata) });
    }
    if metadata.is_file() {
        let me = effective_user().map_err(|source| SettingsError::Unreadable { file: path.to_owned(), source })?;
        not_written_by_others(path, &metadata, me)?;
    }
    parse(path, path, file, &metadata, Layer::User)
}

/// A project's file. It can only tighten, so it does not matter who wrote it.
pub(super) fn read_project(path: &Path, cwd: &Path) -> Result<ConfigFile, SettingsError> {
    // Opening a pipe that somebody planted would wait forever, so look first.
    let before = path.metadata().map_err(|source| SettingsError::Unreadable { file: path.to_owned(), source })?;
    only_a_file(path, &before)?;
    let (file, metadata) = open(path)?;
    only_a_file(path, &metadata)?;
    let shown = path.strip_prefix(cwd).unwrap_or(path);
    parse(path, shown, file, &metadata, Layer::Project)
}

/// Whether the error says that there is no such file.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn open(path: &Path) -> Result<(File, Metadata), SettingsError> {
    let unreadable = |source| SettingsError::Unreadable { file: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    Ok((file, metadata))
}

fn only_a_file(path: &Path, metadata: &Metadata) -> Result<(), SettingsError> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(SettingsError::NotAFile { file: path.to_owned(), what: kind(metadata) })
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

/// A file that others may write holds their word, not the user's. Where the owner is the user or root, group write is what a
/// umask of 002 makes everywhere, so it is accepted.
fn not_written_by_others(path: &Path, metadata: &Metadata, me: u32) -> Result<(), SettingsError> {
    let (mode, owner) = (metadata.mode(), metadata.uid());
    let foreign = ![ROOT, me].contains(&owner);
    let reason = if mode & WRITABLE_BY_OTHERS != 0 {
        "everybody may write it".to_owned()
    } else if foreign && mode & WRITABLE_BY_GROUP != 0 {
        format!("it belongs to user {owner}, and its group may write it")
    } else {
        return Ok(());
    };
    let hint = "if its content is what you want, run chmod go-w on it".to_owned();
    Err(SettingsError::Untrusted { file: path.to_owned(), reason, hint })
}

/// The user whose rights this process has. Read from the kernel's text, which needs no unsafe call.
pub(super) fn effective_user() -> io::Result<u32> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1))
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self/status does not say who you are, so its owner cannot be judged"))
}

fn parse(
    path: &Path,
    shown: &Path,
    file: File,
    metadata: &Metadata,
    layer: Layer,
) -> Result<ConfigFile, SettingsError> {
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| SettingsError::Unreadable { file: path.to_owned(), source })?;
    if bytes.len() > MAX_CONFIG_BYTES {
        return Err(SettingsError::TooLarge { file: path.to_owned() });
    }
    let text = String::from_utf8(bytes).map_err(|_| SettingsError::NotText { file: path.to_owned() })?;
    let config = Config::parse(&text, shown, layer)?;
    Ok(ConfigFile { path: path.to_owned(), config, identity: (metadata.dev(), metadata.ino()) })
}
