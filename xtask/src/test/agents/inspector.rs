//! The MCP Inspector, kept in the user's cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian::{self, run};
use crate::test::setup;

/// What is installed. The directory is named after the version, so that a change makes a new one.
const PACKAGE: &str = "@modelcontextprotocol/inspector";
const VERSION: &str = "2.12.0";

/// Where it is.
#[derive(Debug)]
pub(super) struct Inspector {
    directory: PathBuf,
}

impl Inspector {
    /// Finds it, or installs it: a minute.
    pub(super) fn provide() -> Result<Self> {
        let npm = setup::program("npm").context("npm is not installed")?;
        let cache = debian::cache("inspector")?;
        let directory = cache.join(VERSION);
        let sign = directory.join("complete");
        if !sign.is_file() {
            // Only one process makes it; the kernel ends the lock with the process.
            let lock = File::create(cache.join("lock"))?;
            lock.lock().context("cannot lock the cache of the Inspector")?;
            if !sign.is_file() {
                install(&npm, &directory)?;
                fs::write(&sign, "")?;
            }
        }
        Ok(Self { directory })
    }

    /// Its command.
    pub(super) fn program(&self) -> PathBuf {
        self.directory.join("node_modules/.bin/mcp-inspector")
    }
}

fn install(npm: &Path, directory: &Path) -> Result<()> {
    // What a killed run left is not complete.
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    fs::create_dir_all(directory)?;
    let mut command = Command::new(npm);
    // Nothing that a package would like to do while it is installed is needed for its command line.
    command
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"])
        .arg(directory);
    command.arg(format!("{PACKAGE}@{VERSION}"));
    run(&mut command).context("cannot install the MCP Inspector")?;
    Ok(())
}
