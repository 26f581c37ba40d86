//! A root file system as a sorted list of entries, and its one archive.
//!
//! The same entries give the same bytes, in whatever order and with whatever headers they came: names are sorted, owners are
//! numbers, no file is younger than the image, and there are no set-ID bits, extended attributes or device nodes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tar::{Archive, EntryType, Header};

use super::error::BuildError;

/// The longest file whose contents are held in memory on request.
const READ_LIMIT: u64 = 64 * 1024 * 1024;

/// The permission bits that entries keep. Set-ID bits are not among them: nothing in a box gains rights.
const KEPT_MODE: u32 = 0o1777;

/// A root file system. Paths have no slash at their ends; the root itself is the empty path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    entries: BTreeMap<String, Entry>,
    /// The archive in which the contents of [`Data::Archived`] are.
    archive: Option<PathBuf>,
}

/// A file, directory or link.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: u64,
}

/// What an entry is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Directory,
    File(Data),
    Symlink(String),
    /// Another name of the file at this path.
    HardLink(String),
}

/// Where a file's contents are.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Memory(Vec<u8>),
    Archived { offset: u64, size: u64 },
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    /// How many entries.
    pub(super) entries: usize,
    /// The sum of the sizes of all files.
    pub(super) file_bytes: u64,
}

impl Data {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Archived { size, .. } => *size,
        }
    }
}

impl Entry {
    /// An entry of root's.
    pub(super) fn new(kind: Kind, mode: u32, mtime: u64) -> Self {
        Self { kind, mode, uid: 0, gid: 0, mtime }
    }
}

