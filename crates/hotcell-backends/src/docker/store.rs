//! Images of our own store, for an engine that does not have them.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bollard::Docker;
use bollard::query_parameters::ImportImageOptions;
use bytes::Bytes;
use futures_core::Stream;
use hotcell_image::{ExportFormat, Store};
use tokio::sync::mpsc;

use super::engine_error;
use super::image::{ImageError, next};
use crate::progress::{Progress, PullProgress};
use crate::registry::with_causes;

/// How much is sent at once, and how much of it may wait.
const CHUNK: usize = 1 << 18;
const CHUNKS: usize = 4;

/// Loads an image into the engine if our store has it, and says what the engine calls it then: by the digest of its
/// configuration, which is also what was checked when it was read.
pub(super) async fn load(
    client: &Docker,
    name: &str,
    progress: Option<&Progress>,
) -> Result<Option<String>, ImageError> {
    let failed = |reason: String| ImageError::Load { name: name.to_owned(), reason };
    let wanted = name.to_owned();
    let found = tokio::task::spawn_blocking(move || find(&wanted)).await.map_err(|error| failed(error.to_string()))?;
    let Some((store, image)) = found.map_err(failed)? else { return Ok(None) };
    if let Some(progress) = progress {
        let status = "Loading from Hotcell's store".to_owned();
        progress.tell(&PullProgress { image: name.to_owned(), layer: None, status, bytes: None });
    }
    let id = image.config_digest().to_string();
    let (sender, receiver) = mpsc::channel(CHUNKS);
    let export = tokio::task::spawn_blocking(move || {
        let mut writer = Chunks { sender: sender.clone(), pending: Vec::with_capacity(CHUNK) };
        let exported = store.export(&image, ExportFormat::Docker, &mut writer).map_err(|error| with_causes(&error));
        if let Err(reason) = &exported {
            // An archive that ends early must not be taken for a whole one.
            let _ = sender.blocking_send(Err(io::Error::other(reason.clone())));
        }
        exported
    });
    let mut steps = Box::pin(client.import_image_stream(ImportImageOptions::default(), Archive(receiver), None));
    while let Some(step) = next(&mut steps).await {
        step.map_err(|error| failed(engine_error(&error)))?;
    }
    export.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    Ok(Some(id))
}

/// The image in the store; none if there is no such image, or no store.
fn find(name: &str) -> Result<Option<(Store, hotcell_image::Image)>, String> {
    let store = match Store::open(None) {
        Ok(store) => store,
        Err(hotcell_image::StoreError::NoPlace) => return Ok(None),
        Err(error) => return Err(with_causes(&error)),
    };
    match store.find(name) {
        Ok(image) => Ok(Some((store, image))),
        Err(hotcell_image::ImageError::NotFound { .. } | hotcell_image::ImageError::BadName { .. }) => Ok(None),
        Err(error) => Err(with_causes(&error)),
    }
}

/// Collects what is written, and hands it over in large pieces.
struct Chunks {
    sender: mpsc::Sender<io::Result<Bytes>>,
    pending: Vec<u8>,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= CHUNK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The archive, as the engine reads it.
struct Archive(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Archive {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
