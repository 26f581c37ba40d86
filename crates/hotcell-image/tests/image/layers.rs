//! Layers that are written by hand, and a place to unpack them in.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_image::unpack::Unpacker;
use hotcell_image::{ImageError, Limits};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// A layer in the making. Paths are taken as they are, however bad.
pub(crate) struct Layer {
    builder: Builder<Vec<u8>>,
    owner: u64,
}

impl Layer {
    pub(crate) fn new() -> Self {
        Self { builder: Builder::new(Vec::new()), owner: 0 }
    }

    /// Who the following entries belong to.
    pub(crate) fn owned_by(mut self, owner: u64) -> Self {
        self.owner = owner;
        self
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, path.as_bytes(), b"", content.as_bytes(), 0o644)
    }

    pub(crate) fn file_with_mode(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Regular, path.as_bytes(), b"", b"x", mode)
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        self.directory_with_mode(path, 0o755)
    }

    pub(crate) fn directory_with_mode(self, path: &str, mode: u32) -> Self {
        self.entry(EntryType::Directory, path.as_bytes(), b"", b"", mode)
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path.as_bytes(), target.as_bytes(), b"", 0o777)
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path.as_bytes(), target.as_bytes(), b"", 0o644)
    }

    pub(crate) fn whiteout(self, path: &str) -> Self {
        self.file(path, "")
    }

    pub(crate) fn entry(mut self, kind: EntryType, path: &[u8], link: &[u8], content: &[u8], mode: u32) -> Self {
        for (kind, text) in [(EntryType::GNULongName, path), (EntryType::GNULongLink, link)] {
            if text.len() > 100 {
                self.append(kind, b"long", b"", &[text, b"\0"].concat(), 0);
            }
        }
        self.append(kind, path, link, content, mode);
        self
    }

    fn append(&mut self, kind: EntryType, path: &[u8], link: &[u8], content: &[u8], mode: u32) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(self.owner);
        header.set_gid(self.owner);
        header.set_mtime(1_000_000_000);
        let old = header.as_old_mut();
        for (field, text) in [(&mut old.name, path), (&mut old.linkname, link)] {
            let length = text.len().min(100);
            field[..length].copy_from_slice(&text[..length]);
        }
        header.set_cksum();
        self.builder.append(&header, content).unwrap();
    }

    /// An extended header for the next entry.
    pub(crate) fn extended(mut self, key: &str, value: &[u8]) -> Self {
        let rest = [format!(" {key}=").as_bytes(), value, b"\n"].concat();
        let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length).unwrap();
        self.append(EntryType::XHeader, b"x", b"", &[length.to_string().as_bytes(), &rest].concat(), 0);
        self
    }

    pub(crate) fn tar(self) -> Vec<u8> {
        self.builder.into_inner().unwrap()
    }
}

/// A directory to unpack into, and another beside it that nothing may reach.
pub(crate) struct Arena(TempDir);

impl Arena {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("root")).unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/secret"), "secret").unwrap();
        Self(place)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    pub(crate) fn outside(&self) -> String {
        self.0.path().join("outside").display().to_string()
    }

    /// Unpacks, and sees that nothing outside was touched, whatever came of it.
    pub(crate) fn unpack(&self, layers: impl IntoIterator<Item = Layer>) -> Result<(), ImageError> {
        self.unpack_within(layers, Limits::default())
    }

    pub(crate) fn unpack_within(
        &self,
        layers: impl IntoIterator<Item = Layer>,
        limits: Limits,
    ) -> Result<(), ImageError> {
        let mut unpacker = Unpacker::new(&self.root(), limits).unwrap();
        let unpacked = layers
            .into_iter()
            .enumerate()
            .try_for_each(|(number, layer)| unpacker.layer(&layer.tar()[..], &format!("layer {number}")));
        self.assert_outside_is_untouched();
        unpacked
    }

    /// The reason for which the layer is refused.
    #[track_caller]
    pub(crate) fn refuse(&self, layer: Layer) -> String {
        match self.unpack([layer]) {
            Err(ImageError::Hostile { why, layer, .. }) => {
                assert_eq!(layer, "layer 0");
                why
            }
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    pub(crate) fn mode(&self, path: &str) -> Option<u32> {
        fs::symlink_metadata(self.root().join(path)).ok().map(|status| status.mode())
    }

    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        names(&self.root().join(path))
    }

    #[track_caller]
    fn assert_outside_is_untouched(&self) {
        assert_eq!(names(self.0.path()), ["outside", "root"]);
        assert_eq!(names(Path::new(&self.outside())), ["secret"]);
        assert_eq!(fs::read_to_string(self.0.path().join("outside/secret")).unwrap(), "secret");
        let status = fs::metadata(self.0.path().join("outside/secret")).unwrap();
        assert_eq!(status.nlink(), 1, "a hard link to it was made");
    }
}

pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
