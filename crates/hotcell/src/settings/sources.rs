//! The files that decide the policy of the next run, where the box could write them.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hotcell_core::layers::Layers;
use hotcell_core::policy::{Access, FilesystemPolicy};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// Protects the files in trees that can be written, and the links that lead to them, unless they are unprotected.
pub(super) fn protect<'a>(files: &mut FilesystemPolicy, sources: impl Iterator<Item = &'a PathBuf>, layers: &Layers) {
    // A project cannot unprotect anything.
    let own = [Some(&layers.defaults), layers.user.as_ref(), Some(&layers.environment), Some(&layers.flags)];
    let unprotect = own.into_iter().flatten().flat_map(|own| &own.filesystem.unprotect);
    let unprotected: Vec<PathBuf> = unprotect.map(|name| without_dots(&name.value)).collect();
    for path in sources.flat_map(|source| decisive_paths(source)) {
        let Some(rule) = files.rules.iter().rev().find(|rule| path.starts_with(&rule.path)) else { continue };
        let Ok(name) = path.strip_prefix(&rule.path) else { continue };
        let is_named = name.as_os_str().is_empty() || unprotected.iter().any(|unprotected| unprotected == name);
        if rule.access >= Access::Overlay && !is_named {
            files.protect_paths.push(path);
        }
    }
    files.protect_paths.sort();
    files.protect_paths.dedup();
}

fn without_dots(name: &Path) -> PathBuf {
    name.components().filter(|part| *part != Component::CurDir).collect()
}

/// Whatever decides which file is read by this name: every link on the way, and the place that it ends at, which need not exist.
fn decisive_paths(source: &Path) -> Vec<PathBuf> {
    let source = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
    let (mut decisive, mut here, mut ahead) = (Vec::new(), PathBuf::from("/"), parts_from_the_end(&source));
    while let Some(part) = ahead.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        let path = here.join(part);
        match fs::read_link(&path) {
            Ok(target) if decisive.len() < MOST_LINKS => {
                ahead.extend(parts_from_the_end(&target));
                decisive.push(path);
            }
            _ => here = path,
        }
    }
    decisive.push(here);
    decisive
}

/// The root is a part of its own, which leads there from everywhere.
fn parts_from_the_end(path: &Path) -> Vec<OsString> {
    path.components().rev().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned()).collect()
}
