//! Directories and tars that are a root file system and nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::Import;
use super::source::Archive;
use crate::config::ImageConfig;
use crate::error::{ImageError, StoreError};
use crate::manifest::{Descriptor, OCI_LAYER};
use crate::progress::{Progress, Step};
use crate::store::{Image, Incoming};
use crate::unpack::children;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

impl Import<'_> {
    /// A tar becomes the only layer as it is, without its compression.
    pub(super) fn rootfs_tar(mut self, archive: &Archive, spooled: Option<Incoming>) -> Result<Image, ImageError> {
        let name = self.final_name(None)?;
        let incoming = match spooled {
            Some(incoming) => incoming,
            None => {
                let (reader, total) = archive.whole().map_err(ImageError::source(self.path))?;
                self.spool(reader, total)?
            }
        };
        incoming.check_size(self.store.limits().layer_bytes)?;
        let size = incoming.size();
        let digest = incoming.commit(None, "layer")?;
        let layer = Descriptor::new(OCI_LAYER, digest, size);
        self.store.add_one_layer(&self.kept, layer, digest, &ImageConfig::default(), &name)
    }

    fn spool(&mut self, mut reader: impl Read, total: u64) -> Result<Incoming, ImageError> {
        let mut incoming = self.store.incoming(&self.kept)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(incoming),
                Ok(count) => incoming.write(buffer.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageError::source(self.path)(error)),
            }
            incoming.check_size(self.store.limits().layer_bytes)?;
            let (what, done) = ("layer".to_owned(), incoming.size());
            (self.progress)(Progress { step: Step::Reading, what, done, total: Some(total) });
        }
    }

    /// A directory becomes the only layer: sorted, without devices, sockets and other file systems.
    pub(super) fn rootfs_directory(self) -> Result<Image, ImageError> {
        let name = self.final_name(None)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(self.path, flags, Mode::empty())
            .map_err(|errno| ImageError::source(self.path)(errno.into()))?;
        let incoming = self.store.incoming(&self.kept)?;
        let mut walk = Walk {
            builder: Builder::new(Into { incoming, failed: None }),
            keep_owners: rustix::process::geteuid().is_root(),
            entries_left: self.store.limits().entries,
            bytes_left: self.store.limits().layer_bytes,
            deepest: self.store.limits().depth,
            path: self.path,
        };
        let written = walk
            .directory(&root, Path::new(""), 0)
            .and_then(|()| walk.builder.into_inner().map_err(ImageError::source(self.path)));
        let incoming = match written {
            Ok(Into { failed: Some(error), .. }) => return Err(error.into()),
            Ok(into) => into.incoming,
            Err(error) => return Err(error),
        };
        incoming.check_size(self.store.limits().layer_bytes)?;
        let size = incoming.size();
        let digest = incoming.commit(None, "layer")?;
        let layer = Descriptor::new(OCI_LAYER, digest, size);
        self.store.add_one_layer(&self.kept, layer, digest, &ImageConfig::default(), &name)
    }
}

/// Writes to a blob, and keeps what went wrong there apart from what went wrong with the source.
struct Into {
    incoming: Incoming,
    failed: Option<StoreError>,
}

impl Write for Into {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.incoming.write(bytes).map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            io::Error::other(text)
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A directory that becomes a tar.
struct Walk<'a> {
    builder: Builder<Into>,
    /// Root's trees have users; an ordinary user's own files are the image's root's.
    keep_owners: bool,
    entries_left: u64,
    bytes_left: u64,
    deepest: u32,
    path: &'a Path,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &OwnedFd, path: &Path, depth: u32) -> Result<(), ImageError> {
        let at = |error: io::Error| ImageError::source(&self.path.join(path))(error);
        if depth > self.deepest {
            let limit = u64::from(self.deepest);
            return Err(ImageError::TooLarge { image: self.shown(path), what: "it is too deep", limit });
        }
        let mut names = children(directory).map_err(at)?;
        names.sort();
        for name in names {
            let inner = path.join(Path::new(std::ffi::OsStr::from_bytes(&name)));
            self.entry(directory, &name, &inner, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &Path, depth: u32) -> Result<(), ImageError> {
        let whole = self.path.join(path);
        let failed = |errno: Errno| ImageError::source(&whole)(errno.into());
        self.entries_left = self.entries_left.checked_sub(1).ok_or_else(|| ImageError::TooLarge {
            image: self.shown(Path::new("")),
            what: "it has too many entries",
            limit: 0,
        })?;
        let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => {
                let mut header = self.header(&status, EntryType::Directory, 0);
                let appended = self.builder.append_data(&mut header, path, io::empty());
                self.check(appended, &whole)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                match rustix::fs::openat2(directory, name, flags, Mode::empty(), RESOLVE) {
                    Ok(inner) => self.directory(&inner, path, depth + 1),
                    // Another file system, such as /proc, is not a part of this one.
                    Err(Errno::XDEV) => Ok(()),
                    Err(errno) => Err(failed(errno)),
                }
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat2(directory, name, flags, Mode::empty(), RESOLVE).map_err(failed)?;
                let status = rustix::fs::fstat(&file).map_err(failed)?;
                if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
                    return Err(changed(&whole));
                }
                let size = u64::try_from(status.st_size).unwrap_or(0);
                self.bytes_left = self
                    .bytes_left
                    .checked_sub(size)
                    .ok_or_else(|| crate::store::too_large(&self.shown(Path::new("")), self.bytes_left))?;
                let mut header = self.header(&status, EntryType::Regular, size);
                let mut content = Counted { file: File::from(file), left: size };
                let appended = self.builder.append_data(&mut header, path, &mut content);
                self.check(appended, &whole)?;
                // A shorter file would move everything after it.
                if content.left > 0 { Err(changed(&whole)) } else { Ok(()) }
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, name, Vec::new()).map_err(failed)?;
                let target = PathBuf::from(std::ffi::OsStr::from_bytes(target.to_bytes()));
                let mut header = self.header(&status, EntryType::Symlink, 0);
                let appended = self.builder.append_link(&mut header, path, target);
                self.check(appended, &whole)
            }
            // Boxes have devices of their own.
            _ => Ok(()),
        }
    }

    fn header(&self, status: &Stat, kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(status.st_mode & 0o1777);
        header.set_mtime(u64::try_from(status.st_mtime).unwrap_or(0));
        let (owner, group) = if self.keep_owners { (status.st_uid, status.st_gid) } else { (0, 0) };
        header.set_uid(u64::from(owner));
        header.set_gid(u64::from(group));
        header
    }

    fn check(&mut self, appended: io::Result<()>, whole: &Path) -> Result<(), ImageError> {
        match self.builder.get_mut().failed.take() {
            Some(error) => Err(error.into()),
            None => appended.map_err(ImageError::source(whole)),
        }
    }

    fn shown(&self, path: &Path) -> String {
        self.path.join(path).display().to_string()
    }
}

fn changed(path: &Path) -> ImageError {
    ImageError::source(path)(io::Error::other("it changed while it was read"))
}

/// A file up to the size that it had.
struct Counted {
    file: File,
    left: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}
