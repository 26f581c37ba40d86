//! Removing what nothing names or uses.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::lock::{A_MOMENT, Lock, SHORT};
use super::{Image, Store};
use crate::digest::Digest;
use crate::error::{ImageError, StoreError};
use crate::name::ImageName;
use crate::unpack::{remove_tree, tree_size};

/// What a name stood for, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The name.
    pub name: ImageName,
    /// What it stood for.
    pub digest: Digest,
}

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Blobs.
    pub blobs: usize,
    /// Unpacked root file systems.
    pub rootfs: usize,
    /// Bytes that are free now.
    pub freed: u64,
    /// Bytes that are left in the store.
    pub left: u64,
}

/// Something that a process that died was writing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftover {
    /// The file or directory.
    pub path: PathBuf,
    /// Why it is still there, if it should have been removed and could not be.
    pub problem: Option<String>,
}

/// Something that could be removed.
struct Candidate {
    what: What,
    size: u64,
    used: SystemTime,
    /// Whether a named image needs it; it could be made again.
    named: bool,
}

enum What {
    Blob(PathBuf),
    Rootfs(Digest),
}

/// What names reach.
#[derive(Default)]
struct Reached {
    blobs: HashSet<String>,
    rootfs: HashSet<String>,
}

impl Store {
    /// Takes a name away. What it stood for stays until [`Store::prune`], in case it is used or has another name.
    pub fn remove(&self, name: &str) -> Result<Removed, ImageError> {
        let missing = || ImageError::NotFound { name: name.to_owned(), store: self.place.clone() };
        let parsed: Option<ImageName> = name.parse().ok();
        let removed = self.change_names(|names| {
            let by_name = parsed.and_then(|name| names.remove(&name).map(|digest| Removed { name, digest }));
            by_name.or_else(|| {
                // By digest only if one name alone has it: otherwise it is not clear which one is meant.
                let (found, digest) = names.by_digits(name)?;
                let name = found?;
                names.remove(&name);
                Some(Removed { name, digest })
            })
        })?;
        removed.ok_or_else(missing)
    }

    /// Removes what nothing names and nobody uses, until the store has at most `limit` bytes; all of it without a limit.
    ///
    /// What was not used for longest goes first. If that is not enough, root file systems that can be unpacked again go too.
    /// Images that have a name always stay.
    pub fn prune(&self, limit: Option<u64>) -> Result<Pruned, ImageError> {
        let alone = Lock::exclusive(&self.place.join("removal.lock"), SHORT)?;
        self.clear_temporary()?;
        self.prune_alone(&alone, limit)
    }

    pub(super) fn prune_alone(&self, _alone: &Lock, limit: Option<u64>) -> Result<Pruned, ImageError> {
        let reached = self.reached()?;
        let mut candidates = self.candidates(&reached)?;
        let mut left = self.bytes()?;
        let mut pruned = Pruned::default();
        candidates.sort_by_key(|candidate| (candidate.named, candidate.used));
        for candidate in candidates {
            let enough = limit.map_or(candidate.named, |limit| left <= limit);
            if !enough && self.remove_candidate(&candidate.what)? {
                match candidate.what {
                    What::Blob(_) => pruned.blobs += 1,
                    What::Rootfs(_) => pruned.rootfs += 1,
                }
                pruned.freed = pruned.freed.saturating_add(candidate.size);
                left = left.saturating_sub(candidate.size);
            }
        }
        Ok(Pruned { left, ..pruned })
    }

    /// What processes that died were writing; removed unless `only_look` is set. None if the store is in use at this moment, so
    /// that nobody can tell: whoever adds something next removes it.
    pub fn leftovers(&self, only_look: bool) -> Result<Option<Vec<Leftover>>, StoreError> {
        let alone = match Lock::exclusive(&self.place.join("removal.lock"), A_MOMENT) {
            Err(StoreError::Busy { .. }) => return Ok(None),
            alone => alone?,
        };
        let found = entries(&self.place.join("temporary"))?.into_iter().map(|entry| {
            let path = entry.path();
            let removed = if only_look { Ok(()) } else { remove_any(&path) };
            Leftover { path, problem: removed.err().map(|error| error.to_string()) }
        });
        let found = found.collect();
        drop(alone);
        Ok(Some(found))
    }

    /// Whatever is there was left by a process that died: the caller is alone.
    pub(super) fn clear_temporary(&self) -> Result<(), StoreError> {
        for entry in entries(&self.place.join("temporary"))? {
            remove_any(&entry.path())?;
        }
        Ok(())
    }

