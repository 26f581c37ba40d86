//! Unpacked images.

use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::blobs::sync_directory;
use super::lock::{LONG, Lock, SHORT};
use super::{Image, Kept, Store, make_directory};
use crate::compression::Decoder;
use crate::digest::{Digest, Hashing};
use crate::error::{ImageError, StoreError};
use crate::unpack::{Unpacker, remove_tree};

/// A root file system that is not removed while this is alive. Boxes share it and must not write to it.
#[derive(Debug)]
pub struct Rootfs {
    path: PathBuf,
    _lock: Lock,
}

impl Rootfs {
    /// The directory that is to be `/`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Store {
    /// The image's root file system, unpacked now if nobody did before.
    pub fn rootfs(&self, image: &Image) -> Result<Rootfs, ImageError> {
        image.check_platform()?;
        let key = image.rootfs_key();
        let kept = self.keep()?;
        let path = self.rootfs_path(&key);
        let lock_path = self.rootfs_lock(&key);
        if !path.is_dir() {
            // One process unpacks, others that want the same wait for it here.
            let _alone = Lock::exclusive(&self.place.join("rootfs").join(format!("{}.making", key.hex())), LONG)?;
            if !path.is_dir() {
                self.unpack(&kept, image, &path)?;
            }
        }
        // Nothing is removed while we keep the store, so the directory is still there when the lock is ours.
        let lock = Lock::shared(&lock_path, SHORT)?;
        // The time of the last use, for pruning.
        let _ = fs::File::open(&lock_path).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(Rootfs { path, _lock: lock })
    }

    pub(super) fn rootfs_path(&self, key: &Digest) -> PathBuf {
        self.place.join("rootfs").join(key.hex())
    }

    pub(super) fn rootfs_lock(&self, key: &Digest) -> PathBuf {
        self.place.join("rootfs").join(format!("{}.lock", key.hex()))
    }

    fn unpack(&self, _kept: &Kept, image: &Image, path: &Path) -> Result<(), ImageError> {
        let new = Unfinished(self.temporary_path());
        make_directory(&new.0)?;
        let mut unpacker =
            Unpacker::new(&new.0, self.limits.clone()).map_err(|error| StoreError::file("open", &new.0)(error))?;
        for (layer, diff_id) in image.manifest().layers.iter().zip(image.diff_ids()) {
            self.unpack_layer(&mut unpacker, &layer.digest, layer.size, diff_id)?;
        }
        // Otherwise a power failure could leave the directory in its place, and files in it empty.
        unpacker.finish().map_err(StoreError::file("write", &new.0))?;
        fs::rename(&new.0, path).map_err(StoreError::file("make", path))?;
        sync_directory(&self.place.join("rootfs"))?;
        Ok(())
    }

    fn unpack_layer(
        &self,
        unpacker: &mut Unpacker,
        digest: &Digest,
        size: u64,
        diff_id: &Digest,
    ) -> Result<(), ImageError> {
        let label = format!("layer {digest}");
        let corrupt = |error: io::Error| match crate::compression::exceeded(&error) {
            Some(limit) => ImageError::TooLarge { image: label.clone(), what: "it unpacks to too many bytes", limit },
            None => ImageError::Corrupt { what: label.clone(), why: error.to_string() },
        };
        let mut stored = Hashing::new(self.open_blob(digest, "layer")?);
        let buffered = BufReader::with_capacity(1 << 16, &mut stored);
        let mut content = Hashing::new(Decoder::new(buffered, size, &self.limits).map_err(&corrupt)?);
        let unpacked = unpacker.layer(BufReader::with_capacity(1 << 16, &mut content), &label);
        // Content that is not what the digest says explains whatever else is wrong with it: read on to know.
        let rest = io::copy(&mut content, &mut io::sink());
        let (found_content, _) = content.finish();
        let read_on = io::copy(&mut stored.by_ref().take(self.limits.layer_bytes), &mut io::sink());
        let (found, _) = stored.finish();
        if read_on.is_ok() && found != *digest {
            return Err(ImageError::digest_differs(label, &found));
        }
        unpacked?;
        rest.map_err(&corrupt)?;
        read_on.map_err(&corrupt)?;
        if found_content != *diff_id {
            return Err(ImageError::digest_differs(format!("the content of {label}"), &found_content));
        }
        Ok(())
    }
}

/// A directory that is being filled. After the rename there is nothing left at its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed now is removed by whoever adds something next.
        let _ = remove_tree(&self.0);
    }
}
