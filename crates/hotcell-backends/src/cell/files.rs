//! Files in a box, opened from inside it by its init.
//!
//! What comes back is a descriptor of whatever the code in the box put there: a pipe, a device, a file that grows while
//! it is read. So nothing here waits for the other end of anything, and only regular files are read and written.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use hotcell_core::backend::{FileEntry, FileKind, Files, FilesError};
use hotcell_linux::{Cell, CellError, FileError};
use rustix::fs::{AtFlags, Dir, FallocateFlags, FileType, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::HOME;

/// How many entries of a directory are fetched at a time while removing it.
const REMOVE_AT_ONCE: usize = 4096;
/// How many things one call removes. Something in the box may be adding them faster than they can be removed.
const REMOVE_MAX: usize = 4_000_000;

/// The files of one box. A relative path starts in the box's home directory.
#[derive(Debug)]
pub(crate) struct CellFiles {
    cell: Arc<Cell>,
}

impl CellFiles {
    /// The files of this box.
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self { cell }
    }

    async fn open(&self, at: &At<'_>, flags: OFlags, mode: u32) -> Result<OwnedFd, FilesError> {
        self.cell.open_file(at.path, bits(flags), mode).await.map_err(|error| at.file_error(error))
    }

    /// The first names in a directory.
    async fn some_names(&self, at: &At<'_>) -> Result<Vec<OsString>, FilesError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let directory = self.open(at, flags, 0).await?;
        let names = blocking(move || names(&directory)?.take(REMOVE_AT_ONCE).collect::<io::Result<Vec<_>>>()).await;
        names.map_err(|error| at.io(error))
    }
}

#[async_trait]
impl Files for CellFiles {
    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "read", path: &path };
        let file = self.open(&at, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, 0).await?;
        match blocking(move || read_at_most(File::from(file), limit)).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(FilesError::TooLarge { path, limit }),
            Err(error) => Err(at.io(error)),
        }
    }

    async fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "write", path: &path };
        check_mode(&at, mode)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open(&at, flags, mode).await?;
        let bytes = bytes.to_owned();
        blocking(move || replace_content(File::from(file), &bytes)).await.map_err(|error| at.io(error))
    }

    async fn list(&self, path: &Path, limit: u64) -> Result<Vec<FileEntry>, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "list", path: &path };
        let directory = self.open(&at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK, 0).await?;
        let above = path.clone();
        match blocking(move || entries(&directory, &above, limit)).await {
            Ok(Some(entries)) => Ok(entries),
            Ok(None) => Err(FilesError::TooLarge { path, limit }),
            Err(error) => Err(at.io(error)),
        }
    }

    async fn stat(&self, path: &Path) -> Result<FileEntry, FilesError> {
        let path = absolute(path)?;
        let at = At { operation: "look at", path: &path };
        let pinned = self.open(&at, OFlags::PATH | OFlags::NOFOLLOW, 0).await?;
        let status = blocking(move || look_at(&pinned)).await.map_err(|error| at.io(error))?;
        Ok(entry(path, &status))
    }

    async fn make_directory(&self, path: &Path) -> Result<(), FilesError> {
        let path = absolute(path)?;
        let mut missing = vec![path.as_path()];
        // Something in the box may be removing what is made here.
        let mut attempts = 4 * path.components().count();
        // Up to the first that can be made or is there, and down again.
        while let Some(next) = missing.last().copied() {
            let at = At { operation: "make the directory", path: next };
            attempts = attempts.saturating_sub(1);
            match self.cell.make_directory(next, 0o755).await {
                Ok(()) => {
                    missing.pop();
                }
                Err(FileError::Inside(error)) if is(&error, Errno::EXIST) => {
                    let found = self.open(&at, OFlags::PATH | OFlags::DIRECTORY, 0).await;
                    found.map_err(|error| match error {
                        // A link that leads nowhere.
                        FilesError::NotFound { path } => FilesError::WrongKind { path, expected: "directory" },
                        other => other,
                    })?;
                    missing.pop();
                }
                Err(FileError::Inside(error)) if is(&error, Errno::NOENT) => match next.parent() {
                    Some(above) if attempts > 0 => missing.push(above),
                    _ => return Err(at.file_error(FileError::Inside(error))),
                },
                Err(error) => return Err(at.file_error(error)),
            }
        }
        Ok(())
    }

    async fn remove(&self, path: &Path) -> Result<(), FilesError> {
        let path = absolute(path)?;
        check_name(&At { operation: "remove", path: &path })?;
        let mut pending = vec![path];
        let mut attempts = 0;
        while let Some(next) = pending.last().cloned() {
            let at = At { operation: "remove", path: &next };
            attempts += 1;
            if attempts > REMOVE_MAX {
                return Err(at.io(io::Error::other(format!("it is not empty after {REMOVE_MAX} attempts"))));
            }
            let directory = match self.cell.remove(&next, false).await {
                Err(FileError::Inside(error)) if is(&error, Errno::ISDIR) => self.cell.remove(&next, true).await,
                other => other,
            };
            match directory {
                Ok(()) => {
                    pending.pop();
                }
                Err(FileError::Inside(error)) if is(&error, Errno::NOTEMPTY) || is(&error, Errno::EXIST) => {
                    let names = self.some_names(&at).await?;
                    if names.is_empty() {
                        return Err(at.io(error));
                    }
                    pending.extend(names.into_iter().map(|name| next.join(name)));
                }
                // What is beneath may vanish by itself; what was asked for must have been there.
                Err(FileError::Inside(error)) if is(&error, Errno::NOENT) && pending.len() > 1 => {
                    pending.pop();
                }
                Err(error) => return Err(at.file_error(error)),
            }
        }
        Ok(())
    }
}

