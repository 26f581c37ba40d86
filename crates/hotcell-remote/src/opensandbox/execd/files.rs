//! Files and directories in a sandbox.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::super::http::CallError;
use super::super::timestamp;
use super::Execd;

/// The most that is taken of a list of files.
const MOST_OF_LIST: u64 = 64 << 20;

/// A file, directory or link, as execd describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Where it is. Bytes that are not UTF-8 come as U+FFFD, so that such a path leads nowhere.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// How many bytes it has.
    pub size: u64,
    /// When it was changed.
    pub modified: Option<SystemTime>,
    /// Whose it is: a name, or a number where there is none.
    pub owner: String,
    /// Which group's it is.
    pub group: String,
    /// The permissions, such as `0o644`.
    pub mode: u32,
}

/// What a path leads to; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket, or the server does not say.
    Other,
}

/// Whose a file is and what may be done with it. What is not said of the owner and the group becomes execd's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Permissions {
    /// From `0o1` to `0o777`; none leaves it. Execd can set no other bits, and not none at all.
    pub mode: Option<u32>,
    /// The owner's name. Execd passes over one that it does not know.
    pub owner: Option<String>,
    /// The group's name. Execd passes over one that it does not know.
    pub group: Option<String>,
}

impl Permissions {
    /// This mode, such as `0o644`.
    pub fn mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }
}

#[derive(Serialize)]
pub(super) struct PermissionsRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<&'a str>,
    mode: u32,
    owner: &'a str,
    group: &'a str,
}

#[derive(Deserialize)]
struct InfoAnswer {
    path: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    size: u64,
    modified_at: Option<String>,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    mode: u32,
}

#[derive(Deserialize)]
struct ReplaceAnswer {
    #[serde(rename = "replacedCount")]
    replaced_count: u64,
}

impl Execd {
    /// What is at a path; 404 where nothing is.
    pub async fn info(&self, path: &str) -> Result<FileInfo, CallError> {
        let operation = "look at a file";
        let [info] = self.infos(operation, &[self.named(operation, path)?.to_owned()]).await?;
        Ok(info)
    }

    /// What is at each of some paths; 404 where nothing is at one of them.
    pub(super) async fn infos<const N: usize>(
        &self,
        operation: &'static str,
        paths: &[String; N],
    ) -> Result<[FileInfo; N], CallError> {
        let mut call = self.server.get(operation, &["files", "info"]);
        for path in paths {
            call = call.query("path", path);
        }
        let mut answer: BTreeMap<String, InfoAnswer> = call.send().await?.json().await?;
        let found: Option<Vec<InfoAnswer>> = paths.iter().map(|path| answer.remove(path)).collect();
        let found = found.ok_or_else(|| self.garbled(operation, "it speaks of other files"))?;
        let found: Result<Vec<FileInfo>, CallError> =
            found.into_iter().map(|info| self.file(operation, info)).collect();
        found?.try_into().map_err(|_| self.garbled(operation, "it speaks of other files"))
    }

