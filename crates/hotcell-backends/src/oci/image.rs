//! The root file system of a container, from our own store.

use std::collections::BTreeMap;
use std::path::Path;

use hotcell_core::backend::CreateError;
use hotcell_core::policy::{ContainerPolicy, PullPolicy};
use hotcell_image::{Image, ImageError, Rootfs, Store};

use crate::progress::{Progress, PullProgress};
use crate::registry::with_causes;

/// An image, unpacked. Nobody removes it while this lives.
#[derive(Debug)]
pub(super) struct Root {
    rootfs: Rootfs,
    /// Variables that the image brings along.
    pub(super) environment: BTreeMap<String, String>,
}

impl Root {
    pub(super) fn path(&self) -> &Path {
        self.rootfs.path()
    }

    /// The image that the policy names, fetched if it may be and unpacked if it is not; none where it names none.
    pub(super) async fn of(
        container: &ContainerPolicy,
        progress: Option<&Progress>,
    ) -> Result<Option<Self>, CreateError> {
        let Some(name) = container.image.clone() else { return Ok(None) };
        let store =
            blocking(|| Store::open(None).map_err(|error| failed("opening the store of images", &error))).await?;
        let image = match container.pull {
            PullPolicy::Always => pull(&store, &name, progress).await?,
            may_pull => {
                let (wanted, here) = (name.clone(), store.clone());
                match blocking(move || Ok(here.find(&wanted))).await? {
                    Ok(image) => image,
                    Err(ImageError::NotFound { .. }) if may_pull == PullPolicy::Missing => {
                        pull(&store, &name, progress).await?
                    }
                    Err(error) => return Err(failed("finding the image", &error)),
                }
            }
        };
        let environment = variables(&image);
        if let Some(progress) = progress {
            let status = "preparing its files".to_owned();
            progress.tell(&PullProgress { image: name, layer: None, status, bytes: None });
        }
        let unpack = move || store.rootfs(&image).map_err(|error| failed("unpacking the image", &error));
        Ok(Some(Self { rootfs: blocking(unpack).await?, environment }))
    }
}

async fn pull(store: &Store, name: &str, progress: Option<&Progress>) -> Result<Image, CreateError> {
    let mut hear = |step: hotcell_image::Progress| {
        if let Some(progress) = progress {
            progress.tell(&PullProgress {
                image: name.to_owned(),
                layer: Some(step.what),
                status: step.step.as_str().to_owned(),
                bytes: step.total.map(|total| (step.done, total)),
            });
        }
    };
    store.pull(name, &mut hear).await.map_err(|error| failed("fetching the image", &error))
}

/// Unpacking takes seconds.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CreateError> + Send + 'static,
) -> Result<T, CreateError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(CreateError::Setup {
            step: "preparing the image".into(),
            reason: error.to_string(),
            hint: "try again".into(),
        }),
    }
}

/// What an image says of its environment; whose home it is and who runs there is the box's business.
fn variables(image: &Image) -> BTreeMap<String, String> {
    const OURS: &[&str] = &["HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];
    let pairs = image.config().env.iter().filter_map(|pair| pair.split_once('='));
    let kept = pairs.filter(|(name, _)| !name.is_empty() && !OURS.contains(name));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn failed(step: &str, error: &(dyn std::error::Error + 'static)) -> CreateError {
    CreateError::Setup {
        step: step.to_owned(),
        reason: with_causes(error),
        hint: "`hotcell image list` shows what is there".to_owned(),
    }
}
