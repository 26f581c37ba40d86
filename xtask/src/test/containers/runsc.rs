//! gVisor's `runsc`: the build in the release's backports, which is newer than the release's own.
//!
//! It is unpacked in the user's cache and not installed, so that the machine's own packages and apt stay as they are.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::packages;
use crate::debian::{self, Archive};
use crate::test::setup::{self, Shortage};

const PACKAGE: &str = "runsc";

/// Where `runsc` is, or what is missing.
pub(super) fn provide() -> Result<Result<PathBuf, Shortage<'static>>> {
    let cache = debian::cache("tools")?;
    if let Some(program) = newest(&cache) {
        return Ok(Ok(program));
    }
    // Not every release has one in its backports, and not every mirror has backports.
    if setup::is_debian()
        && let Ok(program) = fetch(&cache)
    {
        return Ok(Ok(program));
    }
    match setup::bring(packages::RUNSC)? {
        Some(shortage) => Ok(Err(shortage)),
        None => Ok(Ok(setup::program(PACKAGE).context("runsc is installed, and is not there")?)),
    }
}

/// The newest that was fetched before.
fn newest(cache: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(cache).ok()?.flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("runsc-"));
    let mut programs: Vec<PathBuf> =
        named.map(|entry| entry.path().join("usr/bin/runsc")).filter(|program| program.is_file()).collect();
    // Versions begin with a date.
    programs.sort();
    programs.pop()
}

fn fetch(cache: &Path) -> Result<PathBuf> {
    let staging = tempfile::Builder::new().prefix(".runsc-").tempdir_in(cache)?;
    // apt fetches as a user of its own.
    fs::set_permissions(staging.path(), Permissions::from_mode(0o755))?;
    let archive = Archive::open(&format!("{}-backports", debian::codename()?), architecture()?, staging.path())?;
    let policy = archive.ask(&["policy", PACKAGE])?;
    let version = candidate(&policy).context("the backports have no runsc")?;
    let tree = staging.path().join("tree");
    archive.unpack(PACKAGE, &tree)?;
    let place = cache.join(format!("runsc-{version}"));
    // Another process may have been quicker with the same.
    if !place.exists() {
        fs::rename(&tree, &place).with_context(|| format!("cannot move runsc to {}", place.display()))?;
    }
    newest(cache).context("the package runsc has no program")
}

/// The version that apt would take.
fn candidate(policy: &str) -> Option<&str> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    (version != "(none)").then_some(version)
}

/// Debian's name for this machine's kind.
pub(super) fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("Hotcell does not know Debian's name for {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_the_version() {
        let policy = "runsc:\n  Installed: (none)\n  Candidate: 0.0~20240729.0-4~bpo12+2\n  Version table:\n";
        assert_eq!(candidate(policy), Some("0.0~20240729.0-4~bpo12+2"));
        assert_eq!(candidate("runsc:\n  Candidate: (none)\n"), None);
        assert_eq!(candidate("N: Unable to locate package runsc\n"), None);
    }

    #[test]
    fn the_newest_that_is_whole_is_taken() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(newest(cache.path()), None);
        for (version, whole) in [("0.0~2022", true), ("0.0~2024", true), ("0.0~2025", false)] {
            let place = cache.path().join(format!("runsc-{version}"));
            fs::create_dir_all(place.join("usr/bin")).unwrap();
            if whole {
                fs::write(place.join("usr/bin/runsc"), "").unwrap();
            }
        }
        assert_eq!(newest(cache.path()), Some(cache.path().join("runsc-0.0~2024/usr/bin/runsc")));
    }
}