/// An operation on a path, for errors.
pub(super) struct At<'a> {
    pub(super) operation: &'static str,
    pub(super) path: &'a Path,
}

impl At<'_> {
    pub(super) fn file_error(&self, error: FileError) -> FilesError {
        match error {
            FileError::Inside(error) => self.io(error),
            FileError::Cell(CellError::Nul { .. }) => self.bad("it contains a NUL byte"),
            FileError::Cell(error) => FilesError::Lost { reason: error.to_string() },
            _ => FilesError::Lost { reason: error.to_string() },
        }
    }

    pub(super) fn io(&self, error: io::Error) -> FilesError {
        let path = self.path.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => FilesError::NotFound { path },
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                FilesError::Denied { operation: self.operation.to_owned(), path }
            }
            Some(Errno::NOTDIR) => FilesError::WrongKind { path, expected: "directory" },
            // A pipe that nobody reads, a socket, a device without a driver.
            Some(Errno::ISDIR | Errno::NXIO | Errno::NODEV) => FilesError::WrongKind { path, expected: "regular file" },
            Some(Errno::NAMETOOLONG) => self.bad("it is too long"),
            _ if error.get_ref().is_some_and(|inner| inner.is::<NotRegular>()) => {
                FilesError::WrongKind { path, expected: "regular file" }
            }
            _ => FilesError::Failed { operation: self.operation.to_owned(), path, source: error },
        }
    }

    fn bad(&self, reason: &str) -> FilesError {
        FilesError::BadPath { path: self.path.to_owned(), reason: reason.to_owned() }
    }
}

/// What was opened is not a regular file.
#[derive(Debug, thiserror::Error)]
#[error("not a regular file")]
struct NotRegular;

/// No set-ID bits, and nothing else that is not a permission.
pub(super) fn check_mode(at: &At<'_>, mode: u32) -> Result<(), FilesError> {
    if mode & !0o777 == 0 {
        return Ok(());
    }
    Err(at.io(io::Error::new(io::ErrorKind::InvalidInput, "only permission bits are accepted as a mode")))
}