    /// What is in a directory, and in those below it down to `depth`; 1 is the directory alone. Links are not followed.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<FileInfo>, CallError> {
        let operation = "list a directory";
        let call = self.server.get(operation, &["directories", "list"]).query("path", self.named(operation, path)?);
        let answer = call.query("depth", &depth.to_string()).send().await?.bytes_up_to(MOST_OF_LIST).await?;
        self.file_list(operation, &answer)
    }

    /// The files below a directory whose name matches a pattern such as `*.rs`.
    pub async fn search(&self, path: &str, pattern: &str) -> Result<Vec<FileInfo>, CallError> {
        let operation = "search for files";
        let call = self.server.get(operation, &["files", "search"]).query("path", self.named(operation, path)?);
        let answer = call.query("pattern", pattern).send().await?.bytes_up_to(MOST_OF_LIST).await?;
        self.file_list(operation, &answer)
    }

    /// Makes a directory and those above it. One that is there gets the permissions.
    pub async fn make_directory(&self, path: &str, permissions: &Permissions) -> Result<(), CallError> {
        let operation = "make a directory";
        let body = json!({ self.named(operation, path)?: self.permissions(operation, permissions)? });
        self.server.post(operation, &["directories"]).json(&body).repeatable(true).send().await?.bytes().await.map(drop)
    }

    /// Removes a directory and all that is in it. One that is not there is as good as removed.
    pub async fn remove_directory(&self, path: &str) -> Result<(), CallError> {
        let operation = "remove a directory";
        let call = self.server.delete(operation, &["directories"]).query("path", self.named(operation, path)?);
        call.send().await?.bytes().await.map(drop)
    }

    /// Removes a file. One that is not there is as good as removed; a directory is an error. Of a link, execd looks at what it
    /// leads to, and so does not remove one that leads nowhere.
    pub async fn remove_file(&self, path: &str) -> Result<(), CallError> {
        let operation = "remove a file";
        let call = self.server.delete(operation, &["files"]).query("path", self.named(operation, path)?);
        call.send().await?.bytes().await.map(drop)
    }

    /// Moves a file or a directory to where nothing is, and makes the directories above that.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), CallError> {
        let operation = "move a file";
        let body = json!([{ "src": self.named(operation, from)?, "dest": self.named(operation, to)? }]);
        self.server.post(operation, &["files", "mv"]).json(&body).send().await?.bytes().await.map(drop)
    }

    /// Sets the permissions of a file or directory.
    pub async fn set_permissions(&self, path: &str, permissions: &Permissions) -> Result<(), CallError> {
        let operation = "set a file's permissions";
        let body = json!({ self.named(operation, path)?: self.permissions(operation, permissions)? });
        let call = self.server.post(operation, &["files", "permissions"]).json(&body).repeatable(true);
        call.send().await?.bytes().await.map(drop)
    }

    /// Replaces a text everywhere in a file. Says how often it was there; servers before 1.0.13 do not say.
    pub async fn replace(&self, path: &str, old: &str, new: &str) -> Result<Option<u64>, CallError> {
        let operation = "replace in a file";
        let body = json!({ self.named(operation, path)?: { "old": old, "new": new } });
        let call = self.server.post(operation, &["files", "replace"]).query("verbose", "true").json(&body);
        let answer = call.send().await?.bytes().await?;
        if answer.is_empty() {
            return Ok(None);
        }
        let mut answer: BTreeMap<String, ReplaceAnswer> =
            serde_json::from_slice(&answer).map_err(|error| self.garbled(operation, error.to_string()))?;
        Ok(answer.remove(path).map(|answer| answer.replaced_count))
    }

    fn file_list(&self, operation: &'static str, answer: &[u8]) -> Result<Vec<FileInfo>, CallError> {
        let answer: Vec<InfoAnswer> =
            serde_json::from_slice(answer).map_err(|error| self.garbled(operation, error.to_string()))?;
        answer.into_iter().map(|info| self.file(operation, info)).collect()
    }

    fn file(&self, operation: &'static str, answer: InfoAnswer) -> Result<FileInfo, CallError> {
        let kind = match answer.kind.as_deref() {
            Some("file") => FileKind::File,
            Some("directory") => FileKind::Directory,
            Some("symlink") => FileKind::Symlink,
            _ => FileKind::Other,
        };
        let mode = from_digits(answer.mode).ok_or_else(|| self.garbled(operation, "a file's mode is none"))?;
        Ok(FileInfo {
            path: answer.path,
            kind,
            size: answer.size,
            modified: answer.modified_at.as_deref().and_then(timestamp::parse),
            owner: answer.owner,
            group: answer.group,
            mode,
        })
    }

    pub(super) fn permissions<'a>(
        &self,
        operation: &'static str,
        permissions: &'a Permissions,
    ) -> Result<PermissionsRequest<'a>, CallError> {
        let mode = match permissions.mode {
            // Execd takes 0 as "leave it".
            None => 0,
            Some(mode @ 0o1..=0o777) => to_digits(mode),
            Some(mode) => return Err(self.impossible(operation, format!("it cannot set the mode {mode:#o}"))),
        };
        let (owner, group) =
            (permissions.owner.as_deref().unwrap_or_default(), permissions.group.as_deref().unwrap_or_default());
        Ok(PermissionsRequest { path: None, mode, owner, group })
    }
}

/// The decimal number that looks like the octal one: 0o644 is 644.
fn to_digits(mode: u32) -> u32 {
    (mode >> 6 & 7) * 100 + (mode >> 3 & 7) * 10 + (mode & 7)
}

/// The inverse of [`to_digits`]; up to four digits.
fn from_digits(digits: u32) -> Option<u32> {
    u32::from_str_radix(&digits.to_string(), 8).ok().filter(|mode| *mode <= 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_in_digits_that_look_octal() {
        assert_eq!((to_digits(0o644), to_digits(0o7), to_digits(0o777)), (644, 7, 777));
        assert_eq!((from_digits(644), from_digits(1777), from_digits(0)), (Some(0o644), Some(0o1777), Some(0)));
        assert_eq!((from_digits(648), from_digits(17_777), from_digits(420_000_000)), (None, None, None));
        for mode in 1..=0o777 {
            assert_eq!(from_digits(to_digits(mode)), Some(mode));
        }
    }
}
