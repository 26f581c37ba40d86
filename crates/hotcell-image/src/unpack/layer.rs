//! The entries of one layer.

use std::io::{self, Read};

use hotcell_core::text::Printable;

use super::Unpacker;
use super::tree::{Attributes, Problem};
use crate::compression::exceeded;
use crate::error::ImageError;
use crate::tarball::{self, Head, Kind};

/// What marks that something of the layers below is deleted.
const WHITEOUT: &[u8] = b".wh.";
/// What marks that everything of the layers below is deleted in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Notes of a file system to itself.
const OTHER_MARKS: &[u8] = b".wh..wh.";

/// What is wrong, before it is said of which layer.
enum Trouble {
    Read(io::Error),
    Entry(Vec<u8>, Problem),
    TooLarge(&'static str, u64),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl Unpacker {
    /// Unpacks the next layer, a tar that is not compressed; `label` is how messages call it.
    pub fn layer(&mut self, reader: impl Read, label: &str) -> Result<(), ImageError> {
        self.tree.begin_layer();
        tarball::visit(reader, |head, content| self.entry(&head, content)).map_err(|trouble| match trouble {
            Trouble::Read(error) => match exceeded(&error) {
                Some(limit) => {
                    ImageError::TooLarge { image: label.to_owned(), what: "it unpacks to too many bytes", limit }
                }
                None => ImageError::Corrupt { what: label.to_owned(), why: error.to_string() },
            },
            Trouble::Entry(path, problem) => {
                let entry = Printable(&String::from_utf8_lossy(&path)).to_string();
                match problem {
                    Problem::Hostile(why) => {
                        ImageError::Hostile { layer: label.to_owned(), entry, why: why.to_owned() }
                    }
                    Problem::System(error) => ImageError::Unpack { layer: label.to_owned(), entry, error },
                }
            }
            Trouble::TooLarge(what, limit) => ImageError::TooLarge { image: label.to_owned(), what, limit },
        })
    }

    fn entry(&mut self, head: &Head, content: &mut impl Read) -> Result<(), Trouble> {
        self.entries = self.entries.saturating_add(1);
        // A header is 512 bytes: entries without content use the disk too.
        self.bytes = self.bytes.saturating_add(512);
        if self.entries > self.limits.entries {
            return Err(Trouble::TooLarge("it has too many entries", self.limits.entries));
        }
        let of_entry = |problem| Trouble::Entry(head.path.clone(), problem);
        let path = Path::new(&head.path, self.limits.path_bytes).map_err(of_entry)?;
        let attributes = self.attributes(head).map_err(of_entry)?;
        let Some((parent, name)) = path.split() else {
            // The root itself: it is there already.
            return match head.kind {
                Kind::Directory => self.tree.set_root(attributes).map_err(of_entry),
                _ => Err(of_entry(Problem::Hostile("it is not a directory but would be the root"))),
            };
        };
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            return self.whiteout(&parent, name, hidden).map_err(of_entry);
        }
        match &head.kind {
            Kind::Directory => self.tree.directory(&parent, name, attributes).map_err(of_entry),
            Kind::File => {
                self.bytes = self.bytes.saturating_add(head.size);
                if self.bytes > self.limits.unpacked_bytes {
                    return Err(Trouble::TooLarge("it unpacks to too many bytes", self.limits.unpacked_bytes));
                }
                let file = self.tree.file(&parent, name).map_err(of_entry)?;
                copy(content, &file, head)?;
                file.finish(attributes).map_err(|error| of_entry(Problem::System(error)))
            }
            Kind::Symlink(target) => {
                let target = link_target(target, self.limits.path_bytes).map_err(of_entry)?;
                self.tree.symlink(&parent, name, target, attributes).map_err(of_entry)
            }
            Kind::HardLink(target) => {
                let target = Path::new(target, self.limits.path_bytes).map_err(of_entry)?;
                let Some((target_parent, target_name)) = target.split() else {
                    return Err(of_entry(Problem::Hostile("it is a link to the root")));
                };
                self.tree.hard_link(&parent, name, &target_parent, target_name).map_err(of_entry)
            }
            // Boxes have devices of their own, and pipes of an image have nobody at their other end.
            Kind::Special => Ok(()),
            Kind::Sparse => Err(of_entry(Problem::Hostile("it has holes in a way that images do not use"))),
            Kind::Unknown(_) => Err(of_entry(Problem::Hostile("it is of an unknown kind"))),
        }
    }

    fn whiteout(&mut self, parent: &[u8], name: &[u8], hidden: &[u8]) -> Result<(), Problem> {
        match hidden {
            _ if name == OPAQUE => self.tree.hide_all(parent),
            _ if name.starts_with(OTHER_MARKS) => Ok(()),
            b"" | b"." | b".." => Err(Problem::Hostile("it would delete what is not in its directory")),
            hidden => self.tree.hide(parent, hidden),
        }
    }

    fn attributes(&self, head: &Head) -> Result<Attributes, Problem> {
        let id = |id: u64| {
            // The highest number means "nobody is asked for" to the kernel.
            u32::try_from(id)
                .ok()
                .filter(|id| *id != u32::MAX)
                .ok_or(Problem::Hostile("its owner has an impossible number"))
        };
        Ok(Attributes { mode: head.mode, owner: id(head.owner)?, group: id(head.group)?, modified: head.modified })
    }
}

/// Copies a file's content: all of it or an error.
fn copy(content: &mut impl Read, file: &super::tree::NewFile, head: &Head) -> Result<(), Trouble> {
    let mut buffer = vec![0; 1 << 16];
    let mut left = head.size;
    while left > 0 {
        let count = match content.read(&mut buffer) {
            Ok(0) => return Err(Trouble::Read(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends inside a file"))),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Trouble::Read(error)),
        };
        file.write(buffer.get(..count).unwrap_or_default())
            .map_err(|error| Trouble::Entry(head.path.clone(), Problem::System(error)))?;
        left = left.saturating_sub(count as u64);
    }
    Ok(())
}

/// The target is only text until a box follows it, within its own root.
fn link_target(target: &[u8], longest: usize) -> Result<&[u8], Problem> {
    match target {
        [] => Err(Problem::Hostile("it is a link to nothing")),
        _ if target.contains(&0) => Err(Problem::Hostile("its target has a zero byte")),
        _ if target.len() > longest => Err(Problem::Hostile("its target is too long")),
        _ => Ok(target),
    }
}

/// A path of an entry: names without `.` and `..`, from the root.
struct Path<'a>(Vec<&'a [u8]>);

impl<'a> Path<'a> {
    fn new(path: &'a [u8], longest: usize) -> Result<Self, Problem> {
        if path.len() > longest {
            return Err(Problem::Hostile("its path is too long"));
        }
        if path.contains(&0) {
            return Err(Problem::Hostile("its path has a zero byte"));
        }
        // A slash in front means the image's root, as everywhere in an image.
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, [] | b".")).collect();
        if names.contains(&&b".."[..]) {
            return Err(Problem::Hostile("its path has `..`"));
        }
        Ok(Self(names))
    }

    /// The directory, and the name in it; nothing for the root.
    fn split(&self) -> Option<(Vec<u8>, &'a [u8])> {
        let (name, parent) = self.0.split_last()?;
        Some((parent.join(&b'/'), name))
    }
}
