//! A door for the fuzz targets, which play a box that sends an archive. It exists only in a build for fuzzing
//! (`--cfg fuzzing`).

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use hotcell_core::policy::{Access, FilesystemPolicy};

use super::index::{Root, index};
use super::{Caps, PATH_BYTES_MAX, pack};
use crate::cell::workspace::copied::{CopiedTree, Fingerprints};
use crate::cell::workspace::{Baseline, OverlayTree, Upper, commit_allowed};

/// How an archive was not brought back.
#[derive(Debug)]
pub enum NotBrought {
    /// It was refused before anything of the host was touched.
    Refused(String),
    /// What it says could not be done to the host's files.
    Failed(String),
}

/// Packs the trees of a policy as if they were sent, and brings back what is in `archive` to those that may be written. The
/// paths that must not be changed and were.
pub fn bring_back(
    filesystem: &FilesystemPolicy,
    bytes: u64,
    entries: usize,
    archive: File,
) -> Result<Vec<PathBuf>, NotBrought> {
    let refused = |error: &dyn std::fmt::Display| NotBrought::Refused(error.to_string());
    let caps = Caps { bytes, entries, path_bytes: PATH_BYTES_MAX };
    let fingerprints = Fingerprints::default();
    let mut baseline = Baseline::new(SystemTime::now());
    let packed = pack(filesystem, caps, &fingerprints).map_err(|error| refused(&error))?;
    let kept: Vec<_> = packed.kept.into_iter().filter(|kept| kept.access == Access::Write).collect();
    let roots: Vec<Root> =
        kept.iter().map(|kept| Root { path: kept.root.clone(), is_directory: kept.is_directory() }).collect();
    let indexed = index(&archive, filesystem, &roots, caps, &fingerprints).map_err(|error| refused(&error))?;
    let archive = Arc::new(archive);
    let trees: Vec<OverlayTree> = kept
        .into_iter()
        .zip(indexed)
        .map(|(kept, now)| {
            let (archive, fingerprints) = (Arc::clone(&archive), fingerprints.clone());
            let upper = Upper::Copy(CopiedTree { given: kept.given, now, archive, fingerprints });
            OverlayTree { place: kept.place, lower: kept.lower, upper, caller: kept.caller }
        })
        .collect();
    let brought = commit_allowed(&trees, filesystem, &mut baseline);
    brought.map(|(_, left_out)| left_out).map_err(|error| NotBrought::Failed(error.to_string()))
}
