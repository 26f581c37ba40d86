//! Paths in requests: `~` and variables are allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf, absolute};

use crate::go;

/// Expands `$NAME`, `${NAME}` and a leading `~`.
pub(super) fn expand(path: &str) -> Result<PathBuf, String> {
    expand_with(path, &BTreeMap::new())
}

/// The same with more variables.
pub(super) fn expand_with(path: &str, more: &BTreeMap<String, String>) -> Result<PathBuf, String> {
    let lookup = |name: &str| more.get(name).cloned().or_else(|| std::env::var(name).ok());
    let mut missing = Vec::new();
    let mut expanded = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let (name, behind) = variable(after);
        rest = behind;
        match lookup(name) {
            Some(value) => expanded.push_str(&value),
            None if name.is_empty() => expanded.push('$'),
            None => missing.push(name),
        }
    }
    expanded.push_str(rest);
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        return Err(format!("path references undefined environment variables: {}", missing.join(",")));
    }
    if expanded == "~" || expanded.starts_with("~/") {
        let home = std::env::var("HOME").map_err(|_| "$HOME is not defined".to_owned())?;
        return Ok(Path::new(&home).join(expanded.trim_start_matches('~').trim_start_matches('/')));
    }
    Ok(expanded.into())
}

/// The name after a `$`, and what follows it.
fn variable(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, rest);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// The same as an absolute path.
pub(super) fn absolute_path(path: &str) -> Result<PathBuf, String> {
    absolute(expand(path)?).map_err(|error| go::of_error(&error))
}

/// Why `path` is no directory to work in.
pub(super) fn check_directory(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    let expanded = expand(path).map_err(|error| format!("cannot resolve working directory {path:?}: {error}"))?;
    match expanded.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("working directory path is not a directory: {path}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("working directory does not exist: {path}: {}", go::with_path("stat", &expanded, &error)))
        }
        Err(error) => {
            Err(format!("cannot access working directory {path:?}: {}", go::with_path("stat", &expanded, &error)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded() {
        let more = BTreeMap::from([("A".to_owned(), "one".to_owned())]);
        assert_eq!(expand_with("/x/$A/${A}y", &more).unwrap(), Path::new("/x/one/oney"));
        assert!(expand_with("/x/$NO_SUCH_NAME_HERE", &more).is_err());
        assert_eq!(expand_with("/plain", &more).unwrap(), Path::new("/plain"));
    }
}
