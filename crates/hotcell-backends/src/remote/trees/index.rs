//! What is in an archive that came from a box, without unpacking it.
//!
//! A server or the code in the box may have written anything into it. It is read by the same code that reads layers of images; every
//! entry must be where it was asked for, beneath a directory that the archive itself has, and there once.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hotcell_core::backend::FileKind;
use hotcell_core::policy::FilesystemPolicy;
use hotcell_core::text::Printable;
use hotcell_image::tarball::{self, Head, Kind};

use super::{BringError, Caps, records};
use crate::cell::workspace::copied::{Content, Fingerprints, Record};

/// The longest path, and the longest target of a link.
const PATH_MAX: usize = 4095;

/// The zeros at the end of every archive.
const END: usize = 1024;
/// What everything in an archive is a multiple of.
const BLOCK: u64 = 512;

/// A tree that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    /// Else it is a single file.
    pub(super) is_directory: bool,
}

/// The files of one tree, by their paths beneath it (a single file by its name), with the places of their contents.
pub(super) type Files = BTreeMap<PathBuf, (Record, u64)>;

/// What each of the trees has.
pub(super) fn index(
    archive: &File,
    filesystem: &FilesystemPolicy,
    roots: &[Root],
    caps: Caps,
    fingerprints: &Fingerprints,
) -> Result<Vec<Files>, BringError> {
    let mut reader = archive;
    reader.rewind()?;
    let found = roots.iter().map(|_| Found::default()).collect();
    let mut indexing =
        Indexing { filesystem, roots, caps, fingerprints, found, entries: 0, bytes: 0, path_bytes: 0, end: 0 };
    tarball::visit(BufReader::with_capacity(1 << 18, reader), |head, content| indexing.entry(&head, content))
        .map_err(Trouble::into_error)?;
    check_end(archive, indexing.end)?;
    indexing.finish()
}

/// An archive that was cut between two entries looks whole, and what is missing from it would count as deleted. So zeros must follow
/// after the last one that was read.
fn check_end(archive: &File, last: u64) -> Result<(), BringError> {
    let mut end = [1; END];
    match archive.read_exact_at(&mut end, last) {
        Ok(()) if end.iter().all(|byte| *byte == 0) => Ok(()),
        _ => Err(BringError::Hostile("it has no end".to_owned())),
    }
}

/// What is wrong with an archive.
enum Trouble {
    Read(io::Error),
    Entry(Vec<u8>, &'static str),
    TooMuch(&'static str, u64),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl Trouble {
    fn into_error(self) -> BringError {
        match self {
            Self::Read(error) => BringError::Hostile(error.to_string()),
            Self::Entry(path, why) => {
                BringError::Hostile(format!("`{}`: {why}", Printable(&String::from_utf8_lossy(&path))))
            }
            Self::TooMuch(what, limit) => BringError::TooMuch { what, limit },
        }
    }
}

/// What was found of one tree.
#[derive(Default)]
struct Found {
    /// The tree itself.
    top: bool,
    files: Files,
}

struct Indexing<'a> {
    filesystem: &'a FilesystemPolicy,
    roots: &'a [Root],
    caps: Caps,
    fingerprints: &'a Fingerprints,
    found: Vec<Found>,
    entries: usize,
    bytes: u64,
    path_bytes: usize,
    /// Where the last entry ends.
    end: u64,
}

impl Indexing<'_> {
    fn entry(&mut self, head: &Head, content: &mut impl Read) -> Result<(), Trouble> {
        let hostile = |why| Trouble::Entry(head.path.clone(), why);
        self.entries += 1;
        // Targets are kept like paths.
        let target = if let Kind::Symlink(target) = &head.kind { target.len() } else { 0 };
        self.path_bytes = self.path_bytes.saturating_add(head.path.len()).saturating_add(target);
        self.end =
            head.size.checked_next_multiple_of(BLOCK).map_or(u64::MAX, |size| head.position.saturating_add(size));
        if self.entries > self.caps.entries {
            return Err(Trouble::TooMuch("files and directories", self.caps.entries as u64));
        }
        if self.path_bytes > self.caps.path_bytes {
            return Err(Trouble::TooMuch("bytes of paths", self.caps.path_bytes as u64));
        }
        if head.kind == Kind::File {
            self.count_bytes(head.size)?;
        }
        let path = checked_path(&head.path).map_err(hostile)?;
        let Some((number, relative)) = self.place(&path).map_err(hostile)? else { return Ok(()) };
        if relative.as_os_str().is_empty() {
            return self.top(number, head).map_err(hostile);
        }
        self.check_above(number, &relative).map_err(hostile)?;
        let single = self.roots.get(number).is_some_and(|root| !root.is_directory);
        let (record, position) = match &head.kind {
            Kind::File => {
                let fingerprint = self.fingerprints.of(content, head.size)?;
                (records::file(head.mode, head.size, fingerprint), head.position)
            }
            _ if single => return Err(hostile("it was a file and is none any more")),
            Kind::Directory => (records::directory(head.mode), 0),
            Kind::Symlink(target) if target.is_empty() || target.len() > PATH_MAX || target.contains(&0) => {
                return Err(hostile("it is a link to nothing that can be"));
            }
            Kind::Symlink(target) => (records::link(target), 0),
            Kind::HardLink(target) => {
                let (record, position) = self.linked(number, head.mode, target).map_err(hostile)?;
                // It becomes a file of its own, so it is as large as one.
                self.count_bytes(record.size)?;
                (record, position)
            }
            Kind::Special => (records::special(head.mode), 0),
            Kind::Sparse => return Err(hostile("it has holes in a way that is not used here")),
            _ => return Err(hostile("it is of an unknown kind")),
        };
        let files = &mut self.found.get_mut(number).ok_or_else(|| hostile("it was not asked for"))?.files;
        match files.insert(relative, (record, position)) {
            None => Ok(()),
            Some(_) => Err(hostile("it is there twice")),
        }
    }

