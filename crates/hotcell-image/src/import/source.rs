//! Files of what is imported: in a directory, or in a tar.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::limits::Limits;
use crate::tarball::{self, Kind};

/// The most links from one name of an archive to the next.
const HOPS: usize = 8;

/// Something with files in it.
pub(super) trait Source {
    /// A file and its size, if it is there.
    fn open(&self, path: &str) -> io::Result<Option<(Box<dyn Read + '_>, u64)>>;

    fn has(&self, path: &str) -> bool {
        matches!(self.open(path), Ok(Some(_)))
    }
}

/// A layout that is a directory. Links in it are not followed: a layout has none.
pub(super) struct Directory(OwnedFd);

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }
}

impl Source for Directory {
    fn open(&self, path: &str) -> io::Result<Option<(Box<dyn Read + '_>, u64)>> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::openat2(&self.0, path, flags, Mode::empty(), resolve) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let status = file.metadata()?;
        Ok(status.is_file().then(|| (Box::new(file) as Box<dyn Read>, status.len())))
    }
}

/// A tar whose files can be read in any order.
pub(super) struct Archive {
    file: File,
    members: HashMap<String, Member>,
}

enum Member {
    File { position: u64, size: u64 },
    Link(String),
}

impl Archive {
    /// Reads the headers, and remembers where those files are that archives of images have.
    pub(super) fn open(file: File, limits: &Limits) -> io::Result<Self> {
        let mut members = HashMap::new();
        let mut entries = 0_u64;
        let size = file.metadata()?.len();
        let whole = BufReader::with_capacity(1 << 16, Part { file: &file, position: 0, left: size });
        tarball::visit(whole, |head, _| {
            entries += 1;
            if entries > limits.entries {
                return Err(io::Error::other("it has too many entries"));
            }
            let Ok(path) = String::from_utf8(head.path) else { return Ok(()) };
            let path = path.trim_start_matches("./").to_owned();
            if !belongs_to_an_image(&path) {
                return Ok(());
            }
            let member = match head.kind {
                Kind::File => Member::File { position: head.position, size: head.size },
                Kind::Symlink(target) => match beside(&path, &target) {
                    Some(target) => Member::Link(target),
                    None => return Ok(()),
                },
                Kind::HardLink(target) => match beside("", &target) {
                    Some(target) => Member::Link(target),
                    None => return Ok(()),
                },
                _ => return Ok(()),
            };
            members.insert(path, member);
            Ok::<(), io::Error>(())
        })?;
        match entries {
            0 => Err(io::Error::other("it is empty")),
            _ => Ok(Self { file, members }),
        }
    }

    /// The tar itself, from its beginning.
    pub(super) fn whole(&self) -> io::Result<(Box<dyn Read + '_>, u64)> {
        let size = self.file.metadata()?.len();
        Ok((Box::new(Part { file: &self.file, position: 0, left: size }), size))
    }
}

impl Source for Archive {
    fn open(&self, path: &str) -> io::Result<Option<(Box<dyn Read + '_>, u64)>> {
        let mut path = path;
        for _ in 0..HOPS {
            match self.members.get(path) {
                Some(Member::File { position, size }) => {
                    return Ok(Some((Box::new(Part { file: &self.file, position: *position, left: *size }), *size)));
                }
                Some(Member::Link(target)) => path = target,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// Files at the top, blobs, and the layers of old archives. A root file system has ten thousands of others.
fn belongs_to_an_image(path: &str) -> bool {
    match path.split('/').collect::<Vec<_>>()[..] {
        [name] => name == "oci-layout" || name.ends_with(".json") || name.ends_with(".tar"),
        [_, name] => name == "layer.tar" || name == "json",
        ["blobs", "sha256", _] => true,
        _ => false,
    }
}

/// The name that a link means, by the rules of paths and without looking at anything.
fn beside(path: &str, target: &[u8]) -> Option<String> {
    let target = std::str::from_utf8(target).ok()?;
    let mut names: Vec<&str> = path.split('/').collect();
    names.pop();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// A part of a file, with a position of its own.
struct Part<'a> {
    file: &'a File,
    position: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.position)?;
        self.position = self.position.saturating_add(count as u64);
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}
