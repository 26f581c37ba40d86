//! The documents of an image, as they are on disk and on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::ImageConfig;
use crate::digest::{Digest, Hasher};
use crate::error::ImageError;
use crate::platform;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
#[cfg(feature = "registry")]
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Points to a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self { media_type: media_type.to_owned(), digest, size, annotations: None, platform: None }
    }

    pub(crate) fn is_index(&self) -> bool {
        [OCI_INDEX, DOCKER_INDEX].contains(&self.media_type.as_str())
    }

    /// Refuses what is no layer of a file system: encrypted ones, and artifacts of other kinds.
    pub(crate) fn check_layer(&self) -> Result<(), ImageError> {
        const KINDS: [&str; 2] = [OCI_LAYER, "application/vnd.docker.image.rootfs.diff.tar"];
        const ENDS: [&str; 5] = ["", "+gzip", ".gzip", "+zstd", ".zstd"];
        let kind = KINDS.iter().find_map(|kind| self.media_type.strip_prefix(kind));
        if self.media_type.is_empty() || kind.is_some_and(|end| ENDS.contains(&end)) {
            return Ok(());
        }
        Err(ImageError::Malformed {
            what: format!("layer {}", self.digest),
            why: format!("it is of the kind {}, which is no layer of a file system", self.media_type),
        })
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
}

/// An image: its configuration and its layers, lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

impl Manifest {
    pub(crate) fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self { schema_version: 2, media_type: Some(OCI_MANIFEST.to_owned()), config, layers }
    }

    /// Bytes of everything that it points to.
    pub(crate) fn size(&self) -> u64 {
        self.layers.iter().fold(self.config.size, |sum, layer| sum.saturating_add(layer.size))
    }
}

/// Several images, mostly the same one for different platforms.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) manifests: Vec<Descriptor>,
}

impl Index {
    /// The images in it that could be meant here: those for this platform, or those that do not say what they are for.
    pub(crate) fn fitting(&self) -> Vec<&Descriptor> {
        let says = |descriptor: &&Descriptor| descriptor.platform.is_some();
        let (said, unsaid): (Vec<_>, Vec<_>) = self.manifests.iter().partition(says);
        let fitting: Vec<_> = said.into_iter().filter(|descriptor| descriptor.fits()).collect();
        if fitting.is_empty() { unsaid } else { fitting }
    }

    /// The platforms in it, for a message.
    pub(crate) fn platforms(&self) -> String {
        let platforms = self.manifests.iter().filter_map(|descriptor| descriptor.platform.as_ref());
        let mut names: Vec<String> =
            platforms.map(|platform| format!("{}/{}", platform.os, platform.architecture)).collect();
        names.sort();
        names.dedup();
        if names.is_empty() { "no platform at all".to_owned() } else { names.join(", ") }
    }
}

impl Descriptor {
    fn fits(&self) -> bool {
        self.platform.as_ref().is_some_and(|platform| platform::fits(&platform.os, &platform.architecture))
    }
}

/// The configuration of an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ConfigFile {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) config: Option<Defaults>,
    pub(crate) rootfs: Layers,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Defaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entrypoint: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cmd: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    working_dir: Option<String>,
}

/// The digests of the layers' uncompressed content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Layers {
    #[serde(rename = "type")]
    kind: String,
    pub(crate) diff_ids: Vec<Digest>,
}

impl ConfigFile {
    /// The configuration of an image with one layer.
    pub(crate) fn of_one_layer(config: &ImageConfig, layer: Digest) -> Self {
        let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            architecture: config.architecture.clone(),
            os: platform::OS.to_owned(),
            config: Some(Defaults {
                user: text(&config.user),
                env: list(&config.env),
                entrypoint: list(&config.entrypoint),
                cmd: list(&config.cmd),
                working_dir: text(&config.working_dir),
            }),
            rootfs: Layers { kind: "layers".to_owned(), diff_ids: vec![layer] },
        }
    }

    pub(crate) fn image_config(&self) -> ImageConfig {
        let defaults = self.config.clone().unwrap_or_default();
        ImageConfig {
            env: defaults.env.unwrap_or_default(),
            working_dir: defaults.working_dir.unwrap_or_default(),
            user: defaults.user.unwrap_or_default(),
            entrypoint: defaults.entrypoint.unwrap_or_default(),
            cmd: defaults.cmd.unwrap_or_default(),
            architecture: self.architecture.clone(),
        }
    }

    /// What the unpacked layers are called: the same content in the same order has the same name, whatever image it is of.
    pub(crate) fn rootfs_key(&self) -> Digest {
        let mut hasher = Hasher::default();
        // Changes whenever unpacking does, so that nobody uses what older rules made.
        hasher.update(b"hotcell rootfs 1\n");
        for diff_id in &self.rootfs.diff_ids {
            hasher.update(diff_id.to_string().as_bytes());
            hasher.update(b"\n");
        }
        hasher.finish()
    }

    /// Refuses what cannot run here.
    pub(crate) fn check_platform(&self, image: &str) -> Result<(), ImageError> {
        if platform::fits(&self.os, &self.architecture) {
            return Ok(());
        }
        let or_unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        Err(ImageError::WrongPlatform {
            image: image.to_owned(),
            found: format!("{}/{}", or_unknown(&self.os), or_unknown(&self.architecture)),
            wanted: platform::wanted(),
        })
    }
}

/// Reads a document.
pub(crate) fn parse<T: for<'de> Deserialize<'de>>(what: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes)
        .map_err(|error| ImageError::Malformed { what: what.to_owned(), why: error.to_string() })
}

/// Writes a document, always the same way.
pub(crate) fn write<T: Serialize>(document: &T) -> Result<Vec<u8>, ImageError> {
    serde_json::to_vec(document)
        .map_err(|error| ImageError::Malformed { what: "an own document".to_owned(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_write_null_for_nothing() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Env":null,"Cmd":["sh"],"Entrypoint":null,"User":""},
            "rootfs":{"type":"layers","diff_ids":[]},"history":[],"created":"x"}"#;
        let config = parse::<ConfigFile>("config", text.as_bytes()).unwrap().image_config();
        assert_eq!((config.cmd, config.env.len(), config.user), (vec!["sh".to_owned()], 0, String::new()));
    }

    #[test]
    fn an_index_is_searched_for_this_platform() {
        let entry = |os: &str, architecture: &str| Descriptor {
            platform: Some(Platform { os: os.to_owned(), architecture: architecture.to_owned() }),
            ..Descriptor::new(OCI_MANIFEST, Digest::of(architecture.as_bytes()), 1)
        };
        let index = |manifests| Index { schema_version: 2, media_type: None, manifests };
        let here = platform::architecture();
        let several = index(vec![entry("linux", "vax"), entry("linux", here), entry("unknown", "unknown")]);
        assert_eq!(several.fitting(), [&entry("linux", here)]);
        assert!(index(vec![entry("windows", here), entry("linux", "vax")]).fitting().is_empty());
        assert_eq!(index(vec![Descriptor::new("", Digest::of(b""), 1)]).fitting().len(), 1);
    }

    #[test]
    fn the_same_layers_in_the_same_order_have_the_same_key() {
        let key = |layers: &[&[u8]]| {
            let mut config = ConfigFile::of_one_layer(&ImageConfig::default(), Digest::of(b""));
            config.rootfs.diff_ids = layers.iter().map(|layer| Digest::of(layer)).collect();
            config.rootfs_key()
        };
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"a", b"b"]), key(&[b"b", b"a"]));
        assert_ne!(key(&[b"a"]), key(&[]));
    }
}
