//! Whether the guest will find what it needs: it sees the host's files, but has directories of its own for what is
//! temporary.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Directories that the guest fills itself.
const FRESH: &[&str] = &["/tmp", "/run", "/dev", "/proc", "/sys"];

/// Fails, before anything is booted, when the guest would not find `program` or `directory`.
pub(super) fn check(program: &str, directory: &Path) -> Result<()> {
    if let Some(fresh) = fresh(directory) {
        bail!(
            "the current directory, {}, is not there in the guest, which has a {fresh} of its own: start from elsewhere",
            directory.display()
        );
    }
    let found = find(program, directory, env::var_os("PATH").as_deref())
        .with_context(|| format!("there is no program `{program}` on this machine, so there is none in the guest"))?;
    if let Some(fresh) = fresh(&found) {
        bail!(
            "{} is not there in the guest, which has a {fresh} of its own: put the program elsewhere",
            found.display()
        );
    }
    Ok(())
}

/// The file that a shell in `directory` would run.
fn find(program: &str, directory: &Path, search: Option<&OsStr>) -> Option<PathBuf> {
    let runnable = |path: &PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(directory.join(program)).filter(runnable);
    }
    env::split_paths(search?).map(|place| directory.join(place).join(program)).find(runnable)
}

/// The guest's own directory that hides `path`, or hides what it is a link to.
pub(super) fn fresh(path: &Path) -> Option<&'static str> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    FRESH.iter().find(|fresh| path.starts_with(fresh) || target.starts_with(fresh)).copied()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let root = Path::new("/");
        assert_eq!(find("sh", root, Some(OsStr::new("/no-such:/bin"))), Some("/bin/sh".into()));
        assert_eq!(find("sh", root, Some(OsStr::new("bin"))), Some("/bin/sh".into()));
        assert_eq!(find("bin/sh", root, None), Some("/bin/sh".into()));
        assert_eq!(find("bin", root, Some(OsStr::new("/"))), None);
        assert_eq!(find("/etc/passwd", root, None), None);
    }

    #[test]
    fn what_the_guest_does_not_have_is_refused() {
        let place = tempfile::tempdir_in("/tmp").unwrap();
        let (real, link) = (place.path().join("real"), place.path().join("link"));
        fs::copy("/bin/true", &real).unwrap();
        symlink("/bin/true", &link).unwrap();
        for program in [&real, &link] {
            let error = check(program.to_str().unwrap(), Path::new("/")).unwrap_err();
            assert!(error.to_string().contains("a /tmp of its own"), "{error}");
        }
        assert!(check("/bin/true", place.path()).unwrap_err().to_string().contains("the current directory"));
        assert!(check("/bin/true", Path::new("/")).is_ok());
        assert!(check("hotcell-no-such-program", Path::new("/")).is_err());
    }

    #[test]
    fn a_link_into_a_fresh_directory_is_seen_through() {
        // On every Debian system this is a link to /run.
        assert_eq!(fresh(Path::new("/var/run")), Some("/run"));
        assert_eq!(fresh(Path::new("/usr/bin")), None);
    }
}
