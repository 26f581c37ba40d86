//! `/files/upload` and `/files/download`

use std::fs;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::Multipart;
use axum::extract::multipart::{Field, MultipartRejection};
use axum::http::header::{CONTENT_LENGTH, RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use super::files::{Rights, trouble};
use super::paths::expand;
use super::{RUNTIME_ERROR, failure, missing_query, runtime_error};
use crate::query::Query;
use crate::{clock, go, reply};

const INVALID_FILE: &str = "INVALID_FILE";
const INVALID_METADATA: &str = "INVALID_FILE_METADATA";
const INVALID_CONTENT: &str = "INVALID_FILE_CONTENT";

/// Where a file goes.
#[derive(Debug, Deserialize)]
struct Target {
    #[serde(default, deserialize_with = "go::or_default")]
    path: String,
    #[serde(flatten)]
    rights: Rights,
}

fn refused(code: &str, message: &str) -> Response {
    failure(StatusCode::BAD_REQUEST, code, message)
}

/// `POST /files/upload`: pairs of a part `metadata` and a part `file`.
pub(super) async fn upload(form: Result<Multipart, MultipartRejection>) -> Response {
    let Ok(mut form) = form else { return refused(INVALID_FILE, "multipart form is empty") };
    let mut targets = Vec::new();
    let mut contents = Vec::new();
    loop {
        let field = match form.next_field().await {
            Ok(Some(field)) => field,
            Ok(None) => break,
            Err(_) => return refused(INVALID_FILE, "multipart form is empty"),
        };
        // What has no file name is a plain value to the real one, and not looked at.
        match (field.name(), field.file_name()) {
            (Some("metadata"), Some(_)) => match field.bytes().await {
                Ok(bytes) => targets.push(bytes),
                Err(_) => return refused(INVALID_FILE, "multipart form is empty"),
            },
            (Some("file"), Some(_)) => match spool(field).await {
                Ok(content) => contents.push(content),
                Err(error) => return runtime_error(&format!("error copying file. {error}")),
            },
            _ => {}
        }
    }
    if targets.is_empty() {
        return refused(INVALID_METADATA, "metadata file is missing");
    }
    if contents.is_empty() {
        return refused(INVALID_CONTENT, "file is missing");
    }
    if targets.len() != contents.len() {
        let counts = format!("{} vs {}", targets.len(), contents.len());
        return refused(INVALID_FILE, &format!("metadata and file count mismatch: {counts}"));
    }
    for (target, content) in targets.iter().zip(contents) {
        if let Err((status, code, message)) = put(target, content.path()) {
            return failure(status, code, &message);
        }
    }
    reply::empty(StatusCode::OK)
}

async fn spool(mut field: Field<'_>) -> io::Result<NamedTempFile> {
    let content = NamedTempFile::new()?;
    let mut file = File::from_std(content.reopen()?);
    while let Some(bytes) = field.chunk().await.map_err(io::Error::other)? {
        file.write_all(&bytes).await?;
    }
    file.flush().await?;
    Ok(content)
}

/// Status, code and message.
type Refusal = (StatusCode, &'static str, String);

fn no(code: &'static str, message: String) -> Refusal {
    (StatusCode::BAD_REQUEST, code, message)
}

fn broken(message: String) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, RUNTIME_ERROR, message)
}

fn put(target: &Bytes, content: &Path) -> Result<(), Refusal> {
    let target: Target = serde_json::from_slice(target)
        .map_err(|error| no(INVALID_METADATA, format!("invalid metadata format. {error}")))?;
    if target.path.is_empty() {
        return Err(no(INVALID_METADATA, "metadata path is empty".to_owned()));
    }
    let path = expand(&target.path)
        .map_err(|reason| broken(format!("error resolving target path {}. {reason}", target.path)))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(|error| {
        let reason = go::with_path("mkdir", directory, &error);
        broken(format!("error creating target directory {}. {reason}", directory.display()))
    })?;
    let is_new = !path.exists();
    copy(content, &path, is_new).map_err(|error| {
        let reason = go::with_path("open", &path, &error);
        broken(format!("error opening destination file {}. {reason}", path.display()))
    })?;
    target.rights.apply(&path).map_err(|reason| broken(format!("error chmoding file {}. {reason}", path.display())))
}

/// Copies the bytes. A new file can be executed, as far as the mask allows; an old one keeps its mode.
fn copy(from: &Path, to: &Path, is_new: bool) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(is_new).truncate(true).mode(0o777);
    let mut target = options.open(to)?;
    io::copy(&mut fs::File::open(from)?, &mut target)?;
    Ok(())
}

