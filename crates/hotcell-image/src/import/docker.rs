//! What `docker save` writes: a list of images, each with a configuration and layers that are named by their paths.

use std::io::Read;

use serde::Deserialize;

use super::layout::check_documents;
use super::{Import, source::Source};
use crate::compression::Compression;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{self, ConfigFile, Descriptor, Manifest, OCI_CONFIG, OCI_LAYER};
use crate::name::ImageName;
use crate::store::Image;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Saved {
    /// Its first name.
    pub(super) fn name(&self) -> Option<ImageName> {
        self.repo_tags.iter().flatten().find_map(|tag| tag.parse().ok())
    }

    fn has_name(&self, name: &ImageName) -> bool {
        self.repo_tags.iter().flatten().any(|tag| tag.parse().as_ref() == Ok(name))
    }
}

/// The images that an archive lists.
pub(super) fn images(bytes: &[u8]) -> Result<Vec<Saved>, ImageError> {
    manifest::parse("manifest.json", bytes)
}

impl Import<'_> {
    pub(super) fn docker(mut self, source: &dyn Source) -> Result<Image, ImageError> {
        let images = images(&self.document(source, "manifest.json")?)?;
        let saved = self.choose_saved(&images)?;
        let name = self.final_name(saved.name())?;
        let config = self.document(source, &saved.config)?;
        let what = format!("configuration {}", saved.config);
        let file: ConfigFile = manifest::parse(&what, &config)?;
        file.check_platform(&format!("image {name}"))?;
        if file.rootfs.diff_ids.len() != saved.layers.len() {
            return Err(self.malformed("its configuration is about another number of layers"));
        }
        let mut manifest =
            Manifest::new(Descriptor::new(OCI_CONFIG, Digest::of(&config), config.len() as u64), Vec::new());
        check_documents(self.store, &name, &manifest, &config)?;
        if saved.layers.len() > self.store.limits().layers {
            let limit = self.store.limits().layers as u64;
            return Err(ImageError::TooLarge { image: name.to_string(), what: "it has too many layers", limit });
        }
        for (path, diff_id) in saved.layers.iter().zip(&file.rootfs.diff_ids) {
            manifest.layers.push(self.saved_layer(source, path, diff_id)?);
        }
        let manifest = manifest::write(&manifest)?;
        super::layout::add_documents(self.store, &self.kept, &name, &manifest, &config)
    }

    fn choose_saved<'i>(&self, images: &'i [Saved]) -> Result<&'i Saved, ImageError> {
        let by_name = |name| images.iter().find(|image| image.has_name(name));
        match (self.name.as_ref().and_then(by_name), images) {
            (Some(image), _) | (None, [image]) => Ok(image),
            (None, []) => Err(self.malformed("no image is in it")),
            (None, several) => {
                let name = |image: &Saved| image.name().map_or_else(|| image.config.clone(), |name| name.to_string());
                let names: Vec<String> = several.iter().map(name).collect();
                Err(ImageError::Ambiguous { source_path: self.path.to_owned(), names: names.join(", ") })
            }
        }
    }

    fn saved_layer(&mut self, source: &dyn Source, path: &str, diff_id: &Digest) -> Result<Descriptor, ImageError> {
        let opened = source.open(path).map_err(ImageError::source(self.path))?;
        let Some((reader, size)) = opened else {
            return Err(self.malformed(&format!("layer {path} is not in it")));
        };
        let mut start = Vec::new();
        reader.take(6).read_to_end(&mut start).map_err(ImageError::source(self.path))?;
        let compression = Compression::of(&start)
            .map_err(|unsupported| self.malformed(&format!("layer {path} is compressed with {}", unsupported.0)))?;
        // A compressed layer is checked against this digest when it is unpacked.
        let expected = (compression == Compression::None).then_some(diff_id);
        let digest = match expected {
            Some(digest) if self.store.has_blob(digest, size) => *digest,
            expected => self.copy(source, path, expected, "layer")?.0,
        };
        Ok(Descriptor::new(&format!("{OCI_LAYER}{}", compression.suffix()), digest, size))
    }
}
