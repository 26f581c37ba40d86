//! `/files`, but for what moves their content.

use std::collections::BTreeMap;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::glob;
use super::paths::absolute_path;
use super::{FILE_NOT_FOUND, bad_request, failure, missing_query, runtime_error};
use crate::query::Query;
use crate::{clock, go, identity, reply};

/// What is known of a file.
#[derive(Debug, Serialize)]
pub(super) struct Info {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    modified_at: String,
    created_at: String,
    owner: String,
    group: String,
    mode: u32,
}

impl Info {
    pub(super) fn new(path: &Path, metadata: &Metadata) -> Self {
        let kind = metadata.file_type();
        let nanoseconds = |count: i64| u32::try_from(count).unwrap_or(0);
        Self {
            path: path.to_string_lossy().into_owned(),
            kind: if kind.is_symlink() {
                "symlink"
            } else if kind.is_dir() {
                "directory"
            } else if kind.is_file() {
                "file"
            } else {
                "other"
            },
            size: metadata.size(),
            modified_at: clock::rfc3339(metadata.mtime(), nanoseconds(metadata.mtime_nsec())),
            created_at: clock::rfc3339(metadata.ctime(), nanoseconds(metadata.ctime_nsec())),
            owner: identity::user_name(metadata.uid()),
            group: identity::group_name(metadata.gid()),
            mode: octal_looking(metadata.mode() & 0o777),
        }
    }
}

/// 0o644 as 644.
fn octal_looking(mode: u32) -> u32 {
    format!("{mode:o}").parse().unwrap_or(0)
}

/// Owner, group and mode; what is empty stays as it is.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Rights {
    #[serde(default, deserialize_with = "go::or_default")]
    owner: String,
    #[serde(default, deserialize_with = "go::or_default")]
    group: String,
    #[serde(default, deserialize_with = "go::or_default")]
    mode: u32,
}

impl Rights {
    pub(super) fn apply(&self, path: &Path) -> Result<(), String> {
        if self.mode != 0 {
            let mode = u32::from_str_radix(&self.mode.to_string(), 8)
                .map_err(|_| format!("strconv.ParseUint: parsing \"{}\": invalid syntax", self.mode))?;
            fs::set_permissions(path, Permissions::from_mode(mode))
                .map_err(|error| go::with_path("chmod", path, &error))?;
        }
        let mut owner = identity::user_number(&self.owner);
        let mut group = identity::group_number(&self.group);
        if owner.is_none() && group.is_none() {
            owner = Some(rustix::process::getuid().as_raw());
            group = Some(rustix::process::getgid().as_raw());
        }
        chown(path, owner, group).map_err(|error| {
            let reason = go::with_path("chown", path, &error);
            format!("failed to set owner/group for {}: {reason}", path.display())
        })
    }
}

/// What is said about a file that cannot be had.
pub(super) fn trouble(missing: bool, reason: &str) -> Response {
    if missing {
        failure(StatusCode::NOT_FOUND, FILE_NOT_FOUND, &format!("file not found. {reason}"))
    } else {
        runtime_error(&format!("error accessing file: {reason}"))
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

fn unparsed(error: &serde_json::Error) -> Response {
    bad_request(&format!("error parsing request, MAYBE invalid body format. {error}"))
}

/// `GET /files/info?path=…`
pub(super) async fn info(query: Query) -> Response {
    let mut found = BTreeMap::new();
    for asked in query.all("path") {
        let path = match absolute_path(asked) {
            Ok(path) => path,
            Err(reason) => return trouble(false, &format!("invalid path {asked}: {reason}")),
        };
        match path.symlink_metadata() {
            Ok(metadata) => found.insert(asked, Info::new(&path, &metadata)),
            Err(error) => {
                let what = if is_missing(&error) { "file not found:" } else { "error accessing file" };
                let reason = format!("{what} {asked}: {}", go::with_path("lstat", &path, &error));
                return trouble(is_missing(&error), &reason);
            }
        };
    }
    reply::json(StatusCode::OK, &found)
}

/// `DELETE /files?path=…`
pub(super) async fn remove(query: Query) -> Response {
    for asked in query.all("path") {
        let removed = absolute_path(asked).and_then(|path| match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Err(format!("path is a directory: {asked}")),
            Ok(_) => fs::remove_file(&path)
                .map_err(|error| format!("failed to remove file: {}", go::with_path("remove", &path, &error))),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(go::with_path("stat", &path, &error)),
        });
        if let Err(reason) = removed {
            return runtime_error(&format!("error removing file {asked}. {reason}"));
        }
    }
    reply::empty(StatusCode::OK)
}

/// `POST /files/permissions`
pub(super) async fn permissions(body: Bytes) -> Response {
    let asked: BTreeMap<String, Rights> = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return unparsed(&error),
    };
    for (path, rights) in asked {
        if let Err(reason) = absolute_path(&path).and_then(|path| rights.apply(&path)) {
            return runtime_error(&format!("error changing permissions for {path}. {reason}"));
        }
    }
    reply::empty(StatusCode::OK)
}

