//! Merging the `[filesystem]` tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::paths::{absolute, relative_name, within_project};
use super::project::loosens;
use super::{Context, Layers, PolicyError};
use crate::config::{Config, Sourced};
use crate::policy::{Access, FilesystemPolicy, PathRule};
use crate::text::PrintablePath;

pub(super) fn filesystem(layers: &Layers, context: &Context) -> Result<FilesystemPolicy, PolicyError> {
    let mut granted = FilesystemPolicy { protect: protected_names(layers)?, ..FilesystemPolicy::default() };
    let below_flags = [Some(&layers.defaults), layers.user.as_ref(), Some(&layers.environment)];
    for config in below_flags.into_iter().flatten() {
        for rule in rules_of(config, context)? {
            if !denies(&granted, &rule) {
                granted.insert(rule);
            }
        }
    }
    let flags = rules_of(&layers.flags, context)?;
    flags.iter().for_each(|rule| granted.insert(rule.clone()));

    let Some(project) = &layers.project else { return Ok(granted) };
    let mut tightened = granted.clone();
    for rule in rules_of(project, context)? {
        if flags.iter().any(|flag| flag.path == rule.path) {
            continue;
        }
        // Against what the others grant, not against what the project's own earlier rules left of it: the order of
        // a project's rules does not matter.
        let allowed = granted.effective_access(&rule.path);
        if rule.access > allowed {
            return Err(too_wide(&rule, allowed));
        }
        tightened.insert(rule);
    }
    Ok(tightened)
}

/// Whether an earlier layer denies exactly this path: deny wins a tie.
fn denies(files: &FilesystemPolicy, rule: &PathRule) -> bool {
    files.rules.iter().any(|earlier| earlier.path == rule.path && earlier.access == Access::Deny)
}

fn too_wide(rule: &PathRule, allowed: Access) -> PolicyError {
    let key = key_of(rule.access);
    let path = PrintablePath(&rule.path);
    loosens(
        &rule.origin,
        key,
        format!("{} access to {path}", rule.access),
        match allowed {
            Access::Deny => "it is not granted to the code at all".to_owned(),
            allowed => format!("{allowed} access is all that it has there"),
        },
        &format!("\"{path}\""),
    )
}

/// The rules of one layer, which may not contradict itself.
fn rules_of(config: &Config, context: &Context) -> Result<Vec<PathRule>, PolicyError> {
    let files = &config.filesystem;
    let lists = [
        (Access::Read, &files.read),
        (Access::Write, &files.write),
        (Access::Overlay, &files.overlay),
        (Access::Deny, &files.deny),
    ];
    let mut rules: BTreeMap<PathBuf, PathRule> = BTreeMap::new();
    for (access, list) in lists {
        let key = key_of(access);
        for written in list {
            let path = match access {
                Access::Deny => absolute(written, key, context)?,
                _ => within_project(written, key, context)?,
            };
            let rule = PathRule { path: path.clone(), access, origin: written.origin.clone() };
            match rules.get(&path) {
                Some(earlier) if earlier.access != access => {
                    return Err(PolicyError::Contradiction {
                        at: rule.origin.into(),
                        key,
                        earlier: earlier.origin.clone().into(),
                        earlier_key: key_of(earlier.access),
                        name: path.to_string_lossy().into_owned(),
                    });
                }
                Some(_) => {}
                None => {
                    rules.insert(path, rule);
                }
            }
        }
    }
    Ok(rules.into_values().collect())
}

fn key_of(access: Access) -> &'static str {
    match access {
        Access::Deny => "filesystem.deny",
        Access::Read => "filesystem.read",
        Access::Overlay => "filesystem.overlay",
        Access::Write => "filesystem.write",
    }
}

/// The built-in names and those of all layers, less what the user does not want protected; what a project protects,
/// only a flag can unprotect.
fn protected_names(layers: &Layers) -> Result<Vec<PathBuf>, PolicyError> {
    let mut names: BTreeSet<PathBuf> = FilesystemPolicy::default().protect.into_iter().collect();
    let in_order = [
        Some(&layers.defaults),
        layers.user.as_ref(),
        Some(&layers.environment),
        layers.project.as_ref(),
        Some(&layers.flags),
    ];
    for config in in_order.into_iter().flatten() {
        let unprotect = names_of(&config.filesystem.unprotect, "filesystem.unprotect")?;
        let protect = names_of(&config.filesystem.protect, "filesystem.protect")?;
        if let Some(both) =
            protect.iter().find_map(|kept| Some((kept, unprotect.iter().find(|name| name.value == kept.value)?)))
        {
            let (kept, dropped) = both;
            return Err(PolicyError::Contradiction {
                at: dropped.origin.clone().into(),
                key: "filesystem.unprotect",
                earlier: kept.origin.clone().into(),
                earlier_key: "filesystem.protect",
                name: kept.value.to_string_lossy().into_owned(),
            });
        }
        unprotect.iter().for_each(|name| {
            names.remove(&name.value);
        });
        names.extend(protect.into_iter().map(|name| name.value));
    }
    Ok(names.into_iter().collect())
}

fn names_of(list: &[Sourced<PathBuf>], key: &'static str) -> Result<Vec<Sourced<PathBuf>>, PolicyError> {
    list.iter().map(|written| Ok(Sourced::new(relative_name(written, key)?, written.origin.clone()))).collect()
}
