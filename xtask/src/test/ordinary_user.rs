//! An ordinary user for root to test as: an unused uid with a home, a temporary directory and a checkout.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::binaries::Binaries;
use super::scratch::Scratch;
use crate::workspace::{root, target_directory};

/// Where the search for an unused uid begins: above what distributions give to people and services, below `nobody`.
const FIRST_UID: u32 = 64321;
const LAST_UID: u32 = 64420;

/// A user that owns nothing and runs nothing.
#[derive(Debug)]
pub(crate) struct User {
    uid: u32,
}

/// What is prepared for that user, and where it is to appear.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub(crate) uid: u32,
    /// Directories that the user may not pass, to be covered so that the places beneath them can be reached.
    pub(crate) covers: BTreeSet<PathBuf>,
    /// The user's copies, and the paths of the originals over which they are mounted.
    pub(crate) places: Vec<(PathBuf, PathBuf)>,
    home: PathBuf,
    temporary: PathBuf,
}

impl User {
    /// Finds a uid that has no name and no process.
    pub(crate) fn unused() -> Result<Self> {
        let named: BTreeSet<u32> = fs::read_to_string("/etc/passwd")
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.split(':').nth(2)?.parse().ok())
            .collect();
        let mut running = BTreeSet::new();
        for entry in fs::read_dir("/proc").context("cannot list /proc")? {
            // A process can end between the listing and the look at it.
            if let Ok(metadata) = entry.and_then(|entry| entry.metadata()) {
                running.insert(metadata.uid());
            }
        }
        match (FIRST_UID..=LAST_UID).find(|uid| !named.contains(uid) && !running.contains(uid)) {
            Some(uid) => Ok(Self { uid }),
            None => bail!("every uid from {FIRST_UID} to {LAST_UID} is in use"),
        }
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Copies the sources and the built programs, and gives the copies to the user.
    pub(crate) fn prepare(&self, scratch: &Scratch, binaries: &Binaries) -> Result<Checkout> {
        let checkout = root()?.canonicalize()?;
        let target = target_directory()?;
        let target = target.canonicalize().unwrap_or(target);

        let staged_checkout = scratch.path().join("checkout");
        self.copy_tree(&checkout, &staged_checkout, &[&target, &checkout.join(".git")])?;
        let mut places = vec![(staged_checkout.clone(), checkout.clone())];
        let staged_target = match target.strip_prefix(&checkout) {
            Ok(inside) => staged_checkout.join(inside),
            Err(_) => {
                let staged = scratch.path().join("target");
                places.push((staged.clone(), target.clone()));
                staged
            }
        };
        self.make_directory(&staged_target)?;

        let tests = binaries.tests.iter().map(|test| &test.executable);
        for executable in tests.chain(binaries.programs.iter().map(|(_, path)| path)) {
            let Ok(inside) = executable.strip_prefix(&target) else {
                bail!("{} is not in the target directory", executable.display());
            };
            let staged = staged_target.join(inside);
            if let Some(directory) = inside.parent() {
                self.make_directories(&staged_target, directory)?;
            }
            self.copy_file(executable, &staged)?;
        }

        let home = scratch.path().join("home");
        let temporary = scratch.path().join("tmp");
        self.make_directory(&home)?;
        self.make_directory(&temporary)?;
        let covers = places.iter().filter_map(|(_, place)| first_closed(place)).collect();
        Ok(Checkout { uid: self.uid, covers, places, home, temporary })
    }

    fn copy_tree(&self, from: &Path, to: &Path, except: &[&Path]) -> Result<()> {
        self.make_directory(to)?;
        for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
            let entry = entry?;
            let source = entry.path();
            if except.contains(&source.as_path()) {
                continue;
            }
            let copy = to.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.copy_tree(&source, &copy, except)?;
            } else if kind.is_symlink() {
                symlink(fs::read_link(&source)?, &copy)?;
                self.own(&copy)?;
            } else if kind.is_file() {
                self.copy_file(&source, &copy)?;
            }
        }
        Ok(())
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<()> {
        fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        self.own(to)
    }

    fn make_directories(&self, base: &Path, inside: &Path) -> Result<()> {
        let mut path = base.to_path_buf();
        for part in inside {
            path.push(part);
            self.make_directory(&path)?;
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        if !path.is_dir() {
            fs::create_dir(path).with_context(|| format!("cannot make the directory {}", path.display()))?;
        }
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
        self.own(path)
    }

    fn own(&self, path: &Path) -> Result<()> {
        lchown(path, Some(self.uid), Some(self.uid))
            .with_context(|| format!("cannot give {} to uid {}", path.display(), self.uid))
    }
}

impl Checkout {
    /// The environment of a fresh login.
    pub(crate) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let mut environment = vec![
            ("HOME", self.home.clone()),
            ("TMPDIR", self.temporary.clone()),
            ("PATH", PathBuf::from("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")),
            ("LANG", PathBuf::from("C.UTF-8")),
        ];
        for name in ["CI", "RUST_BACKTRACE"] {
            if let Some(value) = std::env::var_os(name) {
                environment.push((name, value.into()));
            }
        }
        environment
    }
}

/// The first directory on the way to `path` that other users may not pass.
fn first_closed(path: &Path) -> Option<PathBuf> {
    let mut ancestors: Vec<&Path> = path.ancestors().skip(1).collect();
    ancestors.reverse();
    ancestors
        .into_iter()
        .find(|directory| directory.metadata().map_or(true, |metadata| metadata.mode() & 0o001 == 0))
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_ways_have_no_closed_directory() {
        assert_eq!(first_closed(Path::new("/usr/bin")), None);
    }

    #[test]
    fn the_first_closed_directory_is_found() {
        let base = std::env::temp_dir().join(format!("hotcell-xtask-closed-{}", std::process::id()));
        let inner = base.join("closed/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(base.join("closed"), Permissions::from_mode(0o700)).unwrap();
        let found = first_closed(&inner.join("checkout"));
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(found, Some(base.join("closed")));
    }
}
