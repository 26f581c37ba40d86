//! `list_files`: what is in a directory of the box.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use hotcell_core::backend::{FileEntry, FileKind, Files, FilesError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::access::{self, Shared};
use super::result::Render;
use super::rules::Wish;
use super::{ToolError, Toolbox, text};

/// The most entries of one directory that are looked at.
const MOST_IN_ONE: u64 = 20_000;
/// The most directories that one call looks into.
const MOST_DIRECTORIES: usize = 10_000;
/// The deepest that one call looks.
const DEEPEST: u32 = 64;
/// How many streams' worth of text the paths of all entries take.
const MOST_TEXTS: usize = 4;
/// How much of a path is shown that could not be listed.
const SHOWN_PATH: usize = 200;
/// The longest glob.
const LONGEST_GLOB: usize = 1024;

/// What `list_files` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFiles {
    /// The directory, relative to the workspace or absolute, in the box. Default: the workspace.
    #[serde(default)]
    pub path: Option<String>,
    /// How deep to look: 1 (default without a glob) is the directory itself. With a glob the default is all the way down.
    #[serde(default)]
    #[schemars(range(min = 1, max = DEEPEST))]
    pub depth: Option<u32>,
    /// Only what matches, by its path from the directory on: `*.rs`, `src/**/*.{ts,tsx}`. A glob without `/` matches names at any
    /// depth. `.git` is not looked into unless `path` is inside it.
    #[serde(default)]
    pub glob: Option<String>,
}

/// What `list_files` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ListFilesResult {
    /// The directory.
    pub path: String,
    /// What is in it, a directory before what is in that.
    pub entries: Vec<ListedFile>,
    /// Why this is not all, if it is not.
    pub incomplete: Option<String>,
}

/// Something that has a name in the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ListedFile {
    /// Its path, from the workspace on where it is in there.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a file in bytes.
    pub size: Option<u64>,
    /// Whether the name has characters that are shown otherwise, so that `path` does not name it.
    pub odd_name: bool,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it is not followed.
    Link,
    /// A socket, a pipe or a device.
    Other,
}

impl From<FileKind> for EntryKind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::File => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Link => Self::Link,
            _ => Self::Other,
        }
    }
}

impl Render for ListFilesResult {
    fn text(&self) -> String {
        let mut shown = format!("{}: {} entries", self.path, self.entries.len());
        if let Some(why) = &self.incomplete {
            shown.push_str(&format!(" (incomplete: {why})"));
        }
        for entry in &self.entries {
            let mark = match entry.kind {
                EntryKind::Directory => "/",
                EntryKind::Link => "@",
                EntryKind::Other => "?",
                EntryKind::File => "",
            };
            let size = entry.size.map(|size| format!("  {size}")).unwrap_or_default();
            shown.push_str(&format!("\n{}{mark}{size}", entry.path));
        }
        shown
    }
}

impl Toolbox {
    /// Lists a directory of the box.
    pub async fn list_files(&self, input: ListFiles) -> Result<ListFilesResult, ToolError> {
        self.shared.until_closed(list(&self.shared, input)).await
    }
}

async fn list(shared: &Shared, input: ListFiles) -> Result<ListFilesResult, ToolError> {
    let top = shared.path(input.path.as_deref().unwrap_or("."))?;
    let glob = input.glob.as_deref().map(Glob::new).transpose()?;
    let depth = input.depth.unwrap_or(if glob.is_some() { DEEPEST } else { 1 });
    let sandbox = shared.sandbox().await?;
    let files = access::files(&*sandbox)?;
    let mut walk = Walk::new(shared, top.clone(), depth)?;
    let mut entries = Vec::new();
    let mut room = shared.options.limits.text.saturating_mul(MOST_TEXTS);
    loop {
        let found = match walk.next(files).await {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => return Err(shared.files_error(&*sandbox, &error, &top, Wish::Read).await),
        };
        for entry in found {
            if glob.as_ref().is_some_and(|glob| !glob.matches(&entry.path, &top)) {
                continue;
            }
            if entries.len() == shared.options.limits.entries || room == 0 {
                walk.stop(format!("only {} entries are shown", entries.len()));
                break;
            }
            let listed = listed(shared, &entry);
            room = room.saturating_sub(listed.path.len());
            entries.push(listed);
        }
    }
    entries.sort_by(|a: &ListedFile, b| a.path.cmp(&b.path));
    Ok(ListFilesResult { path: shared.shown(&top), entries, incomplete: walk.incomplete })
}

