//! Without the feature `registry`: only what is in the store can be had.

use crate::error::ImageError;
use crate::progress::Progress;
use crate::store::{Image, Store};

/// How to pull.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PullOptions {
    /// Ask the registry even if the image is in the store.
    pub refresh: bool,
}

impl Store {
    /// The image of that name, if it is in the store: this program was built without registries.
    #[expect(clippy::unused_async, reason = "the same signature as with registries")]
    pub async fn pull(&self, name: &str, _progress: &mut (dyn FnMut(Progress) + Send)) -> Result<Image, ImageError> {
        match self.find(name) {
            Err(ImageError::NotFound { name, .. }) => Err(ImageError::NoRegistry { name }),
            found => found,
        }
    }

    /// Like [`Store::pull`].
    pub async fn pull_with(
        &self,
        name: &str,
        options: &PullOptions,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Image, ImageError> {
        if options.refresh {
            return Err(ImageError::NoRegistry { name: name.to_owned() });
        }
        self.pull(name, progress).await
    }
}
