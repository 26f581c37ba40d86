//! An image in the store.

use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{ConfigFile, Descriptor, Manifest};
use crate::name::ImageName;

use super::index::Entry;

/// An image: its documents were read and have the digests by which they are called.
#[derive(Debug, Clone)]
pub struct Image {
    name: Option<ImageName>,
    descriptor: Descriptor,
    manifest: Manifest,
    file: ConfigFile,
    config: ImageConfig,
}

impl Image {
    pub(super) fn new(
        name: Option<ImageName>,
        descriptor: Descriptor,
        manifest: Manifest,
        file: ConfigFile,
    ) -> Result<Self, ImageError> {
        if manifest.layers.len() != file.rootfs.diff_ids.len() {
            return Err(ImageError::Malformed {
                what: format!("manifest {}", descriptor.digest),
                why: "its configuration is about another number of layers".to_owned(),
            });
        }
        let config = file.image_config();
        Ok(Self { name, descriptor, manifest, file, config })
    }

    /// The name by which it was found, or its only one.
    pub fn name(&self) -> Option<&ImageName> {
        self.name.as_ref()
    }

    /// The digest of its manifest: what the image is called.
    pub fn digest(&self) -> &Digest {
        &self.descriptor.digest
    }

    /// The digest of its configuration: what container engines call an image id.
    pub fn config_digest(&self) -> &Digest {
        &self.manifest.config.digest
    }

    /// What it says about how it is meant to be run.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// Bytes in the store, without what is unpacked.
    pub fn size(&self) -> u64 {
        self.manifest.size().saturating_add(self.descriptor.size)
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(crate) fn diff_ids(&self) -> &[Digest] {
        &self.file.rootfs.diff_ids
    }

    pub(crate) fn rootfs_key(&self) -> Digest {
        self.file.rootfs_key()
    }

    pub(crate) fn check_platform(&self) -> Result<(), ImageError> {
        let image = self.name.as_ref().map_or_else(|| self.descriptor.digest.to_string(), ImageName::to_string);
        self.file.check_platform(&format!("image {image}"))
    }
}

/// A name in the store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listed {
    /// The name.
    pub name: ImageName,
    /// What it stands for.
    pub digest: Digest,
    /// Bytes in the store, without what is unpacked.
    pub size: Option<u64>,
    /// The processor it was built for.
    pub architecture: Option<String>,
    /// Seconds since 1970.
    pub added: u64,
    /// Whether its root file system is there already.
    pub unpacked: bool,
    /// Why it cannot be used, if so.
    pub problem: Option<String>,
}

impl Listed {
    pub(super) fn new(
        name: ImageName,
        entry: &Entry,
        image: Result<Image, ImageError>,
        unpacked: impl FnOnce(&Digest) -> bool,
    ) -> Self {
        let empty = Self {
            name,
            digest: entry.digest,
            size: None,
            architecture: None,
            added: entry.added,
            unpacked: false,
            problem: None,
        };
        match image {
            Ok(image) => Self {
                size: Some(image.size()),
                architecture: Some(image.config.architecture.clone()),
                unpacked: unpacked(&image.rootfs_key()),
                ..empty
            },
            Err(error) => Self { problem: Some(error.to_string()), ..empty },
        }
    }
}
