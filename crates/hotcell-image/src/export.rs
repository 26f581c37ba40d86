//! Giving images away: archives that other tools read.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};

use serde::Serialize;
use tar::{Builder, Header};

use crate::compression::{Compression, Decoder};
use crate::digest::{Digest, Hashing};
use crate::error::ImageError;
use crate::manifest::{self, Descriptor, Index, OCI_INDEX};
use crate::store::{Image, Store};

/// What to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// A tar of an OCI image layout. The image keeps its digest.
    Oci,
    /// What `docker load` and `podman load` read, old versions too. The layers are not compressed.
    Docker,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Vec<String>,
    layers: Vec<String>,
}

impl Store {
    /// Writes an image as one archive. The same image gives the same bytes.
    ///
    /// What is written is checked on the way: an error means that the archive must not be used.
    pub fn export(&self, image: &Image, format: ExportFormat, writer: &mut dyn Write) -> Result<(), ImageError> {
        let _kept = self.keep()?;
        let mut archive = Writer { store: self, builder: Builder::new(writer) };
        match format {
            ExportFormat::Oci => archive.oci(image)?,
            ExportFormat::Docker => archive.docker(image)?,
        }
        let writer = archive.builder.into_inner().map_err(ImageError::Export)?;
        writer.flush().map_err(ImageError::Export)
    }
}

struct Writer<'a> {
    store: &'a Store,
    builder: Builder<&'a mut dyn Write>,
}

impl Writer<'_> {
    fn oci(&mut self, image: &Image) -> Result<(), ImageError> {
        let mut descriptor = image.descriptor().clone();
        descriptor.annotations = image.name().map(|name| {
            BTreeMap::from([
                ("io.containerd.image.name".to_owned(), name.full()),
                ("org.opencontainers.image.ref.name".to_owned(), name.full()),
            ])
        });
        if let Some(kind) = &image.manifest().media_type {
            descriptor.media_type.clone_from(kind);
        }
        let index = Index { schema_version: 2, media_type: Some(OCI_INDEX.to_owned()), manifests: vec![descriptor] };
        self.document("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        self.document("index.json", &manifest::write(&index)?)?;
        let manifest = image.manifest();
        let mut written: Vec<Digest> = Vec::new();
        let documents = [(image.descriptor(), "manifest"), (&manifest.config, "configuration")];
        for (blob, what) in documents.into_iter().chain(manifest.layers.iter().map(|layer| (layer, "layer"))) {
            if !written.contains(&blob.digest) {
                self.blob(blob, what)?;
                written.push(blob.digest);
            }
        }
        Ok(())
    }

    fn docker(&mut self, image: &Image) -> Result<(), ImageError> {
        let manifest = image.manifest();
        let config = format!("{}.json", manifest.config.digest.hex());
        let bytes = self.store.read_blob(&manifest.config.digest, "configuration")?;
        self.document(&config, &bytes)?;
        let mut layers = Vec::new();
        for (layer, diff_id) in manifest.layers.iter().zip(image.diff_ids()) {
            let path = format!("{}/layer.tar", diff_id.hex());
            if !layers.contains(&path) {
                self.plain_layer(&path, layer, diff_id)?;
            }
            layers.push(path);
        }
        // A digest is no tag.
        let tag = image.name().filter(|name| name.tag().is_some()).map(ToString::to_string);
        let saved = [Saved { config, repo_tags: tag.into_iter().collect(), layers }];
        self.document("manifest.json", &manifest::write(&saved)?)
    }

    fn document(&mut self, path: &str, bytes: &[u8]) -> Result<(), ImageError> {
        self.builder.append_data(&mut header(bytes.len() as u64), path, bytes).map_err(ImageError::Export)
    }

    fn blob(&mut self, blob: &Descriptor, what: &str) -> Result<(), ImageError> {
        let file = self.store.open_blob(&blob.digest, what)?;
        let path = format!("blobs/sha256/{}", blob.digest.hex());
        let label = format!("{what} {}", blob.digest);
        self.content(&path, BufReader::with_capacity(1 << 16, file), blob.size, &blob.digest, &label)
    }

    /// A layer without its compression: old engines do not know all kinds of it.
    fn plain_layer(&mut self, path: &str, layer: &Descriptor, diff_id: &Digest) -> Result<(), ImageError> {
        let label = format!("layer {}", layer.digest);
        let corrupt = |error: io::Error| ImageError::Corrupt { what: label.clone(), why: error.to_string() };
        let open = || -> Result<Decoder<'static>, ImageError> {
            let file = BufReader::with_capacity(1 << 16, self.store.open_blob(&layer.digest, "layer")?);
            Decoder::new(file, layer.size, self.store.limits()).map_err(corrupt)
        };
        let mut first = open()?;
        let size = match first.compression() {
            Compression::None => layer.size,
            // A tar says how long a file is before the file.
            _ => io::copy(&mut first, &mut io::sink()).map_err(corrupt)?,
        };
        let second = open()?;
        self.content(path, second, size, diff_id, &label)
    }

    /// Writes a file of a known size, and checks that it is what it should be.
    fn content(
        &mut self,
        path: &str,
        reader: impl Read,
        size: u64,
        digest: &Digest,
        label: &str,
    ) -> Result<(), ImageError> {
        let mut reader = Watched { reader: Hashing::new(reader.take(size)), failed: None };
        let appended = self.builder.append_data(&mut header(size), path, &mut reader);
        if let Some(error) = reader.failed {
            return Err(ImageError::Corrupt { what: label.to_owned(), why: error });
        }
        appended.map_err(ImageError::Export)?;
        match reader.reader.finish() {
            (found, count) if found == *digest && count == size => Ok(()),
            (found, _) => Err(ImageError::digest_differs(label, &found)),
        }
    }
}

/// Keeps what went wrong with reading apart from what went wrong with writing.
struct Watched<R> {
    reader: R,
    failed: Option<String>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).inspect_err(|error| self.failed = Some(error.to_string()))
    }
}

fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
