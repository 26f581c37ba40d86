//! Pulling images from registries.
//!
//! HTTPS, and plain HTTP only with this machine itself. Whatever a registry sends is bounded, checked against the digest by which it was
//! asked for, and named only when all of it is there.

mod client;
mod credentials;

use std::time::Duration;

pub use credentials::Credentials;

use client::Registry;

use crate::digest::Digest;
use crate::error::ImageError;
use crate::import::{add_documents, check_documents, choose_platform};
use crate::manifest::{self, Descriptor, Index, Manifest};
use crate::name::ImageName;
use crate::progress::{Progress, Step};
use crate::store::{Image, Kept, Store};

/// How to pull.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PullOptions {
    /// Ask the registry even if the image is in the store: a tag may stand for another image by now.
    pub refresh: bool,
    /// Who to be.
    pub credentials: Credentials,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long nothing may come, and how long a manifest may take in all.
    pub idle_timeout: Duration,
    /// How long everything may take.
    pub timeout: Duration,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            refresh: false,
            credentials: Credentials::default(),
            connect_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(3600),
        }
    }
}

impl Store {
    /// The image of that name: from the store if it is there, without asking anybody, and else from its registry.
    ///
    /// A name with a digest gives exactly that image or an error. Must be called on a Tokio runtime with time and I/O.
    pub async fn pull(&self, name: &str, progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Image, ImageError> {
        self.pull_with(name, &PullOptions::default(), progress).await
    }

    /// Like [`Store::pull`], with options.
    pub async fn pull_with(
        &self,
        name: &str,
        options: &PullOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Image, ImageError> {
        if !options.refresh {
            match self.find(name) {
                Err(ImageError::NotFound { .. }) => {}
                found => return found,
            }
        }
        let name: ImageName = name.parse().map_err(|error| ImageError::BadName { name: name.to_owned(), error })?;
        let pull = self.pull_now(&name, options, progress);
        match tokio::time::timeout(options.timeout, pull).await {
            Ok(pulled) => pulled,
            Err(_) => Err(ImageError::Registry {
                name: name.to_string(),
                why: format!("it took longer than {} seconds", options.timeout.as_secs()),
                hint: Some("try again: layers that are complete are kept"),
            }),
        }
    }

    async fn pull_now(
        &self,
        name: &ImageName,
        options: &PullOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Image, ImageError> {
        let registry = Registry::new(name, options)?;
        let store = self.clone();
        // Waits for other processes, which a task must not.
        let kept = tokio::task::spawn_blocking(move || store.begin()).await.map_err(|error| {
            ImageError::Registry { name: name.to_string(), why: format!("the runtime ended: {error}"), hint: None }
        })??;
        let mut bytes = registry.manifest(name.digest(), self.limits().metadata_bytes).await?;
        if is_index(&bytes) {
            let index: Index = manifest::parse(&format!("the index of {name}"), &bytes)?;
            let chosen = choose_platform(&index, &format!("image {name}"))?;
            bytes = registry.manifest(Some(&chosen.digest), self.limits().metadata_bytes).await?;
        }
        let manifest: Manifest = manifest::parse(&format!("the manifest of {name}"), &bytes)?;
        self.check_sizes(name, &manifest)?;
        let config = self.pull_blob(&registry, &kept, &manifest.config, "configuration", progress).await?;
        let config = self.read_blob(&config, "configuration")?;
        check_documents(self, name, &manifest, &config)?;
        for layer in &manifest.layers {
            self.pull_blob(&registry, &kept, layer, "layer", progress).await?;
        }
        add_documents(self, &kept, name, &bytes, &config)
    }

    fn check_sizes(&self, name: &ImageName, manifest: &Manifest) -> Result<(), ImageError> {
        if manifest.config.size > self.limits().metadata_bytes {
            return Err(crate::store::too_large(&format!("the configuration of {name}"), self.limits().metadata_bytes));
        }
        if manifest.size() > self.limits().unpacked_bytes {
            return Err(crate::store::too_large(&format!("image {name}"), self.limits().unpacked_bytes));
        }
        Ok(())
    }

    async fn pull_blob(
        &self,
        registry: &Registry<'_>,
        kept: &Kept,
        blob: &Descriptor,
        what: &str,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Digest, ImageError> {
        if self.has_blob(&blob.digest, blob.size) {
            return Ok(blob.digest);
        }
        let mut incoming = self.incoming(kept)?;
        let label = format!("{what} {}", blob.digest);
        let mut stream = registry.blob(&blob.digest).await?;
        while let Some(bytes) = registry.next(&mut stream, &label).await? {
            incoming.write(&bytes)?;
            if incoming.size() > blob.size {
                let why = format!("the registry sends more than the {} bytes that its manifest says", blob.size);
                return Err(ImageError::Corrupt { what: label, why });
            }
            progress(Progress {
                step: Step::Downloading,
                what: blob.digest.short(),
                done: incoming.size(),
                total: Some(blob.size),
            });
        }
        if incoming.size() < blob.size {
            let why = format!("the registry sent {} of {} bytes", incoming.size(), blob.size);
            return Err(ImageError::Corrupt { what: label, why });
        }
        incoming.commit(Some(&blob.digest), what)
    }
}

/// Whether a document lists images rather than layers. By content: the label came from the same registry.
fn is_index(bytes: &[u8]) -> bool {
    let document: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    document.is_some_and(|document| document.get("manifests").is_some() && document.get("layers").is_none())
}
