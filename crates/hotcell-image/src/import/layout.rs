//! OCI image layouts, and archives of them; what newer engines save is one too.

use super::{Import, docker, source::Source};
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{self, ConfigFile, Descriptor, Index, Manifest};
use crate::name::ImageName;
use crate::platform;
use crate::store::{Image, Kept, Store};

/// Where engines write the full name of an image.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// A name or only a tag.
const OCI_NAME: &str = "org.opencontainers.image.ref.name";

impl Import<'_> {
    pub(super) fn layout(mut self, source: &dyn Source) -> Result<Image, ImageError> {
        let index: Index = manifest::parse("index.json", &self.document(source, "index.json")?)?;
        let chosen = self.choose(&index)?.clone();
        let own = own_name(&chosen).or_else(|| self.only_tag(source));
        let name = self.final_name(own)?;
        let descriptor = if chosen.is_index() { self.descend(source, &chosen)? } else { chosen };
        let bytes = self.checked_document(source, &descriptor, "manifest")?;
        let manifest: Manifest = manifest::parse(&format!("manifest {}", descriptor.digest), &bytes)?;
        let config = self.checked_document(source, &manifest.config, "configuration")?;
        check_documents(self.store, &name, &manifest, &config)?;
        for layer in &manifest.layers {
            self.blob(source, layer, "layer")?;
        }
        add_documents(self.store, &self.kept, &name, &bytes, &config)
    }

    /// The entry that is meant.
    fn choose<'i>(&self, index: &'i Index) -> Result<&'i Descriptor, ImageError> {
        let fitting = index.fitting();
        let by_name =
            |name: &ImageName| fitting.iter().find(|descriptor| own_name(descriptor).as_ref() == Some(name)).copied();
        if let Some(descriptor) = self.name.as_ref().and_then(by_name) {
            return Ok(descriptor);
        }
        let Some(first) = fitting.first() else {
            return Err(ImageError::WrongPlatform {
                image: self.path.display().to_string(),
                found: index.platforms(),
                wanted: platform::wanted(),
            });
        };
        if fitting.iter().any(|other| other.digest != first.digest) {
            let name = |descriptor: &&Descriptor| {
                own_name(descriptor).map_or_else(|| descriptor.digest.to_string(), |name| name.to_string())
            };
            let names: Vec<String> = fitting.iter().map(name).collect();
            return Err(ImageError::Ambiguous { source_path: self.path.to_owned(), names: names.join(", ") });
        }
        Ok(first)
    }

    /// From an image for several platforms to the one for this.
    fn descend(&self, source: &dyn Source, descriptor: &Descriptor) -> Result<Descriptor, ImageError> {
        let bytes = self.checked_document(source, descriptor, "index")?;
        let index: Index = manifest::parse(&format!("index {}", descriptor.digest), &bytes)?;
        choose_platform(&index, &self.path.display().to_string())
    }

    fn checked_document(
        &self,
        source: &dyn Source,
        descriptor: &Descriptor,
        what: &str,
    ) -> Result<Vec<u8>, ImageError> {
        let bytes = self.document(source, &format!("blobs/sha256/{}", descriptor.digest.hex()))?;
        match Digest::of(&bytes) {
            found if found == descriptor.digest => Ok(bytes),
            found => Err(ImageError::digest_differs(format!("{what} {}", descriptor.digest), &found)),
        }
    }

    /// The only name in the other list that newer archives of engines have.
    fn only_tag(&self, source: &dyn Source) -> Option<ImageName> {
        let images = docker::images(&self.document(source, "manifest.json").ok()?).ok()?;
        match &images[..] {
            [image] => image.name(),
            _ => None,
        }
    }
}

/// The image for this platform.
pub(crate) fn choose_platform(index: &Index, image: &str) -> Result<Descriptor, ImageError> {
    match index.fitting().first() {
        Some(descriptor) if !descriptor.is_index() => Ok((*descriptor).clone()),
        Some(_) => Err(ImageError::Malformed {
            what: image.to_owned(),
            why: "an index for several platforms is in another one".to_owned(),
        }),
        None => Err(ImageError::WrongPlatform {
            image: image.to_owned(),
            found: index.platforms(),
            wanted: platform::wanted(),
        }),
    }
}

/// Refuses an image before its layers are read.
pub(crate) fn check_documents(
    store: &Store,
    name: &ImageName,
    manifest: &Manifest,
    config: &[u8],
) -> Result<(), ImageError> {
    let file: ConfigFile = manifest::parse(&format!("configuration {}", manifest.config.digest), config)?;
    file.check_platform(&format!("image {name}"))?;
    let limits = store.limits();
    if manifest.layers.len() > limits.layers {
        let limit = limits.layers as u64;
        return Err(ImageError::TooLarge { image: name.to_string(), what: "it has too many layers", limit });
    }
    for layer in &manifest.layers {
        layer.check_layer()?;
        if layer.size > limits.layer_bytes {
            return Err(crate::store::too_large(&format!("layer {}", layer.digest), limits.layer_bytes));
        }
    }
    Ok(())
}

/// Writes the documents of an image whose layers are in the store, and names it.
pub(crate) fn add_documents(
    store: &Store,
    kept: &Kept,
    name: &ImageName,
    manifest: &[u8],
    config: &[u8],
) -> Result<Image, ImageError> {
    store.add_blob(kept, config)?;
    let digest = store.add_blob(kept, manifest)?;
    store.add_name(kept, name, &digest)
}

fn own_name(descriptor: &Descriptor) -> Option<ImageName> {
    let full = descriptor.annotation(CONTAINERD_NAME);
    // A word alone is a tag, and of what it does not say.
    let named = descriptor.annotation(OCI_NAME).filter(|name| name.contains([':', '/']));
    full.or(named)?.parse().ok()
}
