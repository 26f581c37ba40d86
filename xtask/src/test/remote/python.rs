//! Pythons with packages, kept in the user's cache: one with the official SDKs (of remote boxes, and of the Model Context Protocol) and
//! OpenSandbox's server, and whatever else tests ask for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian::{self, run};
use crate::test::setup;

/// What is installed for the SDKs.
pub(crate) const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Where it is.
#[derive(Debug)]
pub(crate) struct Python {
    directory: PathBuf,
}

impl Python {
    /// Finds the one with the SDKs, or makes it: half a minute.
    pub(crate) fn provide() -> Result<Self> {
        Self::with("sdk", REQUIREMENTS)
    }

    /// Finds one with these packages, or makes it. Its directory is named after them, so that a change makes a new one.
    pub(crate) fn with(kind: &str, requirements: &str) -> Result<Self> {
        let system = setup::program("python3").context("python3 is not installed")?;
        let cache = debian::cache(kind)?;
        let directory = cache.join(name(&system, requirements)?);
        let sign = directory.join("complete");
        if !sign.is_file() {
            // Only one process makes it; the kernel ends the lock with the process.
            let lock = File::create(cache.join("lock"))?;
            lock.lock().with_context(|| format!("cannot lock the cache of {kind}"))?;
            if !sign.is_file() {
                make(&system, &directory, requirements)?;
                fs::write(&sign, "")?;
            }
        }
        Ok(Self { directory })
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A program of it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join("bin").join(name)
    }
}

fn make(system: &Path, directory: &Path, requirements: &str) -> Result<()> {
    // It holds its own path, so it is made in place; what a killed run left is not complete.
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    run(Command::new(system).args(["-m", "venv"]).arg(directory))
        .context("cannot make a virtual environment; python3-venv may not be installed")?;
    let list = directory.join("requirements.txt");
    fs::write(&list, requirements)?;
    let mut command = Command::new(directory.join("bin/pip"));
    command.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&list);
    run(&mut command).context("cannot install packages from PyPI")?;
    Ok(())
}

/// The version of Python, and a number made of the requirements.
fn name(system: &Path, requirements: &str) -> Result<String> {
    let script = "import hashlib, sys; v = sys.version_info; print(f'{v[0]}.{v[1]}-' + hashlib.sha256(sys.argv[1].encode()).hexdigest()[:16])";
    let said = run(Command::new(system).args(["-c", script, requirements]))?;
    Ok(said.trim().to_owned())
}