#[derive(Debug, Deserialize)]
struct Move {
    #[serde(default, deserialize_with = "go::or_default")]
    src: String,
    #[serde(default, deserialize_with = "go::or_default")]
    dest: String,
}

/// `POST /files/mv`
pub(super) async fn rename(body: Bytes) -> Response {
    let asked: Vec<Move> = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return unparsed(&error),
    };
    for Move { src, dest } in asked {
        let (from, to) = match (absolute_path(&src), absolute_path(&dest)) {
            (Ok(from), Ok(to)) => (from, to),
            (Err(reason), _) => return trouble(false, &format!("invalid source path: {reason}")),
            (_, Err(reason)) => return trouble(false, &format!("invalid destination path: {reason}")),
        };
        if let Err(error) = from.metadata()
            && is_missing(&error)
        {
            let reason = go::with_path("stat", &from, &error);
            return trouble(true, &format!("source path not found: {src}: {reason}"));
        }
        if let Err(error) = fs::create_dir_all(to.parent().unwrap_or(Path::new("/"))) {
            return trouble(false, &format!("failed to create destination directory: {}", go::of_error(&error)));
        }
        if to.metadata().is_ok() {
            return trouble(false, &format!("destination path already exists: {dest}"));
        }
        if let Err(error) = fs::rename(&from, &to) {
            let reason = format!("rename {} {}: {}", from.display(), to.display(), go::of_error(&error));
            return trouble(is_missing(&error), &format!("failed to rename file: {reason}"));
        }
    }
    reply::empty(StatusCode::OK)
}

/// `GET /files/search?path=&pattern=`
pub(super) async fn search(query: Query) -> Response {
    let Some(asked) = query.said("path") else { return missing_query("path") };
    let root = match absolute_path(asked) {
        Ok(root) => root,
        Err(reason) => return runtime_error(&format!("error converting path {asked} to absolute. {reason}")),
    };
    if let Err(error) = root.metadata() {
        return trouble(is_missing(&error), &go::with_path("stat", &root, &error));
    }
    let mut found = Vec::new();
    match walk(&root, query.said("pattern").unwrap_or("**"), &mut found) {
        Ok(()) => reply::json(StatusCode::OK, &found),
        Err(reason) => runtime_error(&format!("error searching files. {reason}")),
    }
}

/// Everything beneath `path` that is no directory and whose name matches, in the order of names; links are not followed.
fn walk(path: &Path, pattern: &str, found: &mut Vec<Info>) -> Result<(), String> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(format!("error accessing path {}: {}", path.display(), go::of_error(&error))),
    };
    if metadata.is_dir() {
        let entries = fs::read_dir(path)
            .map_err(|error| format!("error accessing path {}: {}", path.display(), go::of_error(&error)))?;
        let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        below.sort();
        return below.iter().try_for_each(|path| walk(path, pattern, found));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if glob::matches(pattern, &name).map_err(|reason| format!("invalid pattern {pattern}: {reason}"))? {
        found.push(Info::new(path, &metadata));
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Replace {
    #[serde(default, deserialize_with = "go::or_default")]
    old: String,
    #[serde(default, deserialize_with = "go::or_default")]
    new: String,
}

#[derive(Debug, Serialize)]
struct Replaced {
    #[serde(rename = "replacedCount")]
    count: usize,
}

/// `POST /files/replace`
pub(super) async fn replace(query: Query, body: Bytes) -> Response {
    let asked: BTreeMap<String, Replace> = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return unparsed(&error),
    };
    let mut replaced = BTreeMap::new();
    for (name, Replace { old, new }) in asked {
        let path = match absolute_path(&name) {
            Ok(path) => path,
            Err(reason) => return trouble(false, &reason),
        };
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => return trouble(is_missing(&error), &go::with_path("stat", &path, &error)),
        };
        if old.is_empty() {
            return bad_request("old content must not be empty");
        }
        if let Err(error) = fs::write(&path, text.replace(&old, &new)) {
            return trouble(false, &go::with_path("open", &path, &error));
        }
        replaced.insert(name, Replaced { count: text.matches(&old).count() });
    }
    if query.get("verbose") == Some("true") {
        reply::json(StatusCode::OK, &replaced)
    } else {
        reply::empty(StatusCode::OK)
    }
}
