//! Protected paths: what the box may not change in a tree that it may otherwise write.
//!
//! A path that is there becomes a read-only mount of itself; one that is not gets a placeholder on the host, as long as
//! the box lives, and an empty cover in the box. Every directory between the top of the tree and the path is mounted
//! onto itself, so that none can be renamed away and made anew.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use hotcell_core::backend::CreateError;
use hotcell_core::policy::{Access, FilesystemPolicy};
use hotcell_linux::wire::HERE;
use hotcell_linux::{CellSpec, Placeholder, PlaceholderKind, TreeOptions};

use super::lower::bad_path;

/// Protected names that are directories where they exist; their placeholders are too.
const DIRECTORIES: &[&str] = &[
    "hooks",
    "modules",
    "worktrees",
    "info",
    ".git",
    ".vscode",
    ".idea",
    ".zed",
    ".claude",
    ".codex",
    ".cursor",
    ".hotcell",
];

/// Says where the rest of a repository is; git accepts no empty one, and "here" is where it looks without.
const COMMON_DIRECTORY: &str = ".git/commondir";

const READ_ONLY: TreeOptions = TreeOptions {
    read_only: true,
    devices: false,
    no_exec: false,
    id_mapped: false,
    no_sockets: false,
    own_place: false,
};

/// Adds the steps that protect every protected path of the directly writable trees.
pub(super) fn add(spec: &mut CellSpec, policy: &FilesystemPolicy) -> Result<(), CreateError> {
    let mut done = Done::default();
    let mut covers = Vec::new();
    for protected in policy.protected_paths().iter().filter(|protected| protected.access == Access::Write) {
        if !protected.tree.is_dir() {
            // A single file that may be written has no names beneath it.
            continue;
        }
        let below = protected.path.strip_prefix(&protected.tree).unwrap_or(&protected.path);
        match find(&protected.tree, below)? {
            Found::Whole { pins, last } => {
                pins.into_iter().for_each(|pin| done.pin(spec, pin));
                if done.held.insert(last.clone()) {
                    covers.push(Held::ReadOnly(last));
                }
            }
            Found::Until { pins, missing } => {
                pins.into_iter().for_each(|pin| done.pin(spec, pin));
                if done.reserved.insert(missing.clone()) {
                    let kind = placeholder(spec, &protected.tree, &missing, missing != protected.path)?;
                    covers.push(Held::Empty(missing, kind));
                }
            }
        }
    }
    // After the pins: a mount below a directory that is mounted onto itself later would be hidden by that.
    for cover in covers {
        match cover {
            Held::ReadOnly(path) => spec.bind(&path, &path, READ_ONLY),
            Held::Empty(path, kind) => spec.mask(&path, kind.cover(true)),
        }
    }
    Ok(())
}

/// Keeps a denied path that does not exist from coming into existence in a writable tree.
pub(super) fn reserve(spec: &mut CellSpec, policy: &FilesystemPolicy, path: &Path) -> Result<(), CreateError> {
    let tree = policy.rules.iter().rev().find(|rule| rule.access == Access::Write && path.starts_with(&rule.path));
    let Some(tree) = tree.map(|rule| &rule.path) else { return Ok(()) };
    let below = path.strip_prefix(tree).unwrap_or(path);
    match find(tree, below)? {
        Found::Until { pins, missing } => {
            pins.iter().for_each(|pin| spec.pin(pin));
            let kind = placeholder(spec, tree, &missing, missing != path)?;
            spec.mask(&missing, kind.cover(false));
            Ok(())
        }
        Found::Whole { last, .. } => Err(bad_path(&last, "it appeared while the box was being made", "try again")),
    }
}

/// Keeps the directories between a writable tree and a path with a rule of its own in place: what is mounted onto the
/// path would else move along with a renamed parent, and leave its place free for something new.
pub(super) fn pin_above(spec: &mut CellSpec, policy: &FilesystemPolicy, path: &Path) {
    let Some(parent) = path.parent() else { return };
    let above = policy.rules.iter().rev().find(|rule| parent.starts_with(&rule.path));
    let Some(tree) = above.filter(|rule| rule.access == Access::Write) else { return };
    let mut between: Vec<&Path> = parent.ancestors().take_while(|ancestor| *ancestor != tree.path).collect();
    between.reverse();
    between.into_iter().for_each(|directory| spec.pin(directory));
}

