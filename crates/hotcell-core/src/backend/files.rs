//! Files as the code in the box sees them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::Serialize;

use super::FilesError;

/// Access to the files as the code in the box sees them.
///
/// Paths are inside the box; relative ones start at the home of its user. They are opened from inside it, or beneath a pinned descriptor, with the
/// rights of the code in it: a link that the guest planted leads where it would lead the guest, and nowhere else.
/// Calls may come from any task at any time while the box lives.
#[async_trait]
pub trait Files: Send + Sync {
    /// The content of a regular file. [`FilesError::TooLarge`] if it has more than `limit` bytes: a guest can make a
    /// file of any size.
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FilesError>;

    /// Creates or replaces a regular file, with these permission bits for a new one (set-user-id and the like are not
    /// accepted).
    async fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FilesError>;

    /// What a directory contains, sorted by name. [`FilesError::TooLarge`] if it has more than `limit` entries.
    async fn list(&self, path: &Path, limit: u64) -> Result<Vec<FileEntry>, FilesError>;

    /// What is at a path; a link is not followed.
    async fn stat(&self, path: &Path) -> Result<FileEntry, FilesError>;

    /// Creates a directory and, if needed, those above it. No error if it is there.
    async fn make_directory(&self, path: &Path) -> Result<(), FilesError>;

    /// Removes a file, a link, or a directory with all that is in it.
    async fn remove(&self, path: &Path) -> Result<(), FilesError>;
}

/// Something that has a name in the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileEntry {
    /// The absolute path inside the box.
    #[serde(serialize_with = "crate::serialize::path")]
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe or a device.
    Other,
}
