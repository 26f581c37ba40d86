//! Rules about paths, and questions about paths.
//!
//! A line of the input is `read PATH`, `write PATH`, `overlay PATH`, `deny PATH`, `protect NAME`, `unprotect NAME`, or a
//! question, `? PATH`. Holds: every answer is that of the slow and obvious reading of the rules in this file, and no
//! rule depends on the order in which the rules were written.
#![no_main]

use std::path::Path;

use hotcell_core::config::{Config, Layer, Origin};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_core::policy::{Access, FilesystemPolicy};
use libfuzzer_sys::fuzz_target;

const ROOT: &str = "/w";
const HOME: &str = "/home/ada";
const LINES: usize = 48;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (mut accepted, mut questions): (Vec<(&str, &str)>, Vec<&str>) =
        (Vec::new(), vec!["/", "/w", "/w/a/.git/hooks"]);
    for (word, path) in text.lines().take(LINES).filter_map(|line| line.split_once(' ')) {
        if word == "?" {
            questions.push(path);
        } else if matches!(word, "read" | "write" | "overlay" | "deny" | "protect" | "unprotect") {
            // A rule that contradicts an earlier one, or leaves the root, is refused: that is another target's business.
            accepted.push((word, path));
            if files(&accepted).is_none() {
                accepted.pop();
            }
        }
    }
    let Some(found) = files(&accepted) else { return };
    accepted.reverse();
    let Some(reversed) = files(&accepted) else { panic!("rules that are accepted in one order only: {accepted:?}") };

    let expected = Reference::new(&accepted);
    let paths: Vec<&str> = accepted.iter().map(|(_, path)| *path).collect();
    for path in questions.into_iter().chain(paths) {
        let (plain, effective) = expected.access(path);
        for (files, order) in [(&found, "as written"), (&reversed, "reversed")] {
            assert_eq!(files.access(Path::new(path)), plain, "{path:?} by the rules, {order}: {files:#?}");
            assert_eq!(files.effective_access(Path::new(path)), effective, "{path:?} in effect, {order}: {files:#?}");
        }
    }
    for protected in found.protected_paths() {
        assert!(found.effective_access(&protected.path) <= Access::Read, "{protected:?} is not protected: {found:#?}");
    }
});

/// The rules as the product reads them.
fn files(rules: &[(&str, &str)]) -> Option<FilesystemPolicy> {
    let mut config = Config::default();
    for (word, path) in rules {
        config.set(&format!("filesystem.{word}"), path, Origin::layer(Layer::User)).ok()?;
    }
    let layers = Layers { user: Some(config), ..Layers::default() };
    let context = Context { root: ROOT.into(), home: Some(HOME.into()) };
    Some(resolve(&layers, &context).ok()?.filesystem)
}

/// The rules as a person would apply them: paths are lists of names, and the longest beginning decides.
struct Reference<'a> {
    rules: Vec<(Vec<&'a str>, Access)>,
    protected: Vec<Vec<&'a str>>,
}

impl<'a> Reference<'a> {
    fn new(rules: &[(&'a str, &'a str)]) -> Self {
        let access = |word| match word {
            "read" => Some(Access::Read),
            "write" => Some(Access::Write),
            "overlay" => Some(Access::Overlay),
            "deny" => Some(Access::Deny),
            _ => None,
        };
        let names = |wanted| rules.iter().filter(move |(word, _)| *word == wanted).map(|(_, name)| parts(name));
        let unprotected: Vec<Vec<&str>> = names("unprotect").collect();
        let built_in = hotcell_core::policy::protect::DEFAULT_PROTECTED.iter().map(|entry| parts(entry.name));
        Self {
            rules: rules.iter().filter_map(|(word, path)| Some((absolute(path), access(*word)?))).collect(),
            protected: built_in.chain(names("protect")).filter(|name| !unprotected.contains(name)).collect(),
        }
    }

    /// What the rules say, and what is left of it where names are protected.
    fn access(&self, path: &'a str) -> (Access, Access) {
        if !path.starts_with('/') {
            return (Access::Deny, Access::Deny);
        }
        let path = parts(path);
        let above = self.rules.iter().filter(|(rule, _)| path.starts_with(rule));
        let Some((tree, access)) = above.max_by_key(|(rule, _)| rule.len()) else {
            return (Access::Deny, Access::Deny);
        };
        let inside = &path[tree.len()..];
        // A name is protected beneath every tree, and the rest of it beneath a tree whose path ends with its beginning.
        let protected = self.protected.iter().any(|name| {
            (0..name.len()).any(|begun| tree.ends_with(&name[..begun]) && inside.starts_with(&name[begun..]))
        });
        (*access, if protected { (*access).min(Access::Read) } else { *access })
    }
}

/// The path as written, from the root of everything.
fn absolute(path: &str) -> Vec<&str> {
    let start = match path {
        _ if path.starts_with('/') => return parts(path),
        _ if path == "~" || path.starts_with("~/") => (HOME, &path[1..]),
        _ => (ROOT, path),
    };
    walk(parts(start.0), start.1)
}

fn parts(path: &str) -> Vec<&str> {
    walk(Vec::new(), path)
}

fn walk<'a>(mut at: Vec<&'a str>, path: &'a str) -> Vec<&'a str> {
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(at.pop()),
            name => at.push(name),
        }
    }
    at
}
