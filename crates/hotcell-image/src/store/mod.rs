//! The store: one directory, used by any number of processes at the same time.
//!
//! ```text
//! blobs/sha256/HEX     manifests, configurations and layers, by digest; never changed, checked when read
//! index.json           names and what they stand for; replaced as a whole
//! rootfs/HEX           unpacked layers, by the digests of their content; HEX.lock is held (shared) while one is used
//! temporary/…          what is being written; renamed when it is whole and on disk
//! removal.lock         shared while something is added or read, exclusive while something is removed
//! index.lock           exclusive while the list of names is changed
//! ```
//!
//! Locks are `flock`s: they end with the process that holds them. Whoever has `removal.lock` to itself knows that nobody
//! else writes, so everything in `temporary` was left by a process that died.

mod blobs;
mod image;
mod index;
mod lock;
mod place;
mod prune;
mod rootfs;

use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub use image::{Image, Listed};
pub use prune::{Leftover, Pruned, Removed};
pub use rootfs::Rootfs;

pub(crate) use blobs::Incoming;
use index::Names;
use lock::{Lock, SHORT};

use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::{ImageError, StoreError};
use crate::limits::Limits;
use crate::manifest::{self, ConfigFile, Descriptor, Manifest, OCI_CONFIG, OCI_LAYER, OCI_MANIFEST};
use crate::name::ImageName;

/// A place for images.
#[derive(Debug, Clone)]
pub struct Store {
    place: PathBuf,
    limits: Limits,
}

