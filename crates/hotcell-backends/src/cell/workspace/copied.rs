//! A tree whose changes come back as a whole copy: what was given to the box, and what it has now.
//!
//! Only what differs from what was *given* counts as a change. What the host did meanwhile to files that the box left alone is no
//! change of the box's, and what was never given to it cannot have been deleted by it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_core::backend::{ChangeKind, FileKind, WorkspaceError};
use hotcell_core::text::PrintablePath;

use super::beneath::{self, Seen};
use super::diff::{Now, Place, Walk};

const CHUNK: usize = 128 * 1024;
const PIECE: usize = 4096;

/// What a file was at one moment, as far as changes are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: FileKind,
    /// Permission bits only.
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) content: Content,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing that counts.
    None,
    /// Bytes with this fingerprint.
    Bytes(u64),
    /// The target of a link.
    Target(OsString),
}

/// Files by their paths beneath a tree, without the tree itself.
pub(crate) type Records = BTreeMap<PathBuf, Record>;

/// What a box has in the place of a tree.
#[derive(Debug)]
pub(crate) struct CopiedTree {
    /// What it was given.
    pub(crate) given: Arc<Records>,
    /// What it has, and where in the archive the content of a file begins.
    pub(crate) now: BTreeMap<PathBuf, (Record, u64)>,
    /// The archive.
    pub(crate) archive: Arc<File>,
    /// How contents are told apart.
    pub(crate) fingerprints: Fingerprints,
}

/// Tells contents apart, by a secret that is new in every box: whoever does not know it cannot make two that look the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fingerprints(RandomState);

impl Fingerprints {
    /// Of nothing yet.
    pub(crate) fn start(&self) -> Fingerprint {
        Fingerprint { hasher: self.0.build_hasher(), piece: Vec::new() }
    }

    /// The fingerprint of the next `size` bytes. An end before that is an error.
    pub(crate) fn of(&self, mut reader: impl Read, size: u64) -> io::Result<u64> {
        let mut fingerprint = self.start();
        let mut buffer = vec![0; CHUNK];
        let mut left = size;
        while left > 0 {
            let piece = &mut buffer[..chunk(left)];
            reader.read_exact(piece)?;
            fingerprint.update(piece);
            left -= piece.len() as u64;
        }
        Ok(fingerprint.finish())
    }
}

/// A fingerprint in the making.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    hasher: DefaultHasher,
    /// What does not make a whole piece yet: the same bytes in other pieces could have another fingerprint.
    piece: Vec<u8>,
}

impl Fingerprint {
    /// Takes more bytes in.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE {
                self.hasher.write(&self.piece);
                self.piece.clear();
            }
        }
    }

    /// Of all bytes.
    pub(crate) fn finish(mut self) -> u64 {
        self.hasher.write(&self.piece);
        self.hasher.finish()
    }
}

fn chunk(left: u64) -> usize {
    usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))
}

impl CopiedTree {
    /// Everything that is different from what was given, and different from what the host has.
    pub(super) fn differences(&self, walk: &mut Walk, place: &Place<'_>) -> Result<(), WorkspaceError> {
        for (relative, (record, _)) in &self.now {
            walk.count(place, relative)?;
            if self.given.get(relative) == Some(record) {
                continue;
            }
            let wrong = |source| place.failed("compare", relative, source);
            let (above, before) = look_below(&place.tree.lower, relative).map_err(wrong)?;
            let kind = match (&above, before) {
                (Some((above, name)), Some(before)) => self.compare(above, name, record, &before).map_err(wrong)?,
                _ => Some(ChangeKind::Added),
            };
            let Some(kind) = kind else { continue };
            let now = Now { kind: record.kind, mode: record.mode, size: record.size };
            if let Some(directory) = walk.changed(place, relative.clone(), kind, now, before) {
                self.check_known(place, &directory)?;
            }
        }
        for relative in self.given.keys().filter(|relative| !self.now.contains_key(*relative)) {
            let wrong = |source| place.failed("compare", relative, source);
            let (_, before) = look_below(&place.tree.lower, relative).map_err(wrong)?;
            let Some(before) = before else { continue };
            if before.kind == FileKind::Directory {
                self.check_known(place, relative)?;
            }
            walk.gone(place, relative.clone(), before)?;
        }
        Ok(())
    }

    /// How the box's file differs from the host's, if it does.
    fn compare(&self, above: &OwnedFd, name: &OsStr, record: &Record, before: &Seen) -> io::Result<Option<ChangeKind>> {
        let same = record.kind == before.kind
            && match &record.content {
                Content::Bytes(fingerprint) => {
                    record.size == before.size && self.has_content(above, name, record.size, *fingerprint)?
                }
                Content::Target(target) => {
                    // The mode of a link means nothing.
                    let same = beneath::link_target(above, name)? == *target;
                    return Ok((!same).then_some(ChangeKind::Changed));
                }
                Content::None => record.kind == FileKind::Directory,
            };
        Ok(match same {
            false => Some(ChangeKind::Changed),
            true => (record.mode != before.mode).then_some(ChangeKind::Mode),
        })
    }

    fn has_content(&self, above: &OwnedFd, name: &OsStr, size: u64, fingerprint: u64) -> io::Result<bool> {
        let opened = beneath::open_file(above, Path::new(name));
        match opened.and_then(|(file, _)| self.fingerprints.of(file, size)) {
            Ok(found) => Ok(found == fingerprint),
            // It cannot be shown to be the same, or shrank.
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::UnexpectedEof) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses to remove a directory in which the host has something that the box was never given.
    fn check_known(&self, place: &Place<'_>, directory: &Path) -> Result<(), WorkspaceError> {
        let wrong = |source| place.failed("read", directory, source);
        let opened = beneath::open_directory(&place.tree.lower, directory).map_err(wrong)?;
        for name in beneath::names(&opened).map_err(wrong)? {
            let path = directory.join(name.map_err(wrong)?);
            if !self.given.contains_key(&path) {
                let reason =
                    format!("it holds `{}`, which the box was never given", PrintablePath(&place.tree.path_of(&path)));
                return Err(place.failed("delete", directory, io::Error::other(reason)));
            }
        }
        Ok(())
    }

    /// Writes the content of a file of the box's to an empty file.
    pub(super) fn write_content(&self, relative: &Path, to: &File) -> io::Result<()> {
        let (record, position) = self.now.get(relative).ok_or(io::ErrorKind::NotFound)?;
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while done < record.size {
            let piece = &mut buffer[..chunk(record.size - done)];
            self.archive.read_exact_at(piece, position.saturating_add(done))?;
            to.write_all_at(piece, done)?;
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// The target of a link of the box's.
    pub(super) fn link_target(&self, relative: &Path) -> io::Result<OsString> {
        match self.now.get(relative) {
            Some((Record { content: Content::Target(target), .. }, _)) => Ok(target.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// The directory that a path is in and the name there, and what the host has at it. A directory that is missing, or is none any
/// more, has nothing.
type Below<'a> = (Option<(OwnedFd, &'a OsStr)>, Option<Seen>);

fn look_below<'a>(lower: &OwnedFd, relative: &'a Path) -> io::Result<Below<'a>> {
    let (Some(above), Some(name)) = (relative.parent(), relative.file_name()) else { return Ok((None, None)) };
    let above = match beneath::open_place(lower, above) {
        Ok(above) => above,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok((None, None));
        }
        Err(error) => return Err(error),
    };
    let seen = beneath::look(&above, name)?;
    Ok((Some((above, name)), seen))
}
