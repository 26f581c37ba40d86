//! Files into a sandbox and out of it.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use super::super::super::http::{Body, CallError, Chunks, Why};
use super::Execd;
use super::files::Permissions;

/// How long an upload may take unless it says otherwise.
const UPLOADING: Duration = Duration::from_secs(600);

/// How long a download may take, and how long may pass without a piece of it.
const DOWNLOADING: Duration = Duration::from_secs(60 * 60);
const SILENCE: Duration = Duration::from_secs(60);

/// A file to be put into a sandbox. Directories above it are made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Upload {
    /// Where it comes to be. What is there is overwritten.
    pub path: String,
    /// Whose it becomes and what may be done with it.
    pub permissions: Permissions,
    /// How long it may take.
    pub deadline: Duration,
}

impl Upload {
    /// A file at this path, `0o644`.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), permissions: Permissions::mode(0o644), deadline: UPLOADING }
    }
}

impl Execd {
    /// Puts bytes into a file.
    pub async fn write(&self, upload: &Upload, content: impl Into<Bytes>) -> Result<(), CallError> {
        let content = content.into();
        let length = Some(content.len() as u64);
        self.upload(upload, stream::iter([Ok::<_, Infallible>(content)]), length).await
    }

    /// Puts what a stream brings into a file. Saying how long it is spares the server from guessing; a stream that is
    /// shorter or longer than said is an error, and one that fails is too. Execd writes the file only when all of it has come.
    pub async fn upload<S, E>(&self, upload: &Upload, content: S, length: Option<u64>) -> Result<(), CallError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
    {
        let operation = "put a file into a sandbox";
        let mut metadata = self.permissions(operation, &upload.permissions)?;
        metadata.path = Some(self.named(operation, &upload.path)?);
        let metadata =
            serde_json::to_string(&metadata).map_err(|error| self.impossible(operation, error.to_string()))?;
        // Long and random enough that no content has it.
        let boundary = format!("hotcell-{}", self.server.unique(operation)?);
        let head = Bytes::from(format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n\
             content-type: application/json\r\n\r\n{metadata}\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
             content-type: application/octet-stream\r\n\r\n"
        ));
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let length = length.map(|length| head.len() as u64 + length + tail.len() as u64);
        let body = stream::iter([Ok(head)]).chain(content).chain(stream::iter([Ok(tail)]));
        let call = self.server.post(operation, &["files", "upload"]).deadline(upload.deadline);
        let call = call.body(&format!("multipart/form-data; boundary={boundary}"), Body::stream(body, length));
        call.send().await?.bytes().await.map(drop)
    }

    /// A file's content, if it has no more than `most` bytes.
    pub async fn read(&self, path: &str, most: u64) -> Result<Bytes, CallError> {
        let mut download = self.download(path).await?;
        let mut all = BytesMut::new();
        while let Some(piece) = download.next().await? {
            if (all.len() + piece.len()) as u64 > most {
                return Err(download.failed(Why::TooLarge { limit: most }));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// A file's content as it comes.
    pub async fn download(&self, path: &str) -> Result<Download, CallError> {
        let operation = "get a file out of a sandbox";
        let call = self.server.get(operation, &["files", "download"]).query("path", self.named(operation, path)?);
        let answer = call.send().await?;
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        Ok(self.arriving(Some(answer.chunks()), length, None))
    }

    /// A part of a file's content as it comes: from `offset`, at most `length` bytes. Past the end there is nothing.
    pub async fn download_part(&self, path: &str, offset: u64, length: Option<u64>) -> Result<Download, CallError> {
        let operation = "get a part of a file out of a sandbox";
        let last = match length {
            Some(0) => return Ok(self.arriving(None, Some(0), None)),
            Some(length) => (offset.saturating_add(length) - 1).to_string(),
            None => String::new(),
        };
        let call = self.server.get(operation, &["files", "download"]).query("path", self.named(operation, path)?);
        let answer = match call.header("range", &format!("bytes={offset}-{last}")).send().await {
            Ok(answer) => answer,
            Err(error) if error.status() == Some(416) => {
                return Ok(self.arriving(None, Some(0), None));
            }
            Err(error) => return Err(error),
        };
        if answer.status() == 200 && answer.header("content-length") == Some("0") {
            // Of an empty file there is no part: it is sent whole.
            return Ok(self.arriving(None, Some(0), None));
        }
        let range = answer.header("content-range").unwrap_or_default();
        if answer.status() != 206 || !range.starts_with(&format!("bytes {offset}-")) {
            return Err(self.garbled(operation, "it sends something else than the part that was asked for"));
        }
        let announced = answer.header("content-length").and_then(|length| length.parse().ok());
        Ok(self.arriving(Some(answer.chunks()), announced, length))
    }

    fn arriving(&self, chunks: Option<Chunks>, length: Option<u64>, left: Option<u64>) -> Download {
        Download { execd: self.clone(), chunks, length, left, by: Instant::now() + DOWNLOADING }
    }
}

/// A file on its way out of a sandbox.
#[derive(Debug)]
pub struct Download {
    execd: Execd,
    chunks: Option<Chunks>,
    length: Option<u64>,
    /// How much may still come, where that was asked for.
    left: Option<u64>,
    /// When all of it must have come.
    by: Instant,
}

impl Download {
    /// How many bytes will come, if the server says so.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece; none at the end. An end before the announced length is an error, and so are a minute of silence and more
    /// than an hour in all. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(chunks) = &mut self.chunks else { return Ok(None) };
        let now = Instant::now();
        if now >= self.by {
            return Err(chunks.failed(Why::TooSlow { waited: DOWNLOADING }));
        }
        let piece = match timeout_at(self.by.min(now + SILENCE), chunks.next()).await {
            Ok(piece) => piece?,
            Err(_) => return Err(chunks.failed(Why::TooSlow { waited: now.elapsed() })),
        };
        if let (Some(left), Some(piece)) = (&mut self.left, &piece) {
            *left = left
                .checked_sub(piece.len() as u64)
                .ok_or_else(|| chunks.failed(Why::Garbled { what: "more comes than was asked for".to_owned() }))?;
        }
        Ok(piece)
    }

    fn failed(&self, why: Why) -> CallError {
        match &self.chunks {
            Some(chunks) => chunks.failed(why),
            None => self.execd.server.failed("get a file out of a sandbox", why),
        }
    }
}
