//! What is in files, from the sandbox.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout_at};

use super::Envd;
use crate::http::{Call, CallError, Chunks, Method, Why};

/// How long may pass without a piece of a file.
const SILENCE: Duration = Duration::from_secs(60);

/// A file as it comes.
#[derive(Debug)]
pub struct Download {
    chunks: Chunks,
    by: Instant,
    length: Option<u64>,
}

impl Download {
    /// How long the server says that it is.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece; none at the end. An end before the announced length is an error. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let now = Instant::now();
        match timeout_at(self.by.min(now + SILENCE), self.chunks.next()).await {
            Ok(chunk) => chunk,
            Err(_) => Err(self.chunks.failed(Why::TooSlow { waited: now.elapsed() })),
        }
    }

    /// All of it, if it has no more than `most` bytes.
    pub async fn bytes(mut self, most: u64) -> Result<Bytes, CallError> {
        let too_large = |chunks: &Chunks| chunks.failed(Why::TooLarge { limit: most });
        if self.length.is_some_and(|length| length > most) {
            return Err(too_large(&self.chunks));
        }
        let mut all = BytesMut::new();
        while let Some(chunk) = self.next().await? {
            if (all.len() + chunk.len()) as u64 > most {
                return Err(too_large(&self.chunks));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }
}

impl Envd {
    /// A file's content. Fails with "not found" if there is no such file.
    pub async fn download(&self, path: &str) -> Result<Download, CallError> {
        let operation = "download the file";
        let call = self.files(operation, Method::GET, path).header("accept-encoding", "identity");
        let answer = call.deadline(self.deadline).send().await?;
        if answer.header("content-encoding").is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            let what = "the file is compressed, which was not asked for".to_owned();
            return Err(self.server.failed(operation, Why::Garbled { what }));
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        Ok(Download { chunks: answer.chunks(), by: Instant::now() + self.transfer, length })
    }

    pub(super) fn files(&self, operation: &'static str, method: Method, path: &str) -> Call {
        let call = self.server.call(operation, method, &["files"]).query("path", path);
        match self.user() {
            Some(user) => call.query("username", user),
            None => call,
        }
    }
}
