//! What is in files, to the sandbox.

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;

use super::super::version::Ability;
use super::Envd;
use crate::http::{Body, CallError, Method, Why};

const OPERATION: &str = "upload the file";

/// What `envd` says that it wrote.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "path")]
    _path: String,
}

impl Envd {
    /// Writes a file, and makes the directories above it. What was there is overwritten.
    pub async fn write(&self, path: &str, content: impl Into<Bytes>) -> Result<(), CallError> {
        let content = content.into();
        let length = content.len() as u64;
        self.upload(path, stream::once(async move { Ok::<_, std::io::Error>(content) }), Some(length)).await
    }

    /// Writes a file of what a stream brings, and makes the directories above it. Where the stream fails, so does this, and a
    /// part of the file may be there.
    pub async fn upload<S, E>(&self, path: &str, content: S, length: Option<u64>) -> Result<(), CallError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let call = self.files(OPERATION, Method::POST, path);
        let call = if self.version.can(Ability::RAW_UPLOAD) {
            call.body("application/octet-stream", Body::stream(content, length))
        } else {
            let boundary = self.server.unique(OPERATION)?;
            let (before, after) = around(&boundary);
            let length = length.and_then(|length| length.checked_add((before.len() + after.len()) as u64));
            let piece = |piece: Bytes| stream::once(async move { Ok(piece) });
            let form = piece(before).chain(content).chain(piece(after));
            call.body(&format!("multipart/form-data; boundary={boundary}"), Body::stream(form, length))
        };
        let written: Vec<Written> = call.deadline(self.transfer).send().await?.json().await?;
        match written.len() {
            1 => Ok(()),
            many => {
                let what = format!("it says that {many} files were written, and not one");
                Err(self.server.failed(OPERATION, Why::Garbled { what }))
            }
        }
    }
}

/// What is before and after the file in a form that has nothing else. The path is said elsewhere.
fn around(boundary: &str) -> (Bytes, Bytes) {
    let before = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\ncontent-type: application/octet-stream\r\n\r\n"
    );
    (before.into(), format!("\r\n--{boundary}--\r\n").into())
}