    fn count_bytes(&mut self, bytes: u64) -> Result<(), Trouble> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.caps.bytes { Err(Trouble::TooMuch("bytes", self.caps.bytes)) } else { Ok(()) }
    }

    /// The tree that a path belongs to, and the path beneath it; none for what is in a tree but has another rule.
    fn place(&self, path: &Path) -> Result<Option<(usize, PathBuf)>, &'static str> {
        if !self.roots.iter().any(|root| path.starts_with(&root.path)) {
            return Err("it was not asked for");
        }
        // Shallow to deep, so the last match is the deepest.
        let rule = self.filesystem.rules.iter().rev().find(|rule| path.starts_with(&rule.path));
        let Some(rule) = rule else { return Err("it was not asked for") };
        let Some((number, root)) = self.roots.iter().enumerate().find(|(_, root)| root.path == rule.path) else {
            return Ok(None);
        };
        let top = if root.is_directory { Some(root.path.as_path()) } else { root.path.parent() };
        let relative = top.and_then(|top| path.strip_prefix(top).ok()).ok_or("it was not asked for")?;
        Ok(Some((number, relative.to_owned())))
    }

    fn top(&mut self, number: usize, head: &Head) -> Result<(), &'static str> {
        let found = self.found.get_mut(number).ok_or("it was not asked for")?;
        match (&head.kind, found.top) {
            (Kind::Directory, false) => {
                found.top = true;
                Ok(())
            }
            (Kind::Directory, true) => Err("it is there twice"),
            _ => Err("it was a directory and is none any more"),
        }
    }

    /// Whatever is above must be a directory that came before: never a link, or nothing.
    fn check_above(&self, number: usize, relative: &Path) -> Result<(), &'static str> {
        let (Some(found), Some(root)) = (self.found.get(number), self.roots.get(number)) else {
            return Err("it was not asked for");
        };
        match relative.parent() {
            Some(above) if above.as_os_str().is_empty() && (found.top || !root.is_directory) => Ok(()),
            Some(above) => match found.files.get(above) {
                Some((record, _)) if record.kind == FileKind::Directory => Ok(()),
                Some(_) => Err("it is beneath something that is not a directory"),
                None => Err("it is in a directory that is not in the archive"),
            },
            None => Err("it has no name"),
        }
    }

    /// Another name of a file that came before: a file of its own, as everywhere.
    fn linked(&self, number: usize, mode: u32, target: &[u8]) -> Result<(Record, u64), &'static str> {
        const NOT_THERE: &str = "it is a link to a file that did not come before it";
        let target = checked_path(target)?;
        let (of, relative) = self.place(&target)?.ok_or(NOT_THERE)?;
        let found = self.found.get(of).filter(|_| of == number).and_then(|found| found.files.get(&relative));
        match found {
            Some((record, position)) if matches!(record.content, Content::Bytes(_)) => {
                Ok((Record { mode: mode & 0o777, ..record.clone() }, *position))
            }
            _ => Err(NOT_THERE),
        }
    }

    fn finish(self) -> Result<Vec<Files>, BringError> {
        for (root, found) in self.roots.iter().zip(&self.found) {
            if root.is_directory && !found.top || !root.is_directory && found.files.is_empty() {
                let path = hotcell_core::text::PrintablePath(&root.path).to_string();
                return Err(BringError::Hostile(format!("`{path}` is not in it")));
            }
        }
        Ok(self.found.into_iter().map(|found| found.files).collect())
    }
}

/// The path of an entry: beneath the root, without `..`.
fn checked_path(path: &[u8]) -> Result<PathBuf, &'static str> {
    if path.len() > PATH_MAX {
        return Err("its path is too long");
    }
    if path.contains(&0) {
        return Err("its path has a zero byte");
    }
    if path.first() == Some(&b'/') {
        return Err("its path is absolute");
    }
    let mut checked = PathBuf::from("/");
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => return Err("its path has `..`"),
            name => checked.push(OsStr::from_bytes(name)),
        }
    }
    Ok(checked)
}
