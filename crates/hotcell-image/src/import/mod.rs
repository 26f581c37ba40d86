//! Taking images in: layouts, archives, directories and plain tars.
//!
//! ```text
//! directory with oci-layout ─┐
//! archive with oci-layout ───┼─▶ layout.rs ─┐
//! archive with manifest.json ┴─▶ docker.rs ─┼─▶ blobs, checked ─▶ a name
//! any other directory or tar ──▶ rootfs.rs ─┘
//! ```

mod docker;
mod layout;
mod rootfs;
mod source;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use hotcell_core::text::PrintablePath;

use crate::compression::{Compression, Decoder, exceeded};
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::Descriptor;
use crate::name::ImageName;
use crate::progress::{Progress, Step};
use crate::store::{Image, Incoming, Kept, Store, too_large};
#[cfg(feature = "registry")]
pub(crate) use layout::{add_documents, check_documents, choose_platform};
use source::{Archive, Directory, Source};

/// An import that is going on.
struct Import<'a> {
    store: &'a Store,
    kept: Kept,
    path: &'a Path,
    /// What the image shall be called; also which one is meant, where there are several.
    name: Option<ImageName>,
    progress: &'a mut (dyn FnMut(Progress) + Send),
}

impl Store {
    /// Takes an image in: an OCI layout (a directory, or a tar of one), what `docker save` writes, a directory that is a root
    /// file system, or a tar of one. Tars may be compressed with gzip or zstd.
    ///
    /// Without a name the image is called what the archive says. Nothing is named unless all of it is there and fits this machine.
    pub fn import(
        &self,
        source: &Path,
        name: Option<&str>,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Image, ImageError> {
        let parse = |name: &str| name.parse().map_err(|error| ImageError::BadName { name: name.to_owned(), error });
        let name = name.map(parse).transpose()?;
        let kept = self.begin()?;
        let import = Import { store: self, kept, path: source, name, progress };
        let status = std::fs::metadata(source).map_err(ImageError::source(source))?;
        if status.is_dir() { import.directory() } else { import.file() }
    }
}

impl Import<'_> {
    fn directory(self) -> Result<Image, ImageError> {
        let directory = Directory::open(self.path).map_err(ImageError::source(self.path))?;
        if directory.has("oci-layout") { self.layout(&directory) } else { self.rootfs_directory() }
    }

    fn file(mut self) -> Result<Image, ImageError> {
        let mut file = File::open(self.path).map_err(ImageError::source(self.path))?;
        let status = file.metadata().map_err(ImageError::source(self.path))?;
        if !status.is_file() {
            return Err(self.malformed("it is neither a file nor a directory"));
        }
        let mut start = Vec::new();
        file.by_ref().take(6).read_to_end(&mut start).map_err(ImageError::source(self.path))?;
        file.seek(SeekFrom::Start(0)).map_err(ImageError::source(self.path))?;
        if Compression::of(&start) == Ok(Compression::None) {
            return self.tar(file, None);
        }
        let spooled = self.decompress(file, status.len())?;
        let tar = spooled.reader()?;
        self.tar(tar, Some(spooled))
    }

    /// Decides by what is in it. `spooled` is the same bytes, if they are in the store already.
    fn tar(self, file: File, spooled: Option<Incoming>) -> Result<Image, ImageError> {
        let archive = Archive::open(file, self.store.limits())
            .map_err(|error| self.malformed(&format!("it is not a tar archive: {error}")))?;
        if archive.has("oci-layout") && archive.has("index.json") {
            self.layout(&archive)
        } else if archive.has("manifest.json") {
            self.docker(&archive)
        } else {
            self.rootfs_tar(&archive, spooled)
        }
    }

    fn decompress(&mut self, file: File, size: u64) -> Result<Incoming, ImageError> {
        let limits = self.store.limits();
        let mut incoming = self.store.incoming(&self.kept)?;
        let trouble = |error: std::io::Error| match exceeded(&error) {
            Some(limit) => too_large(&PrintablePath(self.path).to_string(), limit),
            None => ImageError::Malformed { what: PrintablePath(self.path).to_string(), why: error.to_string() },
        };
        let reader = BufReader::with_capacity(1 << 16, file);
        let mut decoder = Decoder::new(reader, size, limits).map_err(trouble)?;
        let what = PrintablePath(self.path).to_string();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match decoder.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => incoming.write(buffer.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(trouble(error)),
            }
            let done = incoming.size();
            (self.progress)(Progress { step: Step::Reading, what: what.clone(), done, total: None });
        }
        Ok(incoming)
    }

    /// Copies a blob of the source into the store, if it is not there yet.
    fn blob(&mut self, source: &dyn Source, descriptor: &Descriptor, what: &str) -> Result<(), ImageError> {
        let Descriptor { digest, size, .. } = descriptor;
        if self.store.has_blob(digest, *size) {
            return Ok(());
        }
        let path = format!("blobs/sha256/{}", digest.hex());
        let (copied, found) = self.copy(source, &path, Some(digest), what)?;
        if found != *size {
            let why = format!("it has {found} bytes and should have {size}");
            return Err(ImageError::Corrupt { what: format!("{what} {copied}"), why });
        }
        Ok(())
    }

    /// Copies a file of the source into the store; its digest and size.
    fn copy(
        &mut self,
        source: &dyn Source,
        path: &str,
        expected: Option<&Digest>,
        what: &str,
    ) -> Result<(Digest, u64), ImageError> {
        let limit = self.store.limits().layer_bytes;
        let Some((mut reader, total)) = source.open(path).map_err(ImageError::source(self.path))? else {
            return Err(self.malformed(&format!("{what} {path} is not in it")));
        };
        if total > limit {
            return Err(too_large(&format!("{what} {path}"), limit));
        }
        let shown = expected.map_or_else(|| path.to_owned(), Digest::short);
        let mut incoming = self.store.incoming(&self.kept)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => incoming.write(buffer.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageError::source(self.path)(error)),
            }
            let done = incoming.size();
            (self.progress)(Progress { step: Step::Reading, what: shown.clone(), done, total: Some(total) });
        }
        let size = incoming.size();
        Ok((incoming.commit(expected, what)?, size))
    }

    /// A document of the source.
    fn document(&self, source: &dyn Source, path: &str) -> Result<Vec<u8>, ImageError> {
        let limit = self.store.limits().metadata_bytes;
        let Some((reader, size)) = source.open(path).map_err(ImageError::source(self.path))? else {
            return Err(self.malformed(&format!("{path} is not in it")));
        };
        if size > limit {
            return Err(too_large(path, limit));
        }
        let mut bytes = Vec::new();
        reader.take(limit).read_to_end(&mut bytes).map_err(ImageError::source(self.path))?;
        Ok(bytes)
    }

    /// What to call the image: what the user said, or else what the source says.
    fn final_name(&self, own: Option<ImageName>) -> Result<ImageName, ImageError> {
        let needed = || ImageError::NameNeeded { source_path: self.path.to_owned() };
        self.name.clone().or(own).ok_or_else(needed)
    }

    fn malformed(&self, why: &str) -> ImageError {
        ImageError::Malformed { what: PrintablePath(self.path).to_string(), why: why.to_owned() }
    }
}
