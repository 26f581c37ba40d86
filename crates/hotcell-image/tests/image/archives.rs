//! Archives of images as other tools write them.

use std::fs;
use std::io::Write;
use std::path::Path;

use hotcell_image::Digest;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::layers::Layer;

/// This machine, as images call it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// An image that is not in any store yet.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) config: Vec<u8>,
    /// As they are stored.
    pub(crate) layers: Vec<Vec<u8>>,
    pub(crate) media_types: Vec<String>,
}

impl Parts {
    /// Two layers: the second deletes a file of the first.
    pub(crate) fn small() -> Self {
        let lower = Layer::new().file("etc/name", "small\n").file("gone", "x").symlink("link", "etc/name").tar();
        let upper = Layer::new().file("etc/more", "more\n").whiteout(".wh.gone").tar();
        Self::of(&[lower, upper], architecture())
    }

    pub(crate) fn of(layers: &[Vec<u8>], architecture: &str) -> Self {
        let diff_ids: Vec<String> = layers.iter().map(|layer| Digest::of(layer).to_string()).collect();
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": { "Env": ["A=b"], "Entrypoint": null, "Cmd": ["sh"], "WorkingDir": "/work", "User": "1000" },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
            "history": [{ "created_by": "test" }],
        });
        let media_types = layers.iter().map(|_| "application/vnd.oci.image.layer.v1.tar".to_owned()).collect();
        Self { config: config.to_string().into_bytes(), layers: layers.to_vec(), media_types }
    }

    pub(crate) fn compressed(mut self, compress: fn(&[u8]) -> Vec<u8>, suffix: &str) -> Self {
        self.layers = self.layers.iter().map(|layer| compress(layer)).collect();
        self.media_types.iter_mut().for_each(|kind| kind.push_str(suffix));
        self
    }

    pub(crate) fn manifest(&self) -> Vec<u8> {
        let layers: Vec<Value> = self
            .layers
            .iter()
            .zip(&self.media_types)
            .map(|(layer, kind)| json!({ "mediaType": kind, "digest": Digest::of(layer), "size": layer.len() }))
            .collect();
        json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": Digest::of(&self.config), "size": self.config.len() },
            "layers": layers,
        })
        .to_string()
        .into_bytes()
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest::of(&self.manifest())
    }

    pub(crate) fn descriptor(&self) -> Value {
        let manifest = self.manifest();
        json!({ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": Digest::of(&manifest), "size": manifest.len() })
    }

    pub(crate) fn blobs(&self) -> Vec<Vec<u8>> {
        [vec![self.manifest(), self.config.clone()], self.layers.clone()].concat()
    }

    /// The files of a layout, with the entries of its index as they are given.
    pub(crate) fn layout(&self, entries: &[Value]) -> Vec<(String, Vec<u8>)> {
        let index = json!({ "schemaVersion": 2, "manifests": entries }).to_string().into_bytes();
        let version = br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec();
        let mut files = vec![("oci-layout".to_owned(), version), ("index.json".to_owned(), index)];
        files.extend(self.blobs().into_iter().map(|blob| (blob_path(&blob), blob)));
        files
    }

    /// A layout with one image that has a name.
    pub(crate) fn named_layout(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let mut descriptor = self.descriptor();
        descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        self.layout(&[descriptor])
    }

    /// What `docker save` of old writes.
    pub(crate) fn docker(&self, tags: &[&str]) -> Vec<(String, Vec<u8>)> {
        let config = format!("{}.json", Digest::of(&self.config).hex());
        let path = |number: usize| format!("{:064}/layer.tar", number);
        let layers: Vec<String> = (0..self.layers.len()).map(path).collect();
        let manifest = json!([{ "Config": config, "RepoTags": tags, "Layers": layers }]).to_string().into_bytes();
        let mut files = vec![(config, self.config.clone())];
        files.extend(self.layers.iter().enumerate().map(|(number, layer)| (path(number), layer.clone())));
        files.push(("manifest.json".to_owned(), manifest));
        files
    }

    /// What newer ones write: both at once.
    pub(crate) fn combined(&self, tag: &str) -> Vec<(String, Vec<u8>)> {
        let layers: Vec<String> = self.layers.iter().map(|layer| blob_path(layer)).collect();
        let manifest = json!([{ "Config": blob_path(&self.config), "RepoTags": [tag], "Layers": layers }]);
        let mut files = self.layout(&[self.descriptor()]);
        files.push(("manifest.json".to_owned(), manifest.to_string().into_bytes()));
        files
    }
}

pub(crate) fn blob_path(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", Digest::of(bytes).hex())
}

pub(crate) fn tar_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = header(EntryType::Regular, bytes.len() as u64);
        builder.append_data(&mut header, path, &bytes[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header
}

pub(crate) fn directory_of(place: &Path, files: &[(String, Vec<u8>)]) {
    for (path, bytes) in files {
        let path = place.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}
