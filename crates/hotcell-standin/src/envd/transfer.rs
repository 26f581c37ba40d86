//! `/files`: content of files up and down, with a token or a signature.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::filesystem::make_all;
use super::{Envd, Shared, fault, is_known_user, resolve};
use crate::query::Query;
use crate::{clock, go, reply};

type Refusal = (StatusCode, String);

fn refused(status: StatusCode, reason: impl Into<String>) -> Refusal {
    (status, reason.into())
}

fn broken(what: &str, error: &io::Error) -> Refusal {
    refused(StatusCode::INTERNAL_SERVER_ERROR, format!("{what}: {}", go::of_error(error)))
}

/// Is the caller allowed to, by the token or by a signature of exactly this?
fn authorised(envd: &Envd, headers: &HeaderMap, query: &Query, operation: &str) -> Result<(), Refusal> {
    let refused = |reason: &str| refused(StatusCode::UNAUTHORIZED, reason);
    let Some(token) = &envd.orders.token else { return Ok(()) };
    if let Some(given) = headers.get("x-access-token") {
        let right = given.as_bytes() == token.as_bytes();
        return if right { Ok(()) } else { Err(refused("access token present in header but does not match")) };
    }
    let signature = query.get("signature").ok_or_else(|| refused("missing signature query parameter"))?;
    let path = query.get("path").unwrap_or_default();
    let user = query.get("username").unwrap_or_default();
    let expiration = query.get("signature_expiration");
    let mut signed = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiration) = expiration {
        signed = format!("{signed}:{expiration}");
    }
    let expected = format!("v1_{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(signed.as_bytes())));
    if signature != expected {
        return Err(refused("invalid signature"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match expiration.map(str::parse::<u64>) {
        Some(Ok(until)) if until < now => Err(refused("signature is already expired")),
        Some(Err(_)) => Err(refused("invalid signature")),
        _ => Ok(()),
    }
}

fn known_user(query: &Query) -> Result<(), Refusal> {
    match query.said("username") {
        Some(name) if !is_known_user(name) => {
            let reason = format!("error looking up user '{name}': user: unknown user {name}");
            Err(refused(StatusCode::UNAUTHORIZED, reason))
        }
        _ => Ok(()),
    }
}

fn answered(result: Result<Response, Refusal>) -> Response {
    result.unwrap_or_else(|(status, reason)| fault(status, &reason))
}

/// `GET /files?path=`
pub(super) async fn download(State(envd): Shared, query: Query, headers: HeaderMap) -> Response {
    let done = || {
        authorised(&envd, &headers, &query, "read")?;
        known_user(&query)?;
        let path = resolve(&envd, query.get("path").unwrap_or_default())
            .map_err(|reason| refused(StatusCode::BAD_REQUEST, reason))?;
        let metadata = path.metadata().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                refused(StatusCode::NOT_FOUND, format!("path '{}' does not exist", path.display()))
            }
            _ => broken(&format!("error checking if path exists '{}'", path.display()), &error),
        })?;
        if metadata.is_dir() {
            return Err(refused(StatusCode::BAD_REQUEST, format!("path '{}' is a directory", path.display())));
        }
        let bytes =
            fs::read(&path).map_err(|error| broken(&format!("error opening file '{}'", path.display()), &error))?;
        let modified = clock::http_date(std::os::unix::fs::MetadataExt::mtime(&metadata));
        Ok(send(&path, bytes, &modified, &headers))
    };
    answered(done())
}

fn send(path: &Path, bytes: Vec<u8>, modified: &str, headers: &HeaderMap) -> Response {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let kind =
        if std::str::from_utf8(&bytes).is_ok() { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    let disposition = format!("inline; filename={name}");
    let mut more = vec![("vary", "Accept-Encoding"), ("content-disposition", disposition.as_str())];
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(|range| part(range, bytes.len()));
    if let Some((from, to)) = range {
        let shown = format!("bytes {from}-{}/{}", to.saturating_sub(1), bytes.len());
        more.extend([("accept-ranges", "bytes"), ("content-range", shown.as_str())]);
        let part = bytes.get(from..to).unwrap_or_default().to_vec();
        return reply::with_headers(reply::with_type(StatusCode::PARTIAL_CONTENT, kind, part), &more);
    }
    let accepts = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut packed = Vec::new();
    if accepts.split(',').any(|coding| coding.trim() == "gzip")
        && GzEncoder::new(bytes.as_slice(), Compression::fast()).read_to_end(&mut packed).is_ok()
    {
        more.push((CONTENT_ENCODING.as_str(), "gzip"));
        return reply::with_headers(reply::with_type(StatusCode::OK, "application/octet-stream", packed), &more);
    }
    more.extend([("accept-ranges", "bytes"), ("last-modified", modified)]);
    reply::with_headers(reply::with_type(StatusCode::OK, kind, bytes), &more)
}

/// From where to where, if a single part is asked for that is there.
fn part(range: &str, size: usize) -> Option<(usize, usize)> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let from: usize = start.parse().ok()?;
    let to = if end.is_empty() { size } else { end.parse::<usize>().ok()?.checked_add(1)?.min(size) };
    (from < to).then_some((from, to))
}

