//! A suite's kernel and its modules, fetched once and kept in the user's cache.
//!
//! The package comes through apt, which checks it against the signatures of Debian's archive. It is unpacked in a
//! directory of its own that gets its final name when it is complete, under a lock: what has that name is whole.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::options::Suite;
use super::program;
use crate::debian::{self, Archive, only_entry, run};

/// The package that always depends on the suite's current kernel.
const CURRENT: &str = "linux-image-amd64";

/// A kernel that is ready to be booted.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What `uname -r` says under it.
    pub(super) release: String,
    /// What the boot loader loads.
    pub(super) image: PathBuf,
    /// The directory of its modules.
    pub(super) modules: PathBuf,
}

/// The suite's kernel, from the cache if it is there.
pub(super) fn provide(suite: Suite) -> Result<Kernel> {
    let cache = cache_directory()?;
    if let Some(fresh) = program::fresh(&cache) {
        bail!(
            "the guest loads modules from {}, and has a {fresh} of its own: set XDG_CACHE_HOME to a directory elsewhere",
            cache.display()
        );
    }
    let _lock = lock(&cache, suite)?;
    let place = cache.join(suite.name());
    if let Ok(kernel) = open(&place) {
        return Ok(kernel);
    }

    eprintln!("vm-lab: fetching the kernel of {}", suite.name());
    remove_unfinished(&cache, suite)?;
    let staging = tempfile::Builder::new()
        .prefix(&staging_prefix(suite))
        .tempdir_in(&cache)
        .with_context(|| format!("cannot make a directory in {}", cache.display()))?;
    fetch(suite, staging.path()).with_context(|| format!("cannot get the kernel of {}", suite.name()))?;
    let tree = staging.path().join("tree");
    make_module_index(&tree)?;
    fs::rename(&tree, &place).with_context(|| format!("cannot move the kernel to {}", place.display()))?;
    let kernel = open(&place)?;
    eprintln!("vm-lab: Linux {} is in {}", kernel.release, place.display());
    Ok(kernel)
}

/// `hotcell/vm-lab` in the user's cache.
pub(crate) fn cache_directory() -> Result<PathBuf> {
    debian::cache("vm-lab")
}

/// Only one process at a time looks for, or fetches, the kernel of a suite. The kernel ends the lock with the process.
fn lock(cache: &Path, suite: Suite) -> Result<File> {
    let path = cache.join(format!("{}.lock", suite.name()));
    let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => eprintln!("vm-lab: another process fetches this kernel; waiting for it"),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

fn staging_prefix(suite: Suite) -> String {
    format!(".{}-", suite.name())
}

/// Removes what a fetch that was killed left behind, and what is there but not whole.
fn remove_unfinished(cache: &Path, suite: Suite) -> Result<()> {
    for entry in fs::read_dir(cache).with_context(|| format!("cannot list {}", cache.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if name == suite.name() || name.to_string_lossy().starts_with(&staging_prefix(suite)) {
            let path = entry.path();
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Reads what is in an unpacked kernel package.
fn open(tree: &Path) -> Result<Kernel> {
    // Where it is depends on the suite's age.
    let all_modules = ["usr/lib/modules", "lib/modules"].map(|place| tree.join(place));
    let all_modules = all_modules.iter().find(|place| place.is_dir());
    let modules = only_entry(all_modules.context("the package has no modules")?)?;
    let release = modules.file_name().and_then(|name| name.to_str()).context("the kernel's release is not UTF-8")?;
    let kernel = Kernel {
        release: release.to_owned(),
        image: tree.join(format!("boot/vmlinuz-{release}")),
        modules: modules.clone(),
    };
    for needed in [&kernel.image, &kernel.modules.join("modules.dep")] {
        if !needed.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            bail!("{} is missing", needed.display());
        }
    }
    Ok(kernel)
}

/// Downloads the kernel package of `suite` and unpacks it to `tree` in the directory `staging`.
fn fetch(suite: Suite, staging: &Path) -> Result<()> {
    let archive = Archive::open(suite.name(), "amd64", staging)?;
    let depends = archive.ask(&["depends", CURRENT])?;
    let package = current_package(&depends)
        .with_context(|| format!("apt names no kernel that {CURRENT} of {} depends on", suite.name()))?;
    archive.unpack(package, &staging.join("tree"))
}

/// The kernel package in what `apt-cache depends` printed.
fn current_package(depends: &str) -> Option<&str> {
    depends.lines().find_map(|line| {
        line.trim().strip_prefix("Depends:").map(str::trim).filter(|package| package.starts_with("linux-image-"))
    })
}

/// The index of modules is no part of the package: installing it would make one.
fn make_module_index(tree: &Path) -> Result<()> {
    let base = if tree.join("usr/lib/modules").is_dir() { tree.join("usr") } else { tree.to_owned() };
    let modules = only_entry(&base.join("lib/modules"))?;
    let release = modules.file_name().unwrap_or_default().to_owned();
    run(Command::new("/sbin/depmod").arg("--basedir").arg(&base).arg(release))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_package_is_the_one_that_is_depended_on() {
        let text =
            "linux-image-amd64\n  Depends: linux-image-6.1.0-50-amd64\n    linux-image-6.1.0-50-amd64-unsigned\n";
        assert_eq!(current_package(text), Some("linux-image-6.1.0-50-amd64"));
        assert_eq!(current_package("linux-image-amd64\n  Recommends: linux-image-x\n  Depends: firmware\n"), None);
    }

    #[test]
    fn an_incomplete_kernel_is_none() {
        for place in ["lib/modules", "usr/lib/modules"] {
            let tree = tempfile::tempdir().unwrap();
            let modules = tree.path().join(place).join("6.0-test");
            assert!(open(tree.path()).is_err());
            fs::create_dir_all(&modules).unwrap();
            fs::create_dir(tree.path().join("boot")).unwrap();
            fs::write(modules.join("modules.dep"), "x").unwrap();
            assert!(open(tree.path()).is_err());
            fs::write(tree.path().join("boot/vmlinuz-6.0-test"), "x").unwrap();
            let kernel = open(tree.path()).unwrap();
            assert_eq!((kernel.release.as_str(), kernel.modules.as_path()), ("6.0-test", modules.as_path()));
            fs::write(modules.join("modules.dep"), "").unwrap();
            assert!(open(tree.path()).is_err());
        }
    }

    #[test]
    fn leftovers_of_one_suite_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        for name in ["bookworm", ".bookworm-x1", "trixie", ".trixie-x1"] {
            fs::create_dir(cache.path().join(name)).unwrap();
        }
        remove_unfinished(cache.path(), Suite::Bookworm).unwrap();
        let mut left: Vec<_> = fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".trixie-x1", "trixie"]);
    }
}
