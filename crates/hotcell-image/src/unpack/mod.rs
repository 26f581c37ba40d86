//! Layers to files, whoever wrote the layers.
//!
//! - Every file is made beneath one pinned directory. Links of the image are resolved as if that directory were `/`, by the kernel;
//!   the last name of a path is never followed.
//! - Paths with `..`, hard links to anything but files of the image, and archives that contradict themselves are refused.
//! - Devices and pipes are left out; set-user-id and set-group-id bits, extended attributes and file capabilities are dropped.
//! - Entries, bytes, path lengths and depth are bounded, see [`Limits`].
//! - As root, files belong to whom the layer says; otherwise to the user who unpacks, and can be read and removed by them.

mod layer;
mod removal;
mod tree;

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

pub(crate) use removal::children;
pub use removal::{remove_tree, tree_size};

use crate::limits::Limits;
use tree::Tree;

/// Unpacks layers, lowest first, into one directory.
#[derive(Debug)]
pub struct Unpacker {
    tree: Tree,
    limits: Limits,
    entries: u64,
    bytes: u64,
}

impl Unpacker {
    /// For an empty directory that nobody else writes to.
    pub fn new(directory: &Path, limits: Limits) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let privileged = rustix::process::geteuid().is_root();
        rustix::fs::fchmod(&root, Mode::from_raw_mode(0o755))?;
        Ok(Self { tree: Tree::new(root, privileged, limits.depth)?, limits, entries: 0, bytes: 0 })
    }

    /// Waits until everything is on disk.
    pub fn finish(self) -> io::Result<()> {
        self.tree.sync()
    }
}
