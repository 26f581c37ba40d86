//! `/directories`

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;

use super::files::{Info, Rights, trouble};
use super::paths::{absolute_path, expand};
use super::{bad_request, missing_query, runtime_error};
use crate::query::Query;
use crate::{go, reply};

/// `POST /directories`
pub(super) async fn make(body: Bytes) -> Response {
    let asked: BTreeMap<String, Rights> = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return bad_request(&format!("error parsing request, MAYBE invalid body format. {error}")),
    };
    for (path, rights) in asked {
        let made = absolute_path(&path).and_then(|path| {
            fs::create_dir_all(&path).map_err(|error| go::with_path("mkdir", &path, &error))?;
            rights.apply(&path)
        });
        if let Err(reason) = made {
            return trouble(false, &reason);
        }
    }
    reply::empty(StatusCode::OK)
}

/// `DELETE /directories?path=…`
pub(super) async fn remove(query: Query) -> Response {
    for asked in query.all("path") {
        let removed = expand(asked).and_then(|path| {
            let removed = match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            };
            removed.map_err(|error| go::with_path("unlinkat", &path, &error))
        });
        if let Err(reason) = removed {
            return runtime_error(&format!("error removing directory {asked}. {reason}"));
        }
    }
    reply::empty(StatusCode::OK)
}

/// `GET /directories/list?path=&depth=`
pub(super) async fn list(query: Query) -> Response {
    let Some(asked) = query.said("path") else { return missing_query("path") };
    let depth = match query.said("depth").map(|depth| (depth, depth.parse::<u32>())) {
        None => 1,
        Some((_, Ok(depth))) => depth,
        Some((text, Err(_))) => return bad_request(&format!("invalid query parameter 'depth': {text}")),
    };
    let root = match absolute_path(asked) {
        Ok(root) => root,
        Err(reason) => return runtime_error(&format!("error converting path {asked} to absolute. {reason}")),
    };
    match root.symlink_metadata() {
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            return trouble(missing, &go::with_path("lstat", &root, &error));
        }
        Ok(metadata) if metadata.is_symlink() => {
            let reason = format!("path is a symbolic link, refusing to traverse: {}", root.display());
            return bad_request(&reason);
        }
        Ok(metadata) if !metadata.is_dir() => {
            return bad_request(&format!("path is not a directory: {}", root.display()));
        }
        Ok(_) => {}
    }
    let mut found = Vec::new();
    match walk(&root, depth, &mut found) {
        Ok(()) => reply::json(StatusCode::OK, &found),
        Err(reason) => runtime_error(&format!("error listing directory {}. {reason}", root.display())),
    }
}

fn walk(directory: &Path, depth: u32, found: &mut Vec<Info>) -> Result<(), String> {
    let Some(deeper) = depth.checked_sub(1) else { return Ok(()) };
    let entries = fs::read_dir(directory).map_err(|error| go::with_path("open", directory, &error))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort();
    for path in below {
        let metadata = path.symlink_metadata().map_err(|error| go::with_path("lstat", &path, &error))?;
        found.push(Info::new(&path, &metadata));
        if metadata.is_dir() {
            walk(&path, deeper, found)?;
        }
    }
    Ok(())
}
