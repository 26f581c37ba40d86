//! Paths as written to paths as they really are.

use std::io;
use std::path::{Component, Path, PathBuf};

use hotcell_core::config::{Config, Sourced};

use super::SettingsError;
use super::file::is_absent;

/// What the paths of one layer are relative to.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) directory: &'a Path,
    /// Whether a relative path may lead out of the directory: on a command line it may.
    pub(super) may_leave: bool,
    pub(super) home: Option<&'a Path>,
}

impl Start<'_> {
    /// The layer with its rules at their real places. What is wrong by its text alone is left as it is: the layers'
    /// own check says so better.
    pub(super) fn real_paths(self, mut config: Config) -> Result<Config, SettingsError> {
        let files = &mut config.filesystem;
        for rule in files.read.iter_mut().chain(&mut files.write).chain(&mut files.overlay) {
            if let Some(meant) = self.meant(&rule.value) {
                rule.value = meant.canonicalize().map_err(|error| unusable(rule, &meant, &error))?;
            }
        }
        for rule in &mut files.deny {
            if let Some(meant) = self.meant(&rule.value) {
                rule.value = real_place(&meant).map_err(|error| unusable(rule, &meant, &error))?;
            }
        }
        if let Some(cwd) = &mut config.process.cwd
            && self.may_leave
            && let Some(meant) = self.meant(&cwd.value)
        {
            cwd.value = meant;
        }
        Ok(config)
    }

    /// The absolute path that a text stands for; none if it stands for none.
    pub(super) fn meant(self, written: &Path) -> Option<PathBuf> {
        let text = written.as_os_str().as_encoded_bytes();
        if text.is_empty() || text.contains(&0) {
            return None;
        }
        if written.is_absolute() {
            return Some(written.to_owned());
        }
        if let Ok(rest) = written.strip_prefix("~") {
            return self.home.map(|home| home.join(rest));
        }
        // `~name` is somebody else's home to a shell, and an error here.
        if text.starts_with(b"~") {
            return None;
        }
        if self.may_leave { Some(self.directory.join(written)) } else { self.beneath(written) }
    }

    /// The path beneath the directory, by text alone, as the layers read it.
    fn beneath(self, written: &Path) -> Option<PathBuf> {
        let mut names = Vec::new();
        for part in written.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::ParentDir => {
                    names.pop()?;
                }
                _ => {}
            }
        }
        Some(self.directory.join(names.iter().collect::<PathBuf>()))
    }
}

/// The real place of a path that need not exist: that of the part that does, and the rest as it is.
fn real_place(path: &Path) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    for existing in path.ancestors() {
        match existing.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |real, name| real.join(name))),
            Err(error) if is_absent(&error) => missing.extend(existing.components().next_back()),
            Err(error) => return Err(error),
        }
    }
    Ok(path.to_owned())
}

fn unusable(rule: &Sourced<PathBuf>, path: &Path, error: &io::Error) -> SettingsError {
    let reason = if is_absent(error) {
        "does not exist; make it first, or name another path".to_owned()
    } else {
        format!("cannot be used: {error}")
    };
    SettingsError::Path { at: rule.origin.clone().into(), path: path.to_owned(), reason }
}
