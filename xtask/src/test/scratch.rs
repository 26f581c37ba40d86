//! A directory that exists while the tests run.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};

use super::is_root;

/// A directory of our own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the directory: on disk and open to every user's eyes where we are root (a copy of the test binaries
    /// for an ordinary user goes there), else in the user's own temporary directory.
    pub(crate) fn create() -> Result<Self> {
        let base = if is_root() { PathBuf::from("/var/tmp") } else { env::temp_dir() };
        let path = base.join(format!("hotcell-xtask-{}", process::id()));
        DirBuilder::new()
            .mode(0o755)
            .create(&path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("xtask: cannot remove {}: {error}", self.path.display());
        }
    }
}
