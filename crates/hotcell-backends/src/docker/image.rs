//! The image of a container: found in the engine, or fetched if the policy lets it.

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::pin::Pin;

use bollard::Docker;
use bollard::models::{CreateImageInfo, ImageInspect};
use bollard::query_parameters::CreateImageOptions;
use futures_core::Stream;
use hotcell_core::backend::CreateError;
use hotcell_core::policy::{ContainerPolicy, PullPolicy};
use hotcell_core::text::Printable;

use super::probe::EngineFacts;
use super::{engine_error, store};
use crate::progress::{Progress, PullProgress};

/// The image of boxes whose policy names none.
pub const DEFAULT_IMAGE: &str = "hotcell/code:latest";

/// An image that wants more places to write to than this is not made for a box.
const MOST_VOLUMES: usize = 16;

/// Why there is no image to make a container of.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It is not in the engine, and must not be fetched.
    #[error("the engine has no image `{}`, and the policy does not let it be fetched", Printable(.name))]
    Missing {
        /// The image.
        name: String,
    },
    /// It could not be fetched.
    #[error("the image `{}` could not be fetched: {reason}", Printable(.name))]
    Pull {
        /// The image.
        name: String,
        /// What the engine said.
        reason: String,
    },
    /// It is in our own store, but could not be put into the engine.
    #[error("the image `{}` could not be loaded from Hotcell's store: {reason}", Printable(.name))]
    Load {
        /// The image.
        name: String,
        /// What the store or the engine said.
        reason: String,
    },
    /// It is another one than the digest says.
    #[error("the engine's image `{}` is another one than its digest says", Printable(.name))]
    WrongDigest {
        /// The image.
        name: String,
    },
    /// It is for another machine.
    #[error("the image `{}` is for {found}, and this engine runs {expected}", Printable(.name))]
    WrongArchitecture {
        /// The image.
        name: String,
        /// What it is for.
        found: String,
        /// What would run.
        expected: String,
    },
    /// It declares volumes that a box cannot have.
    #[error("the image `{}` declares volumes that a box cannot have: {reason}", Printable(.name))]
    Volumes {
        /// The image.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The engine did not answer as it should.
    #[error("the engine did not say what the image `{}` is: {reason}", Printable(.name))]
    Engine {
        /// The image.
        name: String,
        /// What it said.
        reason: String,
    },
}

impl ImageError {
    fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "load it (`docker load`, `hotcell image build`), allow it with `--pull missing`, or name another with --image"
            }
            Self::Pull { .. } => {
                "check the name, the network and the registry's log-in (`docker login`), or load the image from a file"
            }
            Self::Load { .. } => {
                "look at it with `hotcell image list`, or load it yourself (`hotcell image export`, `docker load`)"
            }
            Self::WrongDigest { .. } => "remove it from the engine and fetch it again",
            Self::WrongArchitecture { .. } => "fetch the variant for this machine, or name another image",
            Self::Volumes { .. } => "name another image",
            Self::Engine { .. } => "look at the engine's log",
        }
    }
}

impl From<ImageError> for CreateError {
    fn from(error: ImageError) -> Self {
        Self::Setup { step: "finding the image".into(), hint: error.hint().into(), reason: error.to_string() }
    }
}

/// What matters of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// Its digest in the engine.
    pub(super) id: String,
    pub(super) environment: BTreeMap<String, String>,
    /// Places that it expects to be able to write to.
    pub(super) volumes: Vec<PathBuf>,
}

/// The image that the policy asks for.
pub(super) async fn resolve(
    client: &Docker,
    engine: &EngineFacts,
    policy: &ContainerPolicy,
    progress: Option<&Progress>,
) -> Result<Image, ImageError> {
    let name = complete(policy.image.as_deref().unwrap_or(DEFAULT_IMAGE));
    if policy.pull == PullPolicy::Always {
        pull(client, &name, progress).await?;
    }
    if let Some(found) = inspect(client, &name).await? {
        return usable(&name, &found, engine);
    }
    let missing = || ImageError::Missing { name: name.clone() };
    if let Some(id) = store::load(client, &name, progress).await? {
        // The store has compared the digest that the policy names, if it names one; this is the image that it found.
        return usable(&id, &inspect(client, &id).await?.ok_or_else(missing)?, engine);
    }
    if policy.pull != PullPolicy::Missing {
        return Err(missing());
    }
    pull(client, &name, progress).await?;
    usable(&name, &inspect(client, &name).await?.ok_or_else(missing)?, engine)
}