/// `GET /files/download?path=`, with `Range`, or with `offset` and `limit` for lines.
pub(super) async fn download(query: Query, headers: HeaderMap) -> Response {
    let Some(asked) = query.said("path") else { return missing_query("path") };
    let path = match expand(asked) {
        Ok(path) => path,
        Err(reason) => return runtime_error(&format!("error resolving file path: {asked}. {reason}")),
    };
    let opened = async {
        let file = File::open(&path).await?;
        let metadata = file.metadata().await?;
        Ok::<_, io::Error>((file, metadata))
    };
    let (mut file, metadata) = match opened.await {
        Ok(opened) => opened,
        Err(error) => {
            return trouble(error.kind() == io::ErrorKind::NotFound, &go::with_path("open", &path, &error));
        }
    };
    if metadata.is_dir() {
        return trouble(false, &format!("read {}: is a directory", path.display()));
    }
    if query.said("offset").is_some() || query.said("limit").is_some() {
        return lines(&path, &query).await;
    }
    let size = metadata.len();
    let (status, from, length) = match headers.get(RANGE).and_then(|range| range.to_str().ok()) {
        None => (StatusCode::OK, 0, size),
        Some(range) => match first_range(range, size) {
            Ok(Some((from, length))) => (StatusCode::PARTIAL_CONTENT, from, length),
            Ok(None) if size == 0 => (StatusCode::OK, 0, size),
            Ok(None) | Err(()) => return failure(StatusCode::RANGE_NOT_SATISFIABLE, "UNKNOWN", ""),
        },
    };
    if let Err(error) = file.seek(SeekFrom::Start(from)).await {
        return trouble(false, &go::with_path("seek", &path, &error));
    }
    let response = reply::with_type(status, "application/octet-stream", body(file, length));
    let length = length.to_string();
    let modified = clock::http_date(std::os::unix::fs::MetadataExt::mtime(&metadata));
    let disposition = disposition(&path);
    let mut more = vec![(CONTENT_LENGTH.as_str(), length.as_str()), ("content-disposition", disposition.as_str())];
    let range = format!("bytes {from}-{}/{size}", (from + length.parse::<u64>().unwrap_or(0)).saturating_sub(1));
    if status == StatusCode::PARTIAL_CONTENT {
        more.push(("content-range", &range));
    } else {
        more.extend([("accept-ranges", "bytes"), ("last-modified", modified.as_str())]);
    }
    reply::with_headers(response, &more)
}

/// The part of a file that is asked for by numbers of lines, the first being 1.
async fn lines(path: &PathBuf, query: &Query) -> Response {
    let number = |name: &str, default: usize| query.said(name).map_or(Some(default), |text| text.parse().ok());
    let (Some(offset @ 1..), Some(limit)) = (number("offset", 1), number("limit", usize::MAX)) else {
        return super::bad_request("offset and limit must be positive numbers");
    };
    match tokio::fs::read(path).await {
        Ok(bytes) => {
            let part: Vec<u8> =
                bytes.split_inclusive(|byte| *byte == b'\n').skip(offset - 1).take(limit).flatten().copied().collect();
            reply::with_type(StatusCode::OK, "application/octet-stream", part)
        }
        Err(error) => trouble(false, &go::with_path("read", path, &error)),
    }
}

fn body(file: File, length: u64) -> Body {
    let pieces = stream::unfold((file.take(length), vec![0; 64 * 1024]), |(mut file, mut buffer)| async {
        match file.read(&mut buffer).await {
            Ok(0) => None,
            Ok(count) => {
                let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
                Some((Ok(bytes), (file, buffer)))
            }
            Err(error) => Some((Err(error), (file, buffer))),
        }
    });
    Body::from_stream(pieces)
}

fn disposition(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.is_ascii() {
        return format!("attachment; filename=\"{name}\"");
    }
    let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~$&+:=@".contains(byte);
    let encoded: String = name
        .as_bytes()
        .iter()
        .map(|byte| if unreserved(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename=\"{encoded}\"; filename*=UTF-8''{encoded}")
}

/// The first part that is asked for, if any of them is there: where it begins and how long it is.
fn first_range(header: &str, size: u64) -> Result<Option<(u64, u64)>, ()> {
    let mut first = None;
    for range in header.strip_prefix("bytes=").ok_or(())?.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let (start, end) = range.split_once('-').ok_or(())?;
        let (start, end) = (start.trim(), end.trim());
        let (from, to) = if start.is_empty() {
            let last: u64 = end.parse().map_err(|_| ())?;
            (size.saturating_sub(last), size)
        } else {
            let from: u64 = start.parse().map_err(|_| ())?;
            let to = if end.is_empty() { size } else { end.parse::<u64>().map_err(|_| ())?.saturating_add(1) };
            if to <= from && !end.is_empty() {
                return Err(());
            }
            (from, to.min(size))
        };
        if from < size && first.is_none() {
            first = Some((from, to.saturating_sub(from)));
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(first_range("bytes=0-4", 10), Ok(Some((0, 5))));
        assert_eq!(first_range("bytes=-3", 10), Ok(Some((7, 3))));
        assert_eq!(first_range("bytes=5-", 10), Ok(Some((5, 5))));
        assert_eq!(first_range("bytes=8-99", 10), Ok(Some((8, 2))));
        assert_eq!(first_range("bytes=10-", 10), Ok(None));
        assert_eq!(first_range("bytes=4-2", 10), Err(()));
        assert_eq!(first_range("lines=1", 10), Err(()));
    }
}
