//! Boxes that our own init serves, whoever made them: their commands, output, limits, files and overlays.
//!
//! A backend makes a [`Cell`] and says what is in it with [`Parts`]; everything from there on is the same for all.

pub(crate) mod asked;
pub(crate) mod environment;
mod files;
pub(crate) mod output;
mod process;
mod sandbox;
mod tool_files;
mod watch;
pub(crate) mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use hotcell_core::backend::{CreateError, SandboxId};
use hotcell_core::plan::Plan;
use hotcell_linux::Cell;

pub(crate) use sandbox::CellSandbox;
pub(crate) use workspace::{OverlayTree, Upper};

/// The user's directory in a box: its private, writable workspace.
pub(crate) const HOME: &str = "/home/hotcell";

/// How the user of a box is called in it.
pub(crate) fn user_name(uid: u32) -> &'static str {
    if uid == 0 { "root" } else { "hotcell" }
}

/// What a backend knows of the box that it made.
pub(crate) struct Parts {
    /// Its name.
    pub(crate) id: SandboxId,
    /// The box itself.
    pub(crate) cell: Cell,
    /// What it holds.
    pub(crate) plan: Plan,
    /// The trees that it sees through an overlay.
    pub(crate) overlays: Vec<OverlayTree>,
    /// Resource limits of every process: which, soft, hard.
    pub(crate) resources: Vec<(u32, u64, u64)>,
    /// Where our own program is in the box, if files have to be reached by it: no descriptor gets through.
    pub(crate) file_tool: Option<PathBuf>,
    /// Variables that the root file system brings along; the policy's win over them.
    pub(crate) environment: BTreeMap<String, String>,
    /// What has to be there as long as the box.
    pub(crate) kept: Option<Box<dyn Send + Sync>>,
}

/// A name for the next box of this process.
pub(crate) fn next_id(backend: &str) -> Result<SandboxId, CreateError> {
    static BOXES: AtomicU64 = AtomicU64::new(1);
    let number = BOXES.fetch_add(1, Ordering::Relaxed);
    SandboxId::new(format!("{backend}-{}-{number}", std::process::id())).map_err(|error| CreateError::Setup {
        step: "naming the box".into(),
        reason: error.to_string(),
        hint: "this is a defect of Hotcell".into(),
    })
}
