//! What can go wrong, on what, why, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use hotcell_core::text::{Printable, PrintablePath};
use thiserror::Error;

use crate::digest::Digest;
use crate::name::{BadName, ImageName};

/// The store itself cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing says where the store should be.
    #[error(
        "there is no place for images: neither HOTCELL_IMAGE_STORE, XDG_CACHE_HOME nor HOME is set to an absolute path"
    )]
    NoPlace,
    /// Somebody else could change what is in it.
    #[error("the image store {} {why}; make it yours alone (chown, chmod go-w) or choose another with HOTCELL_IMAGE_STORE", PrintablePath(.path))]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// Who could.
        why: &'static str,
    },
    /// A file of the store cannot be used.
    #[error("cannot {doing} {}: {error}", PrintablePath(.path))]
    File {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The list of names cannot be read.
    #[error("the image store's list of names {} is damaged ({why}); move it away and import the images again", PrintablePath(.path))]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another process does something for too long.
    #[error("the image store is busy: {} is locked by another process; try again when that is done", PrintablePath(.path))]
    Busy {
        /// The lock.
        path: PathBuf,
    },
}

impl StoreError {
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File { doing, path: path.to_owned(), error }
    }
}

/// An image cannot be had, read, written or unpacked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No image of that name or digest is in the store.
    #[error(
        "there is no image `{}` in the store {}; get it with `hotcell image pull NAME`, \
         `hotcell image import FILE --name NAME`, or `hotcell image build` for the reference image",
        Printable(.name), PrintablePath(.store)
    )]
    NotFound {
        /// What was looked for.
        name: String,
        /// Where.
        store: PathBuf,
    },
    /// The text is no name.
    #[error("`{}` is not the name of an image: {error}", Printable(.name))]
    BadName {
        /// The text.
        name: String,
        /// What is wrong with it.
        error: BadName,
    },
    /// What is imported does not say what it is called.
    #[error("{} does not say what the image is called; give it a name with `--name NAME`", PrintablePath(.source_path))]
    NameNeeded {
        /// What was to be imported.
        source_path: PathBuf,
    },
    /// Several images are in one archive.
    #[error("{} has several images ({}); choose one with `--name NAME`", PrintablePath(.source_path), Printable(.names))]
    Ambiguous {
        /// What was to be imported.
        source_path: PathBuf,
        /// Their names.
        names: String,
    },
    /// It was made for other machines.
    #[error("{} is for {}, and this machine needs {wanted}; get a variant for {wanted}", Printable(.image), Printable(.found))]
    WrongPlatform {
        /// The image.
        image: String,
        /// What it is for.
        found: String,
        /// What it would have to be for.
        wanted: String,
    },
    /// Content does not have the digest by which it is called.
    #[error("{what} is corrupt: {}; get the image again", Printable(.why))]
    Corrupt {
        /// The layer, configuration or manifest, with its digest.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// What an image needs is not known, so nothing can be removed.
    #[error("nothing was removed: {error}; without image `{name}` it can be done (`hotcell image rm {name}`)")]
    Unreadable {
        /// The image.
        name: ImageName,
        /// What is wrong with it.
        error: Box<ImageError>,
    },
    /// Something is not what it should be.
    #[error("{} cannot be understood: {}", Printable(.what), Printable(.why))]
    Malformed {
        /// The thing.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// A layer tries what no honest layer does.
    #[error("{layer} is refused because of its entry `{}`: {why}; do not use this image", Printable(.entry))]
    Hostile {
        /// The layer, with its digest.
        layer: String,
        /// The path in it.
        entry: String,
        /// What it tries.
        why: String,
    },
    /// Something is larger than images may be.
    #[error("{} is too large: {what} (the limit is {limit})", Printable(.image))]
    TooLarge {
        /// The image, layer or file.
        image: String,
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: u64,
    },
    /// A file of a layer cannot be written.
    #[error("cannot unpack `{}` of {layer}: {error}", Printable(.entry))]
    Unpack {
        /// The layer, with its digest.
        layer: String,
        /// The path in it.
        entry: String,
        /// What the system said.
        error: io::Error,
    },
    /// What is to be imported cannot be read.
    #[error("cannot read {}: {error}", PrintablePath(.path))]
    Source {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// An archive cannot be written.
    #[error("cannot write the archive: {0}")]
    Export(io::Error),
    /// A registry did not give what was asked for.
    #[error("cannot pull `{name}`: {}{}", Printable(.why), shown(.hint))]
    Registry {
        /// The image.
        name: String,
        /// What the registry said or did.
        why: String,
        /// What to do.
        hint: Option<&'static str>,
    },
    /// This program was built without registries.
    #[error(
        "cannot pull `{name}`: this program was built without the feature `registry`; import the image from a file"
    )]
    NoRegistry {
        /// The image.
        name: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn shown(hint: &Option<&'static str>) -> String {
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}

impl ImageError {
    pub(crate) fn source(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Source { path: path.to_owned(), error }
    }

    pub(crate) fn digest_differs(what: impl Into<String>, found: &Digest) -> Self {
        Self::Corrupt { what: what.into(), why: format!("its content has the digest {found}") }
    }
}
