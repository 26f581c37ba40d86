//! Files in a box on a server, with the rights of its user.

use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use hotcell_core::backend::{FileEntry, FileKind, Files, FilesError};
use hotcell_remote::http::CallError;

use super::inside::{self, SHORT, said};
use super::link::Ran;
use super::sandbox::Shared;

const PUT: &str = include_str!("scripts/put.sh");
const MAKE: &str = include_str!("scripts/make.sh");
const REGULAR: &str = include_str!("scripts/regular.sh");
const REMOVE: &str = include_str!("scripts/remove.sh");

/// The files of one box. A relative path starts at the home of its user.
pub(super) struct RemoteFiles {
    shared: Arc<Shared>,
    uploads: AtomicU64,
}

/// An operation on a path.
struct At<'a> {
    shared: &'a Shared,
    operation: &'static str,
    path: PathBuf,
    /// The path as servers take it.
    text: String,
}

impl RemoteFiles {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, uploads: AtomicU64::new(0) }
    }

    fn at(&self, operation: &'static str, path: &Path) -> Result<At<'_>, FilesError> {
        let bad = |reason: &str| FilesError::BadPath { path: path.to_owned(), reason: reason.to_owned() };
        if path.as_os_str().is_empty() {
            return Err(bad("it is empty"));
        }
        let whole = Path::new(&self.shared.facts.home).join(path);
        let text = whole.to_str().ok_or_else(|| bad("it is not UTF-8, and servers take names as text"))?.to_owned();
        if text.contains('\0') {
            return Err(bad("it contains a NUL byte"));
        }
        if let Some(reason) = self.shared.lost() {
            return Err(FilesError::Lost { reason });
        }
        Ok(At { shared: &self.shared, operation, path: whole, text })
    }
}

impl At<'_> {
    fn call(&self, error: CallError) -> FilesError {
        if let Some(reason) = self.shared.lost() {
            return FilesError::Lost { reason };
        }
        match error.status() {
            Some(404) => FilesError::NotFound { path: self.path.clone() },
            Some(403) => FilesError::Denied { operation: self.operation.to_owned(), path: self.path.clone() },
            _ => self.failed(io::Error::other(error)),
        }
    }

    fn failed(&self, source: io::Error) -> FilesError {
        FilesError::Failed { operation: self.operation.to_owned(), path: self.path.clone(), source }
    }

    fn wrong_kind(&self, expected: &'static str) -> FilesError {
        FilesError::WrongKind { path: self.path.clone(), expected }
    }

    /// Runs a script that says in one word why it did not do it.
    async fn script(&self, script: &str, arguments: &[String], expected: &'static str) -> Result<(), FilesError> {
        let ran = inside::run(&*self.shared.link, script, arguments, SHORT).await;
        let Ran { code, output, error } = ran.map_err(|error| self.call(error))?;
        match (code, output.trim()) {
            (0, _) => Ok(()),
            (_, "missing") => Err(FilesError::NotFound { path: self.path.clone() }),
            (_, "kind") => Err(self.wrong_kind(expected)),
            (_, "denied") => Err(FilesError::Denied { operation: self.operation.to_owned(), path: self.path.clone() }),
            _ => Err(self.failed(io::Error::other(said(&error)))),
        }
    }

    async fn look(&self) -> Result<FileEntry, FilesError> {
        let found = self.shared.link.stat(&self.text).await.map_err(|error| self.call(error))?;
        found.ok_or_else(|| FilesError::NotFound { path: self.path.clone() })
    }
}

#[async_trait]
impl Files for RemoteFiles {
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FilesError> {
        let at = self.at("read", path)?;
        let found = at.look().await?;
        if matches!(found.kind, FileKind::Directory | FileKind::Other) {
            return Err(at.wrong_kind("regular file"));
        }
        if found.kind == FileKind::Link {
            // Whatever it leads to: a device has no end, a pipe no beginning.
            at.script(REGULAR, std::slice::from_ref(&at.text), "regular file").await?;
        }
        let too_large = || FilesError::TooLarge { path: at.path.clone(), limit };
        if found.kind == FileKind::File && found.size > limit {
            return Err(too_large());
        }
        let mut download = self.shared.link.download(&at.text).await.map_err(|error| at.call(error))?;
        let mut bytes = Vec::new();
        while let Some(piece) = download.next().await.map_err(|error| at.call(error))? {
            if (bytes.len() + piece.len()) as u64 > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    async fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FilesError> {
        let at = self.at("write", path)?;
        if mode & !0o777 != 0 {
            return Err(
                at.failed(io::Error::new(io::ErrorKind::InvalidInput, "only permission bits are accepted as a mode"))
            );
        }
        let (length, bytes) = (bytes.len() as u64, bytes.to_owned());
        let spooled = tokio::task::spawn_blocking(move || {
            let mut file = tempfile::tempfile()?;
            file.write_all(&bytes)?;
            file.rewind()?;
            Ok(file)
        });
        let file =
            spooled.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| at.failed(error))?;
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        let uploaded = format!("{}/file-{number}", self.shared.facts.directory);
        let _changing = self.shared.change().await;
        self.shared.link.upload(&uploaded, file, length).await.map_err(|error| at.failed(io::Error::other(error)))?;
        at.script(PUT, &[uploaded, at.text.clone(), format!("{mode:o}")], "regular file").await
    }

    async fn list(&self, path: &Path, limit: u64) -> Result<Vec<FileEntry>, FilesError> {
        let at = self.at("list", path)?;
        if matches!(at.look().await?.kind, FileKind::File | FileKind::Other) {
            return Err(at.wrong_kind("directory"));
        }
        let mut entries = self.shared.link.list(&at.text).await.map_err(|error| at.call(error))?;
        if entries.len() as u64 > limit {
            return Err(FilesError::TooLarge { path: at.path, limit });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }

    async fn stat(&self, path: &Path) -> Result<FileEntry, FilesError> {
        let at = self.at("look at", path)?;
        Ok(FileEntry { path: at.path.clone(), ..at.look().await? })
    }

    async fn make_directory(&self, path: &Path) -> Result<(), FilesError> {
        let at = self.at("make the directory", path)?;
        let _changing = self.shared.change().await;
        at.script(MAKE, std::slice::from_ref(&at.text), "directory").await
    }

    async fn remove(&self, path: &Path) -> Result<(), FilesError> {
        let at = self.at("remove", path)?;
        if at.path.file_name().is_none() {
            return Err(FilesError::BadPath { path: at.path, reason: "it does not name what to remove".to_owned() });
        }
        let _changing = self.shared.change().await;
        at.script(REMOVE, std::slice::from_ref(&at.text), "file").await
    }
}
