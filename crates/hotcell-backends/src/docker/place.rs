//! Files of ours that containers see: the init, and what covers paths that they may not see or change.
//!
//! They lie in one directory of the user's, are written once, and are compared with what they should be before each use.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::StatVfsMountFlags;
use rustix::process::geteuid;

/// The directory that holds them.
#[derive(Debug, Clone)]
pub(super) struct Place {
    directory: PathBuf,
}

/// What lies over a path in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cover {
    /// Nobody may read it.
    Denied { directory: bool },
    /// There is nothing in it.
    Empty { directory: bool },
    /// Says that the rest of a repository is here, as git wants it of a `commondir`.
    Here,
}

impl Place {
    /// Opens the directory, and makes it if need be.
    pub(super) fn open() -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for directory in candidates() {
            match prepare(&directory) {
                Ok(()) => return Ok(Self { directory }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    #[cfg(test)]
    pub(super) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// The init of containers.
    pub(super) fn init(&self, image: &[u8]) -> io::Result<PathBuf> {
        self.file(&format!("init-{:016x}", hash(image)), image, 0o555)
    }

    /// A text that the engine reads, such as a profile.
    pub(super) fn text(&self, kind: &str, text: &str) -> io::Result<PathBuf> {
        self.file(&format!("{kind}-{:016x}", hash(text.as_bytes())), text.as_bytes(), 0o444)
    }

    /// What covers a path.
    pub(super) fn cover(&self, cover: Cover) -> io::Result<PathBuf> {
        match cover {
            Cover::Denied { directory: false } => self.file("denied-file", b"", 0),
            Cover::Empty { directory: false } => self.file("empty-file", b"", 0o444),
            Cover::Here => self.file("here", hotcell_linux::wire::HERE, 0o444),
            Cover::Denied { directory: true } => self.empty_directory("denied-directory", 0o111),
            Cover::Empty { directory: true } => self.empty_directory("empty-directory", 0o555),
        }
    }

    /// A file with these contents, written only if it is not there or not as it should be.
    fn file(&self, name: &str, contents: &[u8], mode: u32) -> io::Result<PathBuf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.directory.join(name);
        if is_file_with(&path, contents, mode) {
            return Ok(path);
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(format!(".{name}-{}-{number}", std::process::id()));
        let written = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(contents)?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            drop(file);
            fs::rename(&temporary, &path)
        })();
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        if is_file_with(&path, contents, mode) { Ok(path) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn empty_directory(&self, name: &str, mode: u32) -> io::Result<PathBuf> {
        let path = self.directory.join(name);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let metadata = fs::symlink_metadata(&path)?;
        if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        let empty = fs::read_dir(&path)?.next().is_none();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if empty { Ok(path) } else { Err(io::ErrorKind::DirectoryNotEmpty.into()) }
    }
}

/// Where the directory may be, best first. It must not be on a file system from which nothing can be executed.
fn candidates() -> Vec<PathBuf> {
    if geteuid().is_root() {
        return vec!["/run/hotcell".into()];
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = absolute("XDG_RUNTIME_DIR").map(|path| path.join("hotcell"));
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = std::env::temp_dir().join(format!("hotcell-{}", geteuid().as_raw()));
    runtime.into_iter().chain(cache.map(|path| path.join("hotcell"))).chain([own]).collect()
}

fn prepare(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(directory)?;
    if !metadata.is_dir() || metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    if rustix::fs::statvfs(directory)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "nothing can be executed there"));
    }
    Ok(())
}

fn is_file_with(path: &Path, contents: &[u8], mode: u32) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let as_written = metadata.is_file()
        && metadata.uid() == geteuid().as_raw()
        && metadata.mode() & 0o7777 == mode
        && metadata.nlink() == 1
        && metadata.len() == contents.len() as u64;
    if !as_written {
        return false;
    }
    let mut found = Vec::new();
    // An empty file has no contents to compare, and some of them nobody may read.
    contents.is_empty()
        || File::open(path).and_then(|file| file.take(metadata.len() + 1).read_to_end(&mut found)).is_ok()
            && found == contents
}

/// FNV-1a: a name for contents, which are compared in full where it matters.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

    use super::*;

    #[test]
    fn a_file_that_was_tampered_with_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().to_owned());
        let path = place.init(b"init").unwrap();
        let first = fs::metadata(&path).unwrap().ino();
        assert_eq!(fs::metadata(place.init(b"init").unwrap()).unwrap().ino(), first, "it is written once");
        for tamper in [
            (|path: &Path| {
                fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
                fs::write(path, "evil").unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
            }) as fn(&Path),
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap(),
            |path| fs::hard_link(path, path.with_extension("other")).unwrap(),
            |path| fs::remove_file(path).unwrap(),
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/bin/sh", path).unwrap();
            },
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
            tamper(&path);
            place.init(b"init").unwrap();
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_file() && metadata.mode() & 0o7777 == 0o555 && metadata.nlink() == 1);
            assert_eq!(fs::read(&path).unwrap(), b"init");
        }
    }

    #[test]
    fn covers_are_empty_and_as_closed_as_they_should_be() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().to_owned());
        for (cover, mode) in [
            (Cover::Denied { directory: false }, 0o100_000),
            (Cover::Denied { directory: true }, 0o040_111),
            (Cover::Empty { directory: false }, 0o100_444),
            (Cover::Empty { directory: true }, 0o040_555),
            (Cover::Here, 0o100_444),
        ] {
            for _ in 0..2 {
                assert_eq!(fs::metadata(place.cover(cover).unwrap()).unwrap().mode(), mode, "{cover:?}");
            }
        }
        let empty = place.cover(Cover::Empty { directory: true }).unwrap();
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(empty.join("x"), "").unwrap();
        assert!(place.cover(Cover::Empty { directory: true }).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path()).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(prepare(directory.path()).is_err());
    }
}
