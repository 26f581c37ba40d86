//! Content by digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::{Kept, Store, now, too_large};
use crate::digest::{Digest, Hasher};
use crate::error::{ImageError, StoreError};

impl Store {
    pub(crate) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.place.join("blobs/sha256").join(digest.hex())
    }

    pub(crate) fn has_blob(&self, digest: &Digest, size: u64) -> bool {
        fs::metadata(self.blob_path(digest)).is_ok_and(|status| status.is_file() && status.len() == size)
    }

    /// Opens a blob. Whoever reads it checks its digest at the end.
    pub(crate) fn open_blob(&self, digest: &Digest, what: &str) -> Result<File, ImageError> {
        let path = self.blob_path(digest);
        let file = OpenOptions::new().read(true).open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                ImageError::Corrupt { what: format!("{what} {digest}"), why: "it is not in the store".to_owned() }
            }
            _ => StoreError::file("open", &path)(error).into(),
        })?;
        // The time of the last use, for pruning. A store on a read-only file system is never pruned.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(file)
    }

    /// A manifest, an index or a configuration, checked.
    pub(crate) fn read_blob(&self, digest: &Digest, what: &str) -> Result<Vec<u8>, ImageError> {
        let limit = self.limits.metadata_bytes;
        let mut bytes = Vec::new();
        self.open_blob(digest, what)?
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(StoreError::file("read", &self.blob_path(digest)))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(&format!("{what} {digest}"), limit));
        }
        match Digest::of(&bytes) {
            found if found == *digest => Ok(bytes),
            found => Err(ImageError::digest_differs(format!("{what} {digest}"), &found)),
        }
    }

    /// Writes a document.
    pub(crate) fn add_blob(&self, kept: &Kept, bytes: &[u8]) -> Result<Digest, ImageError> {
        let mut incoming = self.incoming(kept)?;
        incoming.write(bytes)?;
        incoming.commit(None, "a document")
    }

    /// Begins a new blob.
    pub(crate) fn incoming(&self, _kept: &Kept) -> Result<Incoming, StoreError> {
        let path = self.temporary_path();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(StoreError::file("make", &path))?;
        Ok(Incoming { file, path, blobs: self.place.join("blobs/sha256"), hasher: Hasher::default(), size: 0 })
    }

    /// A name that nothing has.
    pub(super) fn temporary_path(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        self.place.join("temporary").join(format!("{}-{}-{next}", process::id(), now()))
    }
}

/// A blob that is being written. It is removed unless it is committed.
#[derive(Debug)]
pub(crate) struct Incoming {
    file: File,
    path: PathBuf,
    blobs: PathBuf,
    hasher: Hasher,
    size: u64,
}

impl Incoming {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(StoreError::file("write", &self.path))?;
        self.hasher.update(bytes);
        self.size = self.size.saturating_add(bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn check_size(&self, limit: u64) -> Result<(), ImageError> {
        if self.size > limit { Err(too_large("the root file system", limit)) } else { Ok(()) }
    }

    /// The same file, for reading at any position.
    pub(crate) fn reader(&self) -> Result<File, StoreError> {
        self.file.try_clone().map_err(StoreError::file("open", &self.path))
    }

    /// Puts it in its place, if it is what it should be.
    pub(crate) fn commit(mut self, expected: Option<&Digest>, what: &str) -> Result<Digest, ImageError> {
        let digest = std::mem::take(&mut self.hasher).finish();
        if let Some(expected) = expected.filter(|expected| **expected != digest) {
            return Err(ImageError::digest_differs(format!("{what} {expected}"), &digest));
        }
        let path = self.blobs.join(digest.hex());
        self.file.sync_all().map_err(StoreError::file("write", &self.path))?;
        fs::rename(&self.path, &path).map_err(StoreError::file("make", &path))?;
        sync_directory(&self.blobs)?;
        Ok(digest)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After a commit there is nothing left at that name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes names in a directory last.
pub(super) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(StoreError::file("write", path))
}
