//! Reading tar archives that strangers wrote, one entry after the other.
//!
//! Headers are decoded by the crate `tar`; what comes before an entry to describe it (long names, extended headers) is put together
//! here, because its size must be bounded and contradictions must be errors: two readers that disagree about
//! where an entry ends are how things get smuggled.

use std::io::{self, Read};

use tar::{Archive, Entry, EntryType, Header};

/// The most that may describe one entry.
const DESCRIPTION_BYTES: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// Another name of an entry, with that entry's path.
    HardLink(Vec<u8>),
    /// A device, a pipe: nothing that belongs in an image.
    Special,
    /// A file with holes in one of tar's own ways.
    Sparse,
    /// Anything else.
    Unknown(u8),
}

/// An entry, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// As the archive has it: any bytes.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its mode, with whatever bits the archive says.
    pub mode: u32,
    /// The number of its user.
    pub owner: u64,
    /// The number of its group.
    pub group: u64,
    /// Bytes of content.
    pub size: u64,
    /// Seconds since 1970.
    pub modified: u64,
    /// Where its content begins in the archive.
    pub position: u64,
}

/// Calls `visit` with each entry and its content, until the end or an error. Nothing is said about how many entries there are and how
/// large: that is for `visit` to bound.
pub fn visit<R: Read, E: From<io::Error>>(
    reader: R,
    mut visit: impl FnMut(Head, &mut Entry<'_, R>) -> Result<(), E>,
) -> Result<(), E> {
    let mut archive = Archive::new(reader);
    let mut description = Description::default();
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::GNULongName => description.name = Some(long(&mut entry)?),
            EntryType::GNULongLink => description.link = Some(long(&mut entry)?),
            EntryType::XHeader => description.extend(&bounded(&mut entry)?)?,
            // Describes all entries that follow; images have none that matter to us.
            EntryType::XGlobalHeader => {
                bounded(&mut entry)?;
            }
            _ => {
                let head = std::mem::take(&mut description).head(&entry)?;
                visit(head, &mut entry)?;
            }
        }
    }
    if description.is_empty() { Ok(()) } else { Err(bad("it ends with a description of nothing").into()) }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn bounded<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    let size = entry.header().entry_size()?;
    if size > DESCRIPTION_BYTES {
        return Err(bad("the description of an entry is too large"));
    }
    let mut bytes = Vec::new();
    entry.take(DESCRIPTION_BYTES).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A name of GNU's own way, with or without an end mark.
fn long<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    let mut name = bounded(entry)?;
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

/// What was said ahead about the next entry.
#[derive(Debug, Default)]
struct Description {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    owner: Option<u64>,
    group: Option<u64>,
    modified: Option<u64>,
    sparse: bool,
}

impl Description {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.size.is_none() && !self.sparse
    }

    /// Takes records `LENGTH KEY=VALUE\n` in.
    fn extend(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let malformed = || bad("an extended header is malformed");
        while !bytes.is_empty() {
            let blank = bytes.iter().position(|byte| *byte == b' ').ok_or_else(malformed)?;
            let length = bytes.get(..blank).and_then(number).and_then(|length| usize::try_from(length).ok());
            let (record, rest) = length.and_then(|length| bytes.split_at_checked(length)).ok_or_else(malformed)?;
            let record = record.get(blank + 1..).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(malformed)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
            let (key, value) = record.split_at_checked(equals).ok_or_else(malformed)?;
            let value = value.get(1..).unwrap_or_default();
            let whole = || number(value).ok_or_else(malformed);
            match key {
                b"path" => self.name = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => self.size = Some(whole()?),
                b"uid" => self.owner = Some(whole()?),
                b"gid" => self.group = Some(whole()?),
                // Fractions are cut; a time before 1970 is no time.
                b"mtime" => self.modified = value.split(|byte| *byte == b'.').next().and_then(number).or(Some(0)),
                _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                // Extended attributes among them: capabilities and labels of files are not for images to give.
                _ => {}
            }
            bytes = rest;
        }
        Ok(())
    }

    fn head<R: Read>(self, entry: &Entry<'_, R>) -> io::Result<Head> {
        let header: &Header = entry.header();
        let size = header.entry_size()?;
        if self.size.is_some_and(|said| said != size) {
            return Err(bad("an entry has two sizes"));
        }
        let link = || {
            let short = || header.link_name_bytes().map(|link| link.to_vec()).unwrap_or_default();
            self.link.clone().unwrap_or_else(short)
        };
        let path = self.name.clone().unwrap_or_else(|| header.path_bytes().to_vec());
        let kind = match header.entry_type() {
            _ if self.sparse => Kind::Sparse,
            // Before there was a type for directories, a slash at the end was it.
            EntryType::Regular if path.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink(link()),
            EntryType::Link => Kind::HardLink(link()),
            EntryType::Char | EntryType::Block | EntryType::Fifo => Kind::Special,
            EntryType::GNUSparse => Kind::Sparse,
            other => Kind::Unknown(other.as_byte()),
        };
        Ok(Head {
            path,
            kind,
            mode: or_zero(header.mode(), &header.as_old().mode)?,
            owner: self.owner.map_or_else(|| or_zero(header.uid(), &header.as_old().uid), Ok)?,
            group: self.group.map_or_else(|| or_zero(header.gid(), &header.as_old().gid), Ok)?,
            size,
            modified: self.modified.map_or_else(|| or_zero(header.mtime(), &header.as_old().mtime), Ok)?,
            position: entry.raw_file_position(),
        })
    }
}

