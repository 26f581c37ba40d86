//! Packages of npm, kept in the user's cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::setup;
use crate::debian::{self, run};

/// Finds a package, or installs it; the directory that its `node_modules` are in. It is named after the version, so that a change makes a
/// new one.
pub(crate) fn provide(kind: &str, package: &str, version: &str) -> Result<PathBuf> {
    let npm = setup::program("npm").context("npm is not installed")?;
    let cache = debian::cache(kind)?;
    let directory = cache.join(version);
    let sign = directory.join("complete");
    if !sign.is_file() {
        // Only one process makes it; the kernel ends the lock with the process.
        let lock = File::create(cache.join("lock"))?;
        lock.lock().with_context(|| format!("cannot lock the cache of {kind}"))?;
        if !sign.is_file() {
            install(&npm, &directory, &format!("{package}@{version}"))?;
            fs::write(&sign, "")?;
        }
    }
    Ok(directory)
}

fn install(npm: &Path, directory: &Path, package: &str) -> Result<()> {
    // What a killed run left is not complete.
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let mut command = Command::new(npm);
    // Nothing that a package would like to do while it is installed is needed.
    command
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"])
        .arg(directory);
    command.arg(package);
    run(&mut command).with_context(|| format!("cannot install {package}"))?;
    Ok(())
}