fn listed(shared: &Shared, entry: &FileEntry) -> ListedFile {
    let path = shared.shown(&entry.path);
    let odd_name = !entry.path.to_str().is_some_and(|real| real.ends_with(&path));
    let size = (entry.kind == FileKind::File).then_some(entry.size);
    ListedFile { path, kind: entry.kind.into(), size, odd_name }
}

/// A pattern for paths.
pub(super) struct Glob {
    matcher: GlobMatcher,
    by_name: bool,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        if pattern.len() > LONGEST_GLOB {
            return Err(ToolError::invalid(format!(
                "the glob has {} bytes, {LONGEST_GLOB} are possible",
                pattern.len()
            )));
        }
        let bad = |error: globset::Error| {
            ToolError::invalid(format!("the glob is not valid: {}", text::line(&error.to_string())))
        };
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(bad)?;
        Ok(Self { matcher: glob.compile_matcher(), by_name: !pattern.contains('/') })
    }

    pub(super) fn matches(&self, path: &Path, top: &Path) -> bool {
        let inside = if self.by_name { path.file_name().map(Path::new) } else { path.strip_prefix(top).ok() };
        inside.is_some_and(|inside| self.matcher.is_match(inside))
    }
}

/// A walk through directories of the box, one after the other, within bounds. Links are not followed.
pub(super) struct Walk {
    pending: VecDeque<(PathBuf, u32)>,
    depth: u32,
    seen: usize,
    deadline: Instant,
    /// Why it did not see all, if it did not.
    pub(super) incomplete: Option<String>,
}

impl Walk {
    pub(super) fn new(shared: &Shared, top: PathBuf, depth: u32) -> Result<Self, ToolError> {
        if depth == 0 {
            return Err(ToolError::invalid("`depth` is 0").instead("1 is the directory itself"));
        }
        let deadline = shared.deadline();
        let depth = depth.min(DEEPEST);
        Ok(Self { pending: VecDeque::from([(top, 1)]), depth, seen: 0, deadline, incomplete: None })
    }

    /// What is in the next directory; none at the end. An error is about the first.
    pub(super) async fn next(&mut self, files: &dyn Files) -> Result<Option<Vec<FileEntry>>, FilesError> {
        while let Some((directory, level)) = self.pending.pop_front() {
            if Instant::now() >= self.deadline {
                self.stop("it took too long".to_owned());
                return Ok(None);
            }
            self.seen += 1;
            let found = match files.list(&directory, MOST_IN_ONE).await {
                Ok(found) => found,
                Err(FilesError::Lost { reason }) => return Err(FilesError::Lost { reason }),
                Err(error) if self.seen == 1 => return Err(error),
                Err(error) => {
                    let path = text::cut(&text::path(&directory), SHOWN_PATH);
                    let why = format!("{path} could not be listed: {error}");
                    self.incomplete.get_or_insert(why);
                    continue;
                }
            };
            if level < self.depth {
                self.remember(&found, level + 1);
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Goes into these directories later, as far as there is room: those that wait take memory too.
    fn remember(&mut self, found: &[FileEntry], level: u32) {
        let is_repository = |entry: &FileEntry| entry.path.file_name().is_some_and(|name| name == ".git");
        let mut deeper = found.iter().filter(|entry| entry.kind == FileKind::Directory && !is_repository(entry));
        let room = MOST_DIRECTORIES.saturating_sub(self.seen + self.pending.len());
        self.pending.extend(deeper.by_ref().take(room).map(|entry| (entry.path.clone(), level)));
        if deeper.next().is_some() {
            let why = || format!("there are more than {MOST_DIRECTORIES} directories");
            self.incomplete.get_or_insert_with(why);
        }
    }

    /// Ends the walk before its end.
    pub(super) fn stop(&mut self, why: String) {
        self.pending.clear();
        self.incomplete = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_wait_are_bounded() {
        let directory =
            |n: usize| FileEntry { path: format!("/w/{n}").into(), kind: FileKind::Directory, size: 0, mode: 0o755 };
        let found: Vec<FileEntry> = (0..MOST_DIRECTORIES).map(directory).collect();
        let mut walk = Walk { pending: VecDeque::new(), depth: 9, seen: 1, deadline: Instant::now(), incomplete: None };
        walk.remember(&found[1..], 2);
        assert_eq!((walk.seen + walk.pending.len(), &walk.incomplete), (MOST_DIRECTORIES, &None));
        for _ in 0..3 {
            walk.remember(&found, 2);
            assert_eq!(walk.seen + walk.pending.len(), MOST_DIRECTORIES);
            assert!(walk.incomplete.is_some());
        }
    }
}