/// Some writers leave fields empty that they have nothing to say in.
fn or_zero<T: Default>(number: io::Result<T>, field: &[u8]) -> io::Result<T> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) { Ok(T::default()) } else { number }
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use tar::Builder;

    use super::*;

    fn heads(bytes: &[u8]) -> io::Result<Vec<Head>> {
        let mut heads = Vec::new();
        visit(bytes, |head, _| {
            heads.push(head);
            Ok::<(), io::Error>(())
        })?;
        Ok(heads)
    }

    fn header(kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_path("name").unwrap();
        for set in [Header::set_uid, Header::set_gid, Header::set_mtime] {
            set(&mut header, 7);
        }
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    fn archive(entries: &[(EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (kind, content) in entries {
            builder.append(&header(*kind, content.len() as u64), *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn record(key: &str, value: &str) -> Vec<u8> {
        let rest = format!(" {key}={value}\n");
        let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length).unwrap();
        format!("{length}{rest}").into_bytes()
    }

    #[test]
    fn long_names_of_both_ways_are_put_together() {
        let long = "d/".repeat(200) + "new\nline";
        let gnu = archive(&[(EntryType::GNULongName, format!("{long}\0").as_bytes()), (EntryType::Regular, b"x")]);
        let pax = archive(&[(EntryType::XHeader, &record("path", &long)), (EntryType::Regular, b"x")]);
        for bytes in [gnu, pax] {
            let heads = heads(&bytes).unwrap();
            assert_eq!((heads.len(), &heads[0].path[..], heads[0].size), (1, long.as_bytes(), 1));
        }
    }

    #[test]
    fn a_description_is_for_one_entry_only() {
        let entries = [
            (
                EntryType::XHeader,
                &[record("path", "long"), record("uid", "4000000000"), record("mtime", "5.5")].concat()[..],
            ),
            (EntryType::Regular, b""),
            (EntryType::Regular, b""),
        ];
        let heads = heads(&archive(&entries)).unwrap();
        assert_eq!((&heads[0].path[..], heads[0].owner, heads[0].modified), (&b"long"[..], 4_000_000_000, 5));
        assert_eq!((&heads[1].path[..], heads[1].owner, heads[1].modified), (&b"name"[..], 7, 7));
    }

    #[test]
    fn contradictions_and_oversize_are_errors() {
        let regular = (EntryType::Regular, &b"x"[..]);
        for said in ["2", "x", "-1", ""] {
            assert!(heads(&archive(&[(EntryType::XHeader, &record("size", said)), regular])).is_err(), "{said}");
        }
        heads(&archive(&[(EntryType::XHeader, &record("size", "1")), regular])).unwrap();
        let large = vec![b'a'; DESCRIPTION_BYTES as usize + 1];
        for kind in [EntryType::GNULongName, EntryType::XHeader, EntryType::XGlobalHeader] {
            assert!(heads(&archive(&[(kind, &large), regular])).is_err());
        }
        assert!(heads(&archive(&[(EntryType::GNULongName, b"only a name\0")])).is_err());
        for malformed in ["", "x", "9 path=a", "99 path=a\n", "7 patha\n", "0 a=b\n", "1 a=b\n"] {
            let described = archive(&[(EntryType::XHeader, malformed.as_bytes()), regular]);
            assert_eq!(heads(&described).is_ok(), malformed.is_empty(), "{malformed:?}");
        }
    }

    #[test]
    fn holes_are_seen_in_both_ways() {
        let pax = archive(&[(EntryType::XHeader, &record("GNU.sparse.major", "1")), (EntryType::Regular, b"")]);
        assert_eq!(heads(&pax).unwrap()[0].kind, Kind::Sparse);
        assert_eq!(heads(&archive(&[(EntryType::GNUSparse, b"")])).unwrap()[0].kind, Kind::Sparse);
    }
}
