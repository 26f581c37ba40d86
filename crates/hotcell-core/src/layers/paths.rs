//! Paths as written to paths as meant, by text alone.

use std::path::{Component, Path, PathBuf};

use super::{Context, PolicyError};
use crate::config::{Layer, Sourced};
use crate::policy::normalize;

/// The absolute path that a written one means: absolute, `~/…`, or relative to the root without leaving it.
pub(super) fn absolute(
    written: &Sourced<PathBuf>,
    key: &'static str,
    context: &Context,
) -> Result<PathBuf, PolicyError> {
    let path = &written.value;
    let bad = |reason: &str| bad_path(written, key, reason);
    check_text(path).map_err(bad)?;
    if path.is_absolute() {
        return normalize(path).ok_or_else(|| bad("it is not absolute"));
    }
    if let Some(rest) = beneath_home(path) {
        let home = context.home.as_deref().and_then(normalize);
        let home = home.ok_or_else(|| bad("no home directory is known; write the whole path"))?;
        return normalize(&home.join(rest)).ok_or_else(|| bad("it is not absolute"));
    }
    if path.as_os_str().as_encoded_bytes().starts_with(b"~") {
        return Err(bad("only your own home can be written as `~/…`; for a file of that name write `./~…`"));
    }
    let root =
        normalize(&context.root).ok_or_else(|| bad("it is relative, and no root is known; write the whole path"))?;
    if leaves_its_start(path) {
        return Err(outside(written, key, &root, "write an absolute path in your own file or as a flag"));
    }
    normalize(&root.join(path)).ok_or_else(|| bad("it is not absolute"))
}

/// Like [`absolute`]; a project file may not speak about what is outside of the project.
pub(super) fn within_project(
    written: &Sourced<PathBuf>,
    key: &'static str,
    context: &Context,
) -> Result<PathBuf, PolicyError> {
    let path = absolute(written, key, context)?;
    let root = normalize(&context.root).unwrap_or_default();
    if written.origin.layer == Layer::Project && !path.starts_with(&root) {
        return Err(outside(written, key, &root, "a project file can only name what is beneath it, except to deny it"));
    }
    Ok(path)
}

/// A protected name: relative, made of plain names only.
pub(super) fn relative_name(written: &Sourced<PathBuf>, key: &'static str) -> Result<PathBuf, PolicyError> {
    let bad = |reason: &str| bad_path(written, key, reason);
    check_text(&written.value).map_err(bad)?;
    let mut name = PathBuf::new();
    for part in written.value.components() {
        match part {
            Component::Normal(part) => name.push(part),
            Component::CurDir => {}
            _ => {
                return Err(bad(
                    "a protected name is relative to every writable tree and has no `..`; use `read` or `deny` for one place",
                ));
            }
        }
    }
    if name.as_os_str().is_empty() {
        return Err(bad("it names the whole tree; use `read` instead"));
    }
    Ok(name)
}

fn check_text(path: &Path) -> Result<(), &'static str> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        Err("it is empty; `.` is the root of the policy")
    } else if bytes.contains(&0) {
        Err("it contains a NUL byte")
    } else {
        Ok(())
    }
}

fn beneath_home(path: &Path) -> Option<&Path> {
    path.strip_prefix("~").ok()
}

/// Whether `..` leads above the start at any point, even if the path comes back later.
fn leaves_its_start(path: &Path) -> bool {
    let mut depth = 0_i64;
    path.components().any(|part| {
        match part {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
        depth < 0
    })
}

fn bad_path(written: &Sourced<PathBuf>, key: &'static str, reason: &str) -> PolicyError {
    PolicyError::BadPath {
        at: written.origin.clone().into(),
        key,
        path: written.value.clone(),
        reason: reason.to_owned(),
    }
}

fn outside(written: &Sourced<PathBuf>, key: &'static str, root: &Path, instead: &'static str) -> PolicyError {
    PolicyError::PathOutsideRoot {
        at: written.origin.clone().into(),
        key,
        path: written.value.clone(),
        root: root.to_owned(),
        instead,
    }
}