impl Tree {
    /// Reads an archive, without the entries that `keep` does not want.
    pub(super) fn read(path: &Path, keep: &dyn Fn(&str) -> bool) -> Result<Self, BuildError> {
        let unusable = |why: String| BuildError::Archive { archive: path.to_owned(), why };
        let broken = |error: io::Error| unusable(error.to_string());
        let file = File::open(path).map_err(BuildError::file("open", path))?;
        let mut tree = Self { entries: BTreeMap::new(), archive: Some(path.to_owned()) };
        let mut archive = Archive::new(BufReader::new(file));
        for entry in archive.entries_with_seek().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let name = utf8(&entry.path_bytes()).and_then(|name| normal(&name)).map_err(unusable)?;
            if !keep(&name) {
                continue;
            }
            let header = entry.header();
            let link = || -> Result<String, BuildError> {
                let target =
                    entry.link_name_bytes().ok_or_else(|| unusable(format!("`{name}` is a link to nothing")))?;
                utf8(&target).map_err(unusable)
            };
            let kind = match header.entry_type() {
                EntryType::Directory => Kind::Directory,
                EntryType::Regular | EntryType::Continuous => {
                    Kind::File(Data::Archived { offset: entry.raw_file_position(), size: entry.size() })
                }
                EntryType::Symlink => Kind::Symlink(link()?),
                EntryType::Link => Kind::HardLink(normal(&link()?).map_err(unusable)?),
                other => {
                    return Err(unusable(format!(
                        "`{}` is of a kind ({other:?}) that is no part of an image",
                        name.escape_debug()
                    )));
                }
            };
            let entry = Entry {
                kind,
                mode: header.mode().map_err(broken)?,
                uid: header.uid().map_err(broken)?,
                gid: header.gid().map_err(broken)?,
                mtime: header.mtime().map_err(broken)?,
            };
            if tree.entries.insert(name.clone(), entry).is_some() {
                return Err(unusable(format!("`{}` is there twice", name.escape_debug())));
            }
        }
        Ok(tree)
    }

    /// Puts an entry in, in place of what was there.
    pub(super) fn put(&mut self, path: &str, entry: Entry) {
        self.entries.insert(path.to_owned(), entry);
    }

    /// Puts a directory in, if there is none, and those above it.
    pub(super) fn make_directories(&mut self, path: &str, mtime: u64) {
        let above = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        for directory in above.chain([path]) {
            let entry = || Entry::new(Kind::Directory, 0o755, mtime);
            self.entries.entry(directory.to_owned()).or_insert_with(entry);
        }
    }

    /// Takes out the entries that `keep` does not want.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &Entry) -> bool) {
        self.entries.retain(|path, entry| keep(path, entry));
    }

    /// All entries, sorted by path.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The time of the youngest entry.
    pub(super) fn newest(&self) -> u64 {
        self.entries.values().map(|entry| entry.mtime).max().unwrap_or(0)
    }

    /// The contents of a file that is not too long to be held in memory; nothing if there is no such file.
    pub(super) fn contents(&self, path: &str) -> Result<Option<Vec<u8>>, BuildError> {
        let Some(Entry { kind: Kind::File(data), .. }) = self.entries.get(path) else { return Ok(None) };
        if data.size() > READ_LIMIT {
            return Err(self.unusable(format!("`{path}` is too long")));
        }
        let mut bytes = Vec::new();
        self.open()?.copy(data, &mut bytes).map_err(|error| self.unusable(error.to_string()))?;
        Ok(Some(bytes))
    }

    /// A reader for the contents of many files.
    pub(super) fn open(&self) -> Result<Contents, BuildError> {
        let file = match &self.archive {
            Some(path) => Some(File::open(path).map_err(BuildError::file("open", path))?),
            None => None,
        };
        Ok(Contents(file))
    }

    /// Brings the entries to the form that depends on nothing but what they are.
    pub(super) fn settle(&mut self, epoch: u64) -> Result<(), BuildError> {
        self.make_directories("", epoch);
        self.settle_hard_links()?;
        for (path, entry) in &mut self.entries {
            entry.mode = match entry.kind {
                Kind::Symlink(_) => 0o777,
                _ => entry.mode & KEPT_MODE,
            };
            // An archive may say something for a hard link, but there is only one file.
            entry.mtime = entry.mtime.min(epoch);
            if path.split('/').any(|part| part.len() > 255) {
                let why = format!("`{}` has too long a name", path.escape_debug());
                return Err(BuildError::Archive { archive: self.archive.clone().unwrap_or_default(), why });
            }
        }
        for path in self.entries.keys().filter(|path| !path.is_empty()) {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            if !matches!(self.entries.get(above), Some(Entry { kind: Kind::Directory, .. })) {
                return Err(self.unusable(format!("`{}` is in no directory", path.escape_debug())));
            }
        }
        Ok(())
    }

    /// Of all names of a file, the first has the contents and the others lead to it.
    fn settle_hard_links(&mut self) -> Result<(), BuildError> {
        let mut names_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (path, entry) in &self.entries {
            if let Kind::HardLink(target) = &entry.kind {
                names_of.entry(self.file_behind(target)?).or_default().push(path.clone());
            }
        }
        for (file, mut names) in names_of {
            let Some(entry) = self.entries.get(&file).cloned() else { continue };
            names.push(file);
            names.sort_unstable();
            let first = names.first().cloned().unwrap_or_default();
            for name in names {
                let kind = if name == first { entry.kind.clone() } else { Kind::HardLink(first.clone()) };
                self.entries.insert(name, Entry { kind, ..entry.clone() });
            }
        }
        Ok(())
    }

    /// Follows hard links to the entry with the contents.
    fn file_behind(&self, target: &str) -> Result<String, BuildError> {
        let mut target = target;
        // A circle has no more steps than there are entries.
        for _ in 0..=self.entries.len() {
            match self.entries.get(target).map(|entry| &entry.kind) {
                Some(Kind::HardLink(next)) => target = next,
                Some(Kind::File(_)) => return Ok(target.to_owned()),
                _ => break,
            }
        }
        Err(self.unusable(format!("a hard link leads to `{}`, which is no file", target.escape_debug())))
    }

    /// Writes the archive. The tree must be settled.
    pub(super) fn write(&self, output: impl Write) -> Result<Written, BuildError> {
        let failed = |error: io::Error| self.unusable(format!("it could not be copied: {error}"));
        let mut contents = self.open()?;
        let mut archive = tar::Builder::new(BufWriter::with_capacity(256 * 1024, output));
        let mut written = Written { entries: 0, file_bytes: 0 };
        for (path, entry) in self.iter() {
            let mut header = Header::new_gnu();
            header.set_mode(entry.mode);
            header.set_uid(entry.uid);
            header.set_gid(entry.gid);
            header.set_mtime(entry.mtime);
            header.set_size(0);
            written.entries += 1;
            let (kind, name, link) = match &entry.kind {
                Kind::Directory if path.is_empty() => (EntryType::Directory, "./".to_owned(), ""),
                Kind::Directory => (EntryType::Directory, format!("{path}/"), ""),
                Kind::File(_) => (EntryType::Regular, path.to_owned(), ""),
                Kind::Symlink(target) => (EntryType::Symlink, path.to_owned(), target.as_str()),
                Kind::HardLink(target) => (EntryType::Link, path.to_owned(), target.as_str()),
            };
            header.set_entry_type(kind);
            if let Some(fields) = header.as_gnu_mut() {
                name_field(&mut archive, &mut fields.name, &name, EntryType::GNULongName).map_err(failed)?;
                name_field(&mut archive, &mut fields.linkname, link, EntryType::GNULongLink).map_err(failed)?;
            }
            if let Kind::File(data) = &entry.kind {
                written.file_bytes += data.size();
                header.set_size(data.size());
                header.set_cksum();
                archive.append(&header, contents.reader(data).map_err(failed)?).map_err(failed)?;
            } else {
                header.set_cksum();
                archive.append(&header, io::empty()).map_err(failed)?;
            }
        }
        archive.into_inner().and_then(|mut output| output.flush()).map_err(failed)?;
        Ok(written)
    }

    fn unusable(&self, why: String) -> BuildError {
        BuildError::Archive { archive: self.archive.clone().unwrap_or_default(), why }
    }
}