/// What is removed has a name of its own.
pub(super) fn check_name(at: &At<'_>) -> Result<(), FilesError> {
    if at.path.file_name().is_some() { Ok(()) } else { Err(at.bad("it does not name what to remove")) }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, FilesError> {
    let at = At { operation: "resolve", path };
    if path.as_os_str().is_empty() {
        return Err(at.bad("it is empty"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(at.bad("it contains a NUL byte"));
    }
    Ok(Path::new(HOME).join(path))
}

fn bits(flags: OFlags) -> i32 {
    // The kernel's flags fit into the positive half.
    i32::try_from(flags.bits()).unwrap_or(0)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// File systems may make any call wait: not on the caller's thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn look_at(descriptor: &OwnedFd) -> io::Result<Statx> {
    Ok(rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?)
}

fn check_regular(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok(metadata.len()) } else { Err(io::Error::other(NotRegular)) }
}

/// Reads all of a file, unless it has more than `limit` bytes: by then, not when it was opened.
fn read_at_most(file: File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if check_regular(&file)? > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

fn replace_content(mut file: File, bytes: &[u8]) -> io::Result<()> {
    let (before, size) = (check_regular(&file)?, bytes.len() as u64);
    if bytes.is_empty() {
        return file.set_len(0);
    }
    // Room for it first: a full disk is no reason to lose what was there.
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size) {
        Ok(()) => {
            file.write_all(bytes)?;
            file.set_len(size)
        }
        // Not every file system can tell.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            file.set_len(0)?;
            file.write_all(bytes)
        }
        Err(error) => {
            // What was reserved behind its end until then is not needed.
            let _ = file.set_len(before);
            Err(error.into())
        }
    }
}

/// The names in a directory, in no order.
pub(crate) fn names(directory: impl AsFd) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    Ok(Dir::read_from(directory)?.filter_map(|entry| match entry {
        Ok(entry) => {
            let name = entry.file_name().to_bytes();
            (name != b"." && name != b"..").then(|| Ok(OsString::from_vec(name.to_vec())))
        }
        Err(errno) => Some(Err(errno.into())),
    }))
}

fn entries(directory: &OwnedFd, above: &Path, limit: u64) -> io::Result<Option<Vec<FileEntry>>> {
    let mut entries = Vec::new();
    for name in names(directory)? {
        let name = name?;
        if entries.len() as u64 >= limit {
            return Ok(None);
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        match rustix::fs::statx(directory, name.as_bytes(), flags, StatxFlags::BASIC_STATS) {
            Ok(status) => entries.push(entry(above.join(name), &status)),
            // Removed meanwhile.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(entries))
}

fn entry(path: PathBuf, status: &Statx) -> FileEntry {
    FileEntry { path, kind: kind_of(status), size: status.stx_size, mode: u32::from(status.stx_mode) & 0o7777 }
}

/// What a file is.
pub(super) fn kind_of(status: &Statx) -> FileKind {
    match FileType::from_raw_mode(status.stx_mode.into()) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        _ => FileKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    use super::*;

    #[test]
    fn a_file_that_grows_or_lies_about_its_size_cannot_exceed_the_limit() {
        let whole = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&whole, b"12345").unwrap();
        let open = || File::open(&whole).unwrap();
        assert_eq!(read_at_most(open(), 5).unwrap().unwrap(), b"12345");
        assert!(read_at_most(open(), 4).unwrap().is_none());
        assert_eq!(read_at_most(open(), u64::MAX).unwrap().unwrap(), b"12345");
        // A file of procfs says that it is empty.
        assert!(read_at_most(File::open("/proc/self/status").unwrap(), 10).unwrap().is_none());
    }

    #[test]
    fn only_regular_files_are_read_and_written() {
        let at = At { operation: "read", path: Path::new("/x") };
        let error = read_at_most(File::open("/dev/zero").unwrap(), 10).unwrap_err();
        assert!(matches!(at.io(error), FilesError::WrongKind { expected: "regular file", .. }));
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert!(matches!(at.io(replace_content(null, b"").unwrap_err()), FilesError::WrongKind { .. }));
    }

    #[test]
    fn a_listing_is_sorted_limited_and_made_of_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let odd = OsString::from_vec(b"b\n\xff".to_vec());
        std::fs::write(directory.path().join(&odd), b"12").unwrap();
        std::os::unix::fs::symlink("/etc", directory.path().join("a")).unwrap();
        let opened = rustix::fs::open(directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let listed = entries(&opened, Path::new("/in"), 2).unwrap().unwrap();
        assert_eq!(listed[0].kind, FileKind::Link);
        assert_eq!((listed[1].path.as_path(), listed[1].size), (Path::new("/in").join(odd).as_path(), 2));
        assert!(entries(&opened, Path::new("/in"), 1).unwrap().is_none());
    }

    #[test]
    fn paths_are_absolute_or_start_at_home() {
        assert_eq!(absolute(Path::new("a/../b")).unwrap(), Path::new("/home/hotcell/a/../b"));
        assert_eq!(absolute(Path::new("/etc")).unwrap(), Path::new("/etc"));
        for bad in ["", "a\0b"] {
            assert!(matches!(absolute(Path::new(bad)), Err(FilesError::BadPath { .. })));
        }
    }
}
