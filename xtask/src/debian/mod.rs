//! Debian's archive: packages of any suite, fetched without touching this machine's own apt.

mod archive;
mod mirror;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

pub(crate) use archive::Archive;
pub(crate) use mirror::find as mirror;

/// Debian's own keys.
pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Longer than any honest download.
const FETCH_LIMIT: Duration = Duration::from_secs(1200);

/// The name of the release that this machine runs, such as `bookworm`.
pub(crate) fn codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    codename_in(&text).context("/etc/os-release does not say which Debian this is")
}

fn codename_in(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    value("ID").filter(|id| id == "debian")?;
    value("VERSION_CODENAME").filter(|name| !name.is_empty())
}

/// `hotcell/NAME` in the user's cache, made if it is not there.
pub(crate) fn cache(name: &str) -> Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let base = base.context("neither XDG_CACHE_HOME nor HOME says where a cache may be: set one of them")?;
    let directory = base.join("hotcell").join(name);
    fs::create_dir_all(&directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    Ok(directory)
}

/// The one entry of a directory.
pub(crate) fn only_entry(directory: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    match (entries.next().transpose()?, entries.next().transpose()?) {
        (Some(entry), None) => Ok(entry.path()),
        _ => bail!("{} should hold one entry", directory.display()),
    }
}

/// Runs a program that has to succeed, and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let finished = process::run(command, FETCH_LIMIT)?;
    if finished.success() {
        return Ok(finished.output);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    if finished.out_of_time {
        bail!("`{program}` did not end in {} s", FETCH_LIMIT.as_secs());
    }
    bail!("`{program}` failed: {}", finished.output.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_has_a_codename_here() {
        assert_eq!(codename_in("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
        assert_eq!(codename_in("VERSION_CODENAME=\"trixie\"\nID=\"debian\"\n").as_deref(), Some("trixie"));
        assert_eq!(codename_in("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(codename_in("ID=debian\n"), None);
    }
}
