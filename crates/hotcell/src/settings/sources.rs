//! The files that a policy was made from, where the box could write them.

use std::path::{Path, PathBuf};

use hotcell_core::layers::Layers;
use hotcell_core::policy::{Access, FilesystemPolicy};

/// Protects the files in trees that can be written, unless their names are unprotected: what is in them is the policy of the next
/// run.
pub(super) fn protect(files: &mut FilesystemPolicy, sources: &[PathBuf], layers: &Layers) {
    // A project cannot unprotect anything.
    let own = [Some(&layers.defaults), layers.user.as_ref(), Some(&layers.environment), Some(&layers.flags)];
    let unprotected: Vec<&Path> =
        own.into_iter().flatten().flat_map(|own| &own.filesystem.unprotect).map(|name| name.value.as_path()).collect();
    for path in sources.iter().flat_map(|source| names_of(source)) {
        let Some(rule) = files.rules.iter().rev().find(|rule| path.starts_with(&rule.path)) else { continue };
        let Ok(name) = path.strip_prefix(&rule.path) else { continue };
        let is_open = rule.access >= Access::Overlay && !name.as_os_str().is_empty() && !unprotected.contains(&name);
        if is_open && !files.protect.iter().any(|known| known == name) {
            files.protect.push(name.to_owned());
        }
    }
    files.protect.sort();
}

/// The file by the name that it was read by, and by that of the file that a link leads to: both decide what is read next time.
fn names_of(source: &Path) -> impl Iterator<Item = PathBuf> {
    let directory = source.parent().and_then(|parent| parent.canonicalize().ok());
    let named = directory.and_then(|directory| Some(directory.join(source.file_name()?)));
    named.into_iter().chain(source.canonicalize().ok())
}