#[derive(Default)]
struct Done {
    pinned: BTreeSet<PathBuf>,
    reserved: BTreeSet<PathBuf>,
    held: BTreeSet<PathBuf>,
}

impl Done {
    fn pin(&mut self, spec: &mut CellSpec, path: PathBuf) {
        if self.pinned.insert(path.clone()) {
            spec.pin(&path);
        }
    }
}

/// How a protected path is held: as it is, or as something that says nothing.
enum Held {
    ReadOnly(PathBuf),
    Empty(PathBuf, PlaceholderKind),
}

/// How much of a protected path exists, with the directories above it to be pinned.
pub(crate) enum Found {
    /// All of it, up to `last`: the path itself, or a file above it, below which nothing can be.
    Whole { pins: Vec<PathBuf>, last: PathBuf },
    /// Nothing from `missing` on.
    Until { pins: Vec<PathBuf>, missing: PathBuf },
}

pub(crate) fn find(tree: &Path, below: &Path) -> Result<Found, CreateError> {
    let mut path = tree.to_owned();
    let mut pins = Vec::new();
    let parts: Vec<Component<'_>> = below.components().collect();
    for (index, part) in parts.iter().enumerate() {
        path.push(part);
        let last = index + 1 == parts.len();
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) if is_placeholder(&path, &metadata) => return Ok(Found::Until { pins, missing: path }),
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Found::Until { pins, missing: path });
            }
            Err(error) => return Err(bad_path(&path, &error.to_string(), "it is protected, and must be looked at")),
        };
        if metadata.is_symlink() {
            return Err(bad_path(
                &path,
                "it is protected and a symbolic link, which cannot be held",
                "replace it by what it points to, make the tree an overlay, or list it under `unprotect`",
            ));
        }
        if last {
            if metadata.is_file() && metadata.nlink() > 1 {
                return Err(bad_path(
                    &path,
                    "it is protected but has another name (a hard link), through which it could be changed",
                    "make it a file of its own (copy it and move the copy over it), or list it under `unprotect`",
                ));
            }
        } else if metadata.is_dir() {
            pins.push(path.clone());
        } else {
            // `.git` that is a file (a work tree or submodule): what would be below it cannot exist, but the file itself
            // says where the repository is. It is held as it is.
            return Ok(Found::Whole { pins, last: path });
        }
    }
    Ok(Found::Whole { pins, last: path })
}

/// Whether this is another box's placeholder, by its mode and because it is empty. This box then needs a share in it, or
/// it would go when the other box ends, and take what is mounted on it along.
pub(crate) fn is_placeholder(path: &Path, metadata: &fs::Metadata) -> bool {
    match metadata.mode() {
        0o041_700 => fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        0o101_600 => metadata.len() <= HERE.len() as u64,
        _ => false,
    }
}

/// Asks for a placeholder, and says what it is: a directory if more of the path would come `below` it.
pub(crate) fn placeholder(
    spec: &mut CellSpec,
    tree: &Path,
    missing: &Path,
    below: bool,
) -> Result<PlaceholderKind, CreateError> {
    let metadata = fs::metadata(tree).map_err(|error| bad_path(tree, &error.to_string(), "name a path that exists"))?;
    let name = missing.file_name().unwrap_or_default();
    let kind = if below || DIRECTORIES.iter().any(|directory| name == *directory) {
        PlaceholderKind::Directory
    } else if missing.ends_with(COMMON_DIRECTORY) {
        PlaceholderKind::Here
    } else {
        PlaceholderKind::File
    };
    spec.placeholder(Placeholder {
        root: tree.to_owned(),
        root_identity: (metadata.dev(), metadata.ino()),
        path: missing.strip_prefix(tree).unwrap_or(missing).to_owned(),
        kind,
    });
    Ok(kind)
}
