//! What is in the sandbox's file system.

use serde::Deserialize;

use super::super::wire::number;

/// What kind of thing has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else, or something that this program does not know.
    Other,
}

/// Something in the sandbox's file system. Names and paths are the sandbox's word: not to be used on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The last part of the path.
    pub name: String,
    /// The whole path in the sandbox.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// How many bytes it has.
    pub size: u64,
    /// The permission bits.
    pub mode: u32,
    /// The owner's name.
    pub owner: String,
    /// The group's name.
    pub group: String,
    /// When it was changed, as the server writes it.
    pub modified: String,
    /// Where a link leads.
    pub target: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EntryInfo {
    name: String,
    path: String,
    r#type: Kind,
    #[serde(deserialize_with = "number")]
    size: i64,
    mode: u32,
    owner: String,
    group: String,
    modified_time: String,
    symlink_target: Option<String>,
}

/// By name, or by number as protocol buffers allow.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kind {
    Name(String),
    Number(i32),
}

impl Default for Kind {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl From<EntryInfo> for Entry {
    fn from(info: EntryInfo) -> Self {
        let kind = match &info.r#type {
            Kind::Name(name) => match name.as_str() {
                "FILE_TYPE_FILE" => EntryKind::File,
                "FILE_TYPE_DIRECTORY" => EntryKind::Directory,
                "FILE_TYPE_SYMLINK" => EntryKind::Link,
                _ => EntryKind::Other,
            },
            Kind::Number(1) => EntryKind::File,
            Kind::Number(2) => EntryKind::Directory,
            Kind::Number(3) => EntryKind::Link,
            Kind::Number(_) => EntryKind::Other,
        };
        Self {
            name: info.name,
            path: info.path,
            kind,
            size: u64::try_from(info.size).unwrap_or_default(),
            mode: info.mode,
            owner: info.owner,
            group: info.group,
            modified: info.modified_time,
            target: info.symlink_target,
        }
    }
}