/// Reads the contents of files.
pub(super) struct Contents(Option<File>);

impl Contents {
    fn reader<'a>(&'a mut self, data: &'a Data) -> io::Result<Box<dyn Read + 'a>> {
        match (data, &mut self.0) {
            (Data::Memory(bytes), _) => Ok(Box::new(Cursor::new(bytes))),
            (Data::Archived { offset, size }, Some(file)) => {
                file.seek(SeekFrom::Start(*offset))?;
                Ok(Box::new(file.take(*size)))
            }
            (Data::Archived { .. }, None) => Err(io::Error::other("there is no archive")),
        }
    }

    /// Copies a file's contents, all of them or none.
    pub(super) fn copy(&mut self, data: &Data, output: &mut dyn Write) -> io::Result<()> {
        let copied = io::copy(&mut self.reader(data)?, output)?;
        if copied == data.size() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// Writes a name to its field of a header as it is; one that is too long gets an entry of its own before it, as GNU tar does it.
fn name_field(
    archive: &mut tar::Builder<impl Write>,
    field: &mut [u8; 100],
    name: &str,
    long: EntryType,
) -> io::Result<()> {
    if name.len() > field.len() {
        let mut header = Header::new_gnu();
        if let Some(fields) = header.as_gnu_mut() {
            copy_start(&mut fields.name, b"././@LongLink");
        }
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_entry_type(long);
        header.set_size(name.len() as u64 + 1);
        header.set_cksum();
        archive.append(&header, [name.as_bytes(), b"\0"].concat().as_slice())?;
    }
    copy_start(field, name.as_bytes());
    Ok(())
}

/// Copies as much as there is room for.
fn copy_start(field: &mut [u8], bytes: &[u8]) {
    field.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| format!("`{}` is not UTF-8", bytes.escape_ascii()))
}

/// A path without `./` before it and slashes after it. One that leads out of the tree is refused.
pub(super) fn normal(path: &str) -> Result<String, String> {
    let inner = path.strip_prefix("./").unwrap_or(path);
    let inner = inner.trim_end_matches('/');
    let inner = if inner == "." { "" } else { inner };
    let leads_out = path.starts_with('/')
        || (!inner.is_empty() && inner.split('/').any(|part| part.is_empty() || part == "." || part == ".."))
        || inner.contains('\0');
    if leads_out { Err(format!("`{}` is no path beneath the root", path.escape_debug())) } else { Ok(inner.to_owned()) }
}

#[cfg(test)]
mod tests;