/// `POST /files?path=`, as a form with several files, or as plain bytes.
pub(super) async fn upload(State(envd): Shared, query: Query, request: Request) -> Response {
    let done = async {
        authorised(&envd, request.headers(), &query, "write")?;
        known_user(&query)?;
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let packed = request.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
        let written = if kind.starts_with("application/octet-stream") {
            let path = query.get("path").ok_or_else(|| {
                refused(StatusCode::BAD_REQUEST, "path query parameter is required for raw body upload")
            })?;
            let path = resolve(&envd, path)
                .map_err(|reason| refused(StatusCode::BAD_REQUEST, format!("error resolving path: {reason}")))?;
            write(&path, request.into_body(), packed).await?;
            vec![shown(&path)]
        } else if kind.starts_with("multipart/") {
            several(&envd, &query, request).await?
        } else {
            let reason =
                format!("unsupported content type: {kind}, expected multipart/form-data or application/octet-stream");
            return Err(refused(StatusCode::BAD_REQUEST, reason));
        };
        let body = go::json(&written);
        Ok(reply::with_type(StatusCode::OK, "text/plain; charset=utf-8", body))
    };
    answered(done.await)
}

fn shown(path: &Path) -> Value {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    json!({ "name": name, "path": path.to_string_lossy(), "type": "file" })
}

async fn several(envd: &Envd, query: &Query, request: Request) -> Result<Vec<Value>, Refusal> {
    let unread = |error: &dyn std::fmt::Display| {
        refused(StatusCode::INTERNAL_SERVER_ERROR, format!("error parsing multipart form: {error}"))
    };
    let mut form = Multipart::from_request(request, &()).await.map_err(|error| unread(&error))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| unread(&error))? {
        if field.name() != Some("file") {
            continue;
        }
        let name = query.get("path").or(field.file_name()).unwrap_or_default().to_owned();
        let path = resolve(envd, &name)
            .map_err(|reason| refused(StatusCode::BAD_REQUEST, format!("error resolving path: {reason}")))?;
        if paths.contains(&path) {
            let reason = format!(
                "you cannot upload multiple files to the same path '{}' in one upload request, only the first \
                 specified file was uploaded",
                path.display()
            );
            return Err(refused(StatusCode::BAD_REQUEST, reason));
        }
        let bytes = field.bytes().await.map_err(|error| unread(&error))?;
        write(&path, Body::from(bytes), false).await?;
        paths.push(path);
    }
    Ok(paths.iter().map(|path| shown(path)).collect())
}

async fn write(path: &Path, body: Body, packed: bool) -> Result<(), Refusal> {
    make_all(path.parent().unwrap_or(Path::new("/"))).map_err(|fault| {
        refused(StatusCode::INTERNAL_SERVER_ERROR, format!("error ensuring directories: {}", fault.message))
    })?;
    if path.is_dir() {
        return Err(refused(StatusCode::BAD_REQUEST, format!("path is a directory: {}", path.display())));
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull => refused(StatusCode::INSUFFICIENT_STORAGE, "not enough disk space available"),
        _ => broken("error writing file", &error),
    };
    let mut file = File::create(path).await.map_err(|error| broken("error opening file", &error))?;
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|_| refused(StatusCode::INTERNAL_SERVER_ERROR, "error writing file: unexpected EOF"))?;
        if packed {
            whole.extend_from_slice(&piece);
        } else {
            file.write_all(&piece).await.map_err(failed)?;
        }
    }
    if packed {
        let mut plain = Vec::new();
        GzDecoder::new(whole.as_slice())
            .read_to_end(&mut plain)
            .map_err(|_| refused(StatusCode::BAD_REQUEST, "error decompressing request body: gzip: invalid header"))?;
        file.write_all(&plain).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}