/// The name with its tag: without one, engines fetch all that there are.
fn complete(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if name.starts_with("sha256:") || last.contains(':') || last.contains('@') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

async fn inspect(client: &Docker, name: &str) -> Result<Option<ImageInspect>, ImageError> {
    match client.inspect_image(name).await {
        Ok(found) => Ok(Some(found)),
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(error) => Err(ImageError::Engine { name: name.to_owned(), reason: engine_error(&error) }),
    }
}

async fn pull(client: &Docker, name: &str, progress: Option<&Progress>) -> Result<(), ImageError> {
    let failed = |reason: String| ImageError::Pull { name: name.to_owned(), reason };
    let options = CreateImageOptions { from_image: Some(name.to_owned()), ..CreateImageOptions::default() };
    let mut steps = Box::pin(client.create_image(Some(options), None, None));
    while let Some(step) = next(&mut steps).await {
        let step = step.map_err(|error| failed(engine_error(&error)))?;
        if let Some(error) = &step.error_detail {
            return Err(failed(error.message.clone().unwrap_or_else(|| "the engine does not say why".into())));
        }
        if let Some(progress) = progress {
            progress.tell(&progress_of(name, step));
        }
    }
    Ok(())
}

pub(super) async fn next<S: Stream>(stream: &mut Pin<Box<S>>) -> Option<S::Item> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
}

fn progress_of(name: &str, step: CreateImageInfo) -> PullProgress {
    let count = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let bytes = step.progress_detail.and_then(|detail| count(detail.current).zip(count(detail.total)));
    PullProgress { image: name.to_owned(), layer: step.id, status: step.status.unwrap_or_default(), bytes }
}

/// Whether the image can be used here, and is the one that was asked for.
fn usable(name: &str, found: &ImageInspect, engine: &EngineFacts) -> Result<Image, ImageError> {
    let id = found.id.clone().unwrap_or_default();
    // Podman leaves the algorithm out.
    let id = if id.starts_with("sha256:") { id } else { format!("sha256:{id}") };
    if id.len() != "sha256:".len() + 64 {
        return Err(ImageError::Engine { name: name.to_owned(), reason: "it has no digest".into() });
    }
    if let Some((_, digest)) = name.split_once('@') {
        let ends = |known: &String| known.rsplit('@').next() == Some(digest);
        if id != digest && !found.repo_digests.iter().flatten().any(ends) {
            return Err(ImageError::WrongDigest { name: name.to_owned() });
        }
    } else if name.starts_with("sha256:") && id != name {
        return Err(ImageError::WrongDigest { name: name.to_owned() });
    }
    let architecture = found.architecture.clone().unwrap_or_default();
    let os = found.os.clone().unwrap_or_default();
    if os != "linux" || architecture != engine.architecture {
        return Err(ImageError::WrongArchitecture {
            name: name.to_owned(),
            found: format!("{os}/{architecture}"),
            expected: format!("linux/{}", engine.architecture),
        });
    }
    let config = found.config.as_ref();
    let variables = config.and_then(|config| config.env.as_deref()).unwrap_or_default();
    let variables = variables.iter().filter_map(|variable| variable.split_once('='));
    let volumes = config.and_then(|config| config.volumes.as_deref()).unwrap_or_default();
    Ok(Image {
        id,
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        volumes: check_volumes(name, volumes)?,
    })
}

/// Volumes get a private place each, so that the engine makes none on disk.
fn check_volumes(name: &str, declared: &[String]) -> Result<Vec<PathBuf>, ImageError> {
    let refused = |reason: String| ImageError::Volumes { name: name.to_owned(), reason };
    if declared.len() > MOST_VOLUMES {
        return Err(refused(format!("there are {}, and {MOST_VOLUMES} is the most", declared.len())));
    }
    let mut volumes = Vec::new();
    for text in declared {
        let path = PathBuf::from(text);
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let own = ["/proc", "/sys", "/dev", "/.hotcell"].iter().any(|own| path.starts_with(own));
        if !path.is_absolute() || !plain || own || path.parent().is_none() {
            return Err(refused(format!("`{}` is no place for one", Printable(text))));
        }
        volumes.push(path.components().collect());
    }
    Ok(volumes)
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