    /// Bytes of everything.
    pub(super) fn bytes(&self) -> Result<u64, StoreError> {
        let mut sum = 0_u64;
        for entry in entries(&self.place.join("blobs/sha256"))? {
            sum = sum.saturating_add(entry.metadata().map_or(0, |status| disk_size(&status)));
        }
        for key in self.unpacked()? {
            sum = sum.saturating_add(self.rootfs_size(&key)?);
        }
        Ok(sum)
    }

    fn reached(&self) -> Result<Reached, ImageError> {
        let mut reached = Reached::default();
        for (name, entry) in self.names()?.iter() {
            // An image that cannot be read does not say what it needs. Removing its name is for its owner to decide.
            let image = self
                .load(&entry.digest, Some(name.clone()))
                .map_err(|error| ImageError::Unreadable { name: name.clone(), error: Box::new(error) })?;
            reached.add(&image);
        }
        Ok(reached)
    }

    fn candidates(&self, reached: &Reached) -> Result<Vec<Candidate>, StoreError> {
        let mut candidates = Vec::new();
        for entry in entries(&self.place.join("blobs/sha256"))? {
            if entry.file_name().to_str().is_some_and(|name| reached.blobs.contains(name)) {
                continue;
            }
            let path = entry.path();
            let status = entry.metadata().map_err(StoreError::file("look at", &path))?;
            let used = status.modified().unwrap_or(UNIX_EPOCH);
            candidates.push(Candidate { what: What::Blob(path), size: disk_size(&status), used, named: false });
        }
        for key in self.unpacked()? {
            let lock = fs::metadata(self.rootfs_lock(&key)).and_then(|status| status.modified());
            candidates.push(Candidate {
                size: self.rootfs_size(&key)?,
                used: lock.unwrap_or(UNIX_EPOCH),
                named: reached.rootfs.contains(&key.hex()),
                what: What::Rootfs(key),
            });
        }
        Ok(candidates)
    }

    /// The keys of what is unpacked.
    fn unpacked(&self) -> Result<Vec<Digest>, StoreError> {
        let names = entries(&self.place.join("rootfs"))?.into_iter();
        Ok(names.filter_map(|entry| Digest::from_hex(entry.file_name().to_str()?).ok()).collect())
    }

    /// Measured once and written down: a root file system never changes.
    fn rootfs_size(&self, key: &Digest) -> Result<u64, StoreError> {
        let noted = self.place.join("rootfs").join(format!("{}.size", key.hex()));
        if let Some(size) = fs::read_to_string(&noted).ok().and_then(|text| text.trim().parse().ok()) {
            return Ok(size);
        }
        let path = self.rootfs_path(key);
        let size = tree_size(&path).map_err(StoreError::file("measure", &path))?;
        // Only spares the next one the work.
        let _ = fs::write(&noted, size.to_string());
        Ok(size)
    }

    /// Whether it was removed: what is used stays.
    fn remove_candidate(&self, what: &What) -> Result<bool, StoreError> {
        match what {
            What::Blob(path) => remove_any(path).map(|()| true),
            What::Rootfs(key) => {
                let lock_path = self.rootfs_lock(key);
                let Some(_unused) = Lock::try_exclusive(&lock_path)? else { return Ok(false) };
                let (path, gone) = (self.rootfs_path(key), self.temporary_path());
                // Gone as a whole: a process that dies while removing leaves nothing that looks complete.
                fs::rename(&path, &gone).map_err(StoreError::file("remove", &path))?;
                remove_any(&gone)?;
                // Others open these files only while they keep the store, and nobody does now.
                for end in ["lock", "making", "size"] {
                    let path = self.place.join("rootfs").join(format!("{}.{end}", key.hex()));
                    match fs::remove_file(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => {
                            return Err(StoreError::file("remove", &path)(error));
                        }
                        _ => {}
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Reached {
    fn add(&mut self, image: &Image) {
        let manifest = image.manifest();
        let layers = manifest.layers.iter().map(|layer| layer.digest);
        self.blobs.extend(layers.chain([*image.digest(), manifest.config.digest]).map(|digest| digest.hex()));
        self.rootfs.insert(image.rootfs_key().hex());
    }
}

fn disk_size(status: &fs::Metadata) -> u64 {
    status.blocks().saturating_mul(512)
}

fn entries(path: &Path) -> Result<Vec<DirEntry>, StoreError> {
    fs::read_dir(path).and_then(Iterator::collect).map_err(StoreError::file("list", path))
}

fn remove_any(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(status) if status.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::file("remove", path)(error)),
        _ => Ok(()),
    }
}
