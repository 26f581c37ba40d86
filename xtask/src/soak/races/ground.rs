//! Where a race takes place: a tree in which a directory and a link that leads out of it change places.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Result;

/// What is to be found in the tree.
pub(super) const INSIDE: &[u8] = b"inside";
/// What must never be read, nor change.
pub(super) const CANARY: &[u8] = b"CANARY: this is outside of the tree";
/// A name that only the canary has.
pub(super) const OUTSIDE_ONLY: &str = "outside-only";

/// A tree with a directory and a link, and the canary that the link leads to.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) tree: PathBuf,
    pub(super) canary: PathBuf,
    name: &'static str,
}

impl Ground {
    /// Makes it; the directory in the tree has this name.
    pub(super) fn new(place: &Path, name: &'static str) -> Result<Self> {
        let ground = Self { tree: place.join("tree"), canary: place.join("canary"), name };
        fs::create_dir_all(ground.spot().join("victim/inner"))?;
        fs::write(ground.spot().join("file"), INSIDE)?;
        fs::create_dir_all(ground.canary.join("victim/inner"))?;
        fs::write(ground.canary.join("file"), CANARY)?;
        fs::write(ground.canary.join(OUTSIDE_ONLY), CANARY)?;
        // Looks like something that a box left behind, which the next box may remove.
        fs::write(ground.canary.join("config"), "")?;
        fs::set_permissions(ground.canary.join("config"), fs::Permissions::from_mode(0o1600))?;
        symlink(&ground.canary, ground.link())?;
        Ok(ground)
    }

    /// The directory, or the link when they have changed places.
    pub(super) fn spot(&self) -> PathBuf {
        self.tree.join(self.name)
    }

    /// The link, or the directory.
    pub(super) fn link(&self) -> PathBuf {
        self.tree.join("link")
    }

    /// Whether there still are a directory and a link to swap. (They may change places between two looks.)
    pub(super) fn is_intact(&self) -> bool {
        let is_link = |path: PathBuf| fs::symlink_metadata(path).ok().map(|data| data.is_symlink());
        (0..100).any(|_| match (is_link(self.spot()), is_link(self.link())) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        })
    }

    /// The canary as it is now, with the times of its last changes: what was put there and taken away again shows too.
    pub(super) fn canary_state(&self) -> Vec<String> {
        let mut state = Vec::new();
        describe(&self.canary, &mut state);
        state
    }

    /// A check of paths as it is often done: where does this lead, and is that in the tree?
    pub(super) fn seems_inside(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| path.starts_with(&self.tree))
    }
}

fn describe(path: &Path, state: &mut Vec<String>) {
    let Ok(data) = fs::symlink_metadata(path) else {
        state.push(format!("{} is gone", path.display()));
        return;
    };
    let content = if data.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() };
    let changed = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
    state.push(format!("{} {:o} {changed:?} {content:?}", path.display(), data.mode()));
    if data.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        inside.sort();
        inside.iter().for_each(|path| describe(path, state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_the_canary_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let ground = Ground::new(&place.path().canonicalize().unwrap(), "spot").unwrap();
        let change = |change: &dyn Fn()| {
            let before = ground.canary_state();
            assert_eq!(before, ground.canary_state(), "a look changes nothing");
            std::thread::sleep(std::time::Duration::from_millis(20));
            change();
            assert_ne!(before, ground.canary_state());
        };
        change(&|| fs::write(ground.canary.join("file"), CANARY).unwrap());
        change(&|| {
            fs::create_dir(ground.canary.join("hooks")).unwrap();
            fs::remove_dir(ground.canary.join("hooks")).unwrap();
        });
        change(&|| fs::remove_dir(ground.canary.join("victim/inner")).unwrap());
        assert!(ground.seems_inside(&ground.spot()) && !ground.seems_inside(&ground.link()));
    }
}
