//! `filesystem.Filesystem`, without watching.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use axum::extract::{Path as InPath, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::connect::{Fault, answer, check_user, parse};
use super::entry::entry;
use super::{Envd, Shared, resolve};
use crate::go;

/// Any of its methods.
pub(super) async fn call(
    State(envd): Shared,
    InPath(method): InPath<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let done = || {
        check_user(&headers)?;
        let message = parse(&body)?;
        let path = |name: &str| at(&envd, &message, name);
        match method.as_str() {
            "Stat" => Ok(json!({ "entry": entry(&path("path")?)? })),
            "MakeDir" => make(&path("path")?),
            "Move" => rename(&path("source")?, &path("destination")?),
            "Remove" => remove(&path("path")?),
            "ListDir" => list(&path("path")?, message["depth"].as_u64().unwrap_or(1).max(1)),
            _ => Err(Fault::new("unimplemented", format!("filesystem.Filesystem.{method} is not implemented"))),
        }
    };
    answer(done())
}

fn at(envd: &Envd, message: &Value, name: &str) -> Result<PathBuf, Fault> {
    let path = message[name].as_str().unwrap_or_default();
    resolve(envd, path).map_err(|reason| Fault::new("invalid_argument", reason))
}

fn make(path: &Path) -> Result<Value, Fault> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(Fault::new("already_exists", format!("directory already exists: {}", path.display())))
        }
        Ok(_) => {
            let reason = format!("path already exists but it is not a directory: {}", path.display());
            Err(Fault::new("invalid_argument", reason))
        }
        Err(_) => {
            make_all(path)?;
            Ok(json!({ "entry": entry(path)? }))
        }
    }
}

/// Makes a directory and those above it.
pub(super) fn make_all(path: &Path) -> Result<(), Fault> {
    fs::create_dir_all(path).map_err(|error| {
        Fault::new("internal", format!("failed to create directory: {}", go::with_path("mkdir", path, &error)))
    })
}

fn rename(from: &Path, to: &Path) -> Result<Value, Fault> {
    make_all(to.parent().unwrap_or(Path::new("/")))?;
    fs::rename(from, to).map_err(|error| {
        let reason = format!("rename {} {}: {}", from.display(), to.display(), go::of_error(&error));
        if error.kind() == io::ErrorKind::NotFound {
            Fault::new("not_found", format!("source file not found: {reason}"))
        } else {
            Fault::new("internal", format!("error renaming: {reason}"))
        }
    })?;
    Ok(json!({ "entry": entry(to)? }))
}

fn remove(path: &Path) -> Result<Value, Fault> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| {
        let reason = go::with_path("unlinkat", path, &error);
        Fault::new("internal", format!("error removing file or directory: {reason}"))
    })?;
    Ok(json!({}))
}

fn list(path: &Path, depth: u64) -> Result<Value, Fault> {
    let resolved = fs::canonicalize(path).map_err(|error| {
        let reason = go::with_path("lstat", path, &error);
        if error.kind() == io::ErrorKind::NotFound {
            Fault::new("not_found", format!("path not found: {reason}"))
        } else {
            Fault::new("internal", format!("error resolving symlink: {reason}"))
        }
    })?;
    if !resolved.is_dir() {
        let reason = format!("path is not a directory: {}", resolved.display());
        return Err(Fault::new("invalid_argument", reason));
    }
    let mut entries = Vec::new();
    walk(path, &resolved, depth, &mut entries)?;
    Ok(if entries.is_empty() { json!({}) } else { json!({ "entries": entries }) })
}

/// Entries are found in `resolved`, and named as if they were in `asked`.
fn walk(asked: &Path, resolved: &Path, depth: u64, entries: &mut Vec<Value>) -> Result<(), Fault> {
    let Some(deeper) = depth.checked_sub(1) else { return Ok(()) };
    let read = fs::read_dir(resolved).map_err(|error| {
        let reason = go::with_path("open", resolved, &error);
        Fault::new("internal", format!("error reading directory {}: {reason}", resolved.display()))
    })?;
    let mut names: Vec<_> = read.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let (shown, place) = (asked.join(&name), resolved.join(&name));
        // What has gone in the meantime is not there.
        let Ok(mut found) = entry(&place) else { continue };
        found["path"] = shown.to_string_lossy().into();
        entries.push(found);
        if place.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            walk(&shown, &place, deeper, entries)?;
        }
    }
    Ok(())
}