/// Shows that nothing is removed meanwhile: adding and reading go together, removing waits.
#[derive(Debug)]
pub(crate) struct Kept(#[expect(dead_code, reason = "held, not read")] Lock);

impl Store {
    /// Opens the store at `place`, and makes it if it is not there.
    ///
    /// Without a place: `HOTCELL_IMAGE_STORE`, else for root `/var/cache/hotcell/images`, else `hotcell/images` in
    /// `XDG_CACHE_HOME` or `~/.cache`.
    pub fn open(place: Option<PathBuf>) -> Result<Self, StoreError> {
        let place = absolute(place)?;
        make_directory(&place)?;
        Self::prepare(place)
    }

    /// Like [`Store::open`], but none if there is no store yet.
    pub fn open_existing(place: Option<PathBuf>) -> Result<Option<Self>, StoreError> {
        let place = absolute(place)?;
        if !place.is_dir() {
            return Ok(None);
        }
        Self::prepare(place).map(Some)
    }

    fn prepare(place: PathBuf) -> Result<Self, StoreError> {
        let status = fs::metadata(&place).map_err(StoreError::file("look at", &place))?;
        if status.uid() != rustix::process::geteuid().as_raw() {
            return Err(StoreError::Unsafe { path: place, why: "belongs to somebody else" });
        }
        if status.mode() & 0o022 != 0 {
            return Err(StoreError::Unsafe { path: place, why: "can be written by others" });
        }
        for directory in ["blobs", "blobs/sha256", "rootfs", "temporary"] {
            make_directory(&place.join(directory))?;
        }
        Ok(Self { place, limits: Limits::default() })
    }

    /// With other caps.
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where it is.
    pub fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The image of that name or digest. Also found by the first digits of its digest, at least twelve.
    pub fn find(&self, name_or_digest: &str) -> Result<Image, ImageError> {
        let _kept = self.keep()?;
        let names = self.names()?;
        let missing = || ImageError::NotFound { name: name_or_digest.to_owned(), store: self.place.clone() };
        if let Some((name, digest)) = names.by_digits(name_or_digest) {
            return self.load(&digest, name);
        }
        if name_or_digest.starts_with("sha256:") {
            return Err(missing());
        }
        let name: ImageName =
            name_or_digest.parse().map_err(|error| ImageError::BadName { name: name_or_digest.to_owned(), error })?;
        if let Some(digest) = names.get(&name) {
            return self.load(&digest, Some(name));
        }
        match name.digest().filter(|digest| names.has(digest)) {
            Some(digest) => self.load(digest, Some(name.clone())),
            None => Err(missing()),
        }
    }

    /// Every name, with what it stands for. What cannot be read any more is listed too, and says why.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let _kept = self.keep()?;
        let names = self.names()?;
        let listed = names.iter().map(|(name, entry)| {
            let image = self.load(&entry.digest, Some(name.clone()));
            Listed::new(name.clone(), entry, image, |key| self.rootfs_path(key).is_dir())
        });
        Ok(listed.collect())
    }

    /// Makes an image with one layer from a tar of a root file system, not compressed.
    ///
    /// The same bytes and configuration give the same digest, always and everywhere.
    pub fn add_rootfs_tar(&self, reader: impl Read, config: ImageConfig, name: &str) -> Result<Image, ImageError> {
        let name = name.parse().map_err(|error| ImageError::BadName { name: name.to_owned(), error })?;
        let kept = self.begin()?;
        let mut incoming = self.incoming(&kept)?;
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let failed = |error| ImageError::Malformed { what: "the root file system".to_owned(), why: error };
        loop {
            let bytes = match io::BufRead::fill_buf(&mut reader) {
                Ok([]) => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error.to_string())),
            };
            incoming.write(bytes)?;
            if incoming.size() > self.limits.layer_bytes {
                return Err(too_large("the root file system", self.limits.layer_bytes));
            }
            let count = bytes.len();
            io::BufRead::consume(&mut reader, count);
        }
        let size = incoming.size();
        let layer = incoming.commit(None, "the layer")?;
        self.add_one_layer(&kept, Descriptor::new(OCI_LAYER, layer, size), layer, &config, &name)
    }

    /// Writes the documents around a layer that is in the store, and names the image.
    pub(crate) fn add_one_layer(
        &self,
        kept: &Kept,
        layer: Descriptor,
        content: Digest,
        config: &ImageConfig,
        name: &ImageName,
    ) -> Result<Image, ImageError> {
        let config = manifest::write(&ConfigFile::of_one_layer(config, content))?;
        let config = Descriptor::new(OCI_CONFIG, self.add_blob(kept, &config)?, config.len() as u64);
        let manifest = manifest::write(&Manifest::new(config, vec![layer]))?;
        let digest = self.add_blob(kept, &manifest)?;
        self.add_name(kept, name, &digest)
    }

    /// Names an image whose blobs are all in the store, if it can be used here.
    pub(crate) fn add_name(&self, _kept: &Kept, name: &ImageName, digest: &Digest) -> Result<Image, ImageError> {
        let image = self.load(digest, Some(name.clone()))?;
        image.check_platform()?;
        self.change_names(|names| {
            names.set(name.clone(), *digest, now());
        })?;
        Ok(image)
    }

    /// Waits until nothing is being removed.
    pub(crate) fn keep(&self) -> Result<Kept, StoreError> {
        Lock::shared(&self.place.join("removal.lock"), SHORT).map(Kept)
    }

    /// Like [`Store::keep`], for adding something: cleans up first, if nobody else is busy.
    pub(crate) fn begin(&self) -> Result<Kept, StoreError> {
        if let Some(alone) = Lock::try_exclusive(&self.place.join("removal.lock"))? {
            self.clear_temporary()?;
            if self.bytes()? > self.limits.store_bytes {
                // A store that is too full is no reason not to add to it: what is named stays.
                let _ = self.prune_alone(&alone, Some(self.limits.store_bytes));
            }
        }
        self.keep()
    }

    fn names(&self) -> Result<Names, StoreError> {
        Names::read(&self.place.join("index.json"))
    }

    fn change_names<T>(&self, change: impl FnOnce(&mut Names) -> T) -> Result<T, StoreError> {
        let _lock = Lock::exclusive(&self.place.join("index.lock"), SHORT)?;
        let mut names = self.names()?;
        let changed = change(&mut names);
        names.write(&self.place)?;
        Ok(changed)
    }

    /// Reads an image's documents, and checks them.
    pub(crate) fn load(&self, digest: &Digest, name: Option<ImageName>) -> Result<Image, ImageError> {
        let bytes = self.read_blob(digest, "manifest")?;
        let manifest: Manifest = manifest::parse(&format!("manifest {digest}"), &bytes)?;
        if manifest.layers.len() > self.limits.layers {
            return Err(ImageError::TooLarge {
                image: format!("manifest {digest}"),
                what: "it has too many layers",
                limit: self.limits.layers as u64,
            });
        }
        let config = self.read_blob(&manifest.config.digest, "configuration")?;
        let config: ConfigFile = manifest::parse(&format!("configuration {}", manifest.config.digest), &config)?;
        Image::new(name, Descriptor::new(OCI_MANIFEST, *digest, bytes.len() as u64), manifest, config)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn absolute(place: Option<PathBuf>) -> Result<PathBuf, StoreError> {
    let place = place.map_or_else(place::default, Ok)?;
    std::path::absolute(&place).map_err(StoreError::file("find", &place))
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(StoreError::file("make the directory", path))
}

pub(crate) fn too_large(image: &str, limit: u64) -> ImageError {
    ImageError::TooLarge { image: image.to_owned(), what: "it has too many bytes", limit }
}
