//! The controls: what is raced against, done by name after a check of the name. They have to lose.

use std::fs;
use std::io;
use std::path::Path;

use super::Outcome;
use super::ground::{CANARY, Ground, OUTSIDE_ONLY};

/// What somebody does on the host on behalf of the code in the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    List,
    MakeDirectory,
    Remove,
}

impl Operation {
    pub(super) const ALL: [Self; 5] = [Self::Read, Self::Write, Self::List, Self::MakeDirectory, Self::Remove];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read a file",
            Self::Write => "write a file",
            Self::List => "list a directory",
            Self::MakeDirectory => "make a directory",
            Self::Remove => "remove a tree",
        }
    }
}

/// Does it by name, once. That the canary was changed is for the caller to see.
pub(super) fn attempt(operation: Operation, ground: &Ground, number: u64) -> Outcome {
    let spot = ground.spot();
    let checked = match operation {
        Operation::Read | Operation::Write => spot.join("file"),
        _ => spot.clone(),
    };
    if operation == Operation::Remove {
        // Something to remove, wherever that leads now: the canary has it already.
        let _ = fs::create_dir_all(spot.join("victim/inner"));
    }
    if !ground.seems_inside(&checked) {
        return Outcome::Refused;
    }
    let result = match operation {
        Operation::Read => match fs::read(&checked) {
            Ok(bytes) if bytes == CANARY => return Outcome::Escaped,
            other => other.map(|_| ()),
        },
        Operation::Write => fs::write(&checked, super::ground::INSIDE),
        Operation::List => match names(&spot) {
            Ok(names) if names.iter().any(|name| name == OUTSIDE_ONLY) => return Outcome::Escaped,
            other => other.map(|_| ()),
        },
        Operation::MakeDirectory => fs::create_dir(spot.join(format!("made-{number}"))),
        Operation::Remove => remove(&spot.join("victim")),
    };
    if result.is_ok() { Outcome::Inside } else { Outcome::Refused }
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Removes a tree by names, looking at each before.
fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for name in names(path)? {
            remove(&path.join(name))?;
        }
        return fs::remove_dir(path);
    }
    fs::remove_file(path)
}
