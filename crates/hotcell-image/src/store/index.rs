//! Names, and what they stand for.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::blobs::sync_directory;
use crate::digest::Digest;
use crate::error::StoreError;
use crate::name::ImageName;

/// The fewest digits that stand for a digest.
const FEWEST_DIGITS: usize = 12;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    images: BTreeMap<ImageName, Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) digest: Digest,
    /// Seconds since 1970.
    pub(super) added: u64,
}

impl Names {
    pub(super) fn read(path: &Path) -> Result<Self, StoreError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(StoreError::file("read", path)(error)),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| StoreError::Index { path: path.to_owned(), why: error.to_string() })
    }

    /// Replaces the list. The caller has `index.lock`, so the other name is nobody else's.
    pub(super) fn write(&self, place: &Path) -> Result<(), StoreError> {
        let path = place.join("index.json");
        let new = place.join("index.json.new");
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| StoreError::Index { path: path.clone(), why: error.to_string() })?;
        bytes.push(b'\n');
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&new)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .map_err(StoreError::file("write", &new))?;
        fs::rename(&new, &path).map_err(StoreError::file("replace", &path))?;
        sync_directory(place)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ImageName, &Entry)> {
        self.images.iter()
    }

    pub(super) fn get(&self, name: &ImageName) -> Option<Digest> {
        self.images.get(name).map(|entry| entry.digest)
    }

    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.images.values().any(|entry| entry.digest == *digest)
    }

    pub(super) fn set(&mut self, name: ImageName, digest: Digest, added: u64) {
        self.images.insert(name, Entry { digest, added });
    }

    pub(super) fn remove(&mut self, name: &ImageName) -> Option<Digest> {
        self.images.remove(name).map(|entry| entry.digest)
    }

    /// What the text stands for if it is a digest or the beginning of exactly one; with its name if it has only one.
    pub(super) fn by_digits(&self, text: &str) -> Option<(Option<ImageName>, Digest)> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() < FEWEST_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut found = self.images.iter().filter(|(_, entry)| entry.digest.hex().starts_with(digits));
        let (name, entry) = found.next()?;
        let mut one_name = Some(name.clone());
        for (_, other) in found {
            if other.digest != entry.digest {
                return None;
            }
            one_name = None;
        }
        Some((one_name, entry.digest))
    }
}
