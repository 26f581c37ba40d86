//! What was typed before, kept in the user's own directory.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustyline::history::FileHistory;
use rustyline::{Editor, Helper};

use crate::output;

/// The file; none where there is no place for one.
#[derive(Debug)]
pub(super) struct History(Option<PathBuf>);

impl History {
    /// How many pieces of code are kept.
    pub(super) const ENTRIES: usize = 1000;

    /// The file for a language, made if it is not there. What people type is nobody else's to read.
    pub(super) fn of(language: &str) -> Self {
        let Some(directory) = directory(|name| std::env::var_os(name).map(PathBuf::from)) else { return Self(None) };
        // A name from a configuration file is not a path.
        let plain = language.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_+#".contains(letter));
        let file = directory.join(if plain { format!("code-{language}") } else { "code".to_owned() });
        match create(&directory, &file) {
            Ok(()) => Self(Some(file)),
            Err(error) => {
                output::message(&format!("no history is kept: cannot use {}: {error}", file.display()));
                Self(None)
            }
        }
    }

    pub(super) fn load<H: Helper>(&self, editor: &mut Editor<H, FileHistory>) {
        if let Some(file) = &self.0 {
            // A file that cannot be understood is no reason not to run code.
            let _ = editor.load_history(file);
        }
    }

    /// Adds what is new, at once: a crash loses nothing.
    pub(super) fn append<H: Helper>(&self, editor: &mut Editor<H, FileHistory>) {
        if let Some(file) = &self.0 {
            let _ = editor.append_history(file);
        }
    }
}

/// `$XDG_STATE_HOME/hotcell`, or what stands for it.
fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("hotcell"))
}

fn create(directory: &Path, file: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    OpenOptions::new().append(true).create(true).mode(0o600).open(file).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_that_of_the_convention() {
        let of = |pairs: &[(&str, &str)]| {
            directory(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value)))
        };
        assert_eq!(of(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), Some("/s/hotcell".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")]), Some("/h/.local/state/hotcell".into()));
        assert_eq!(of(&[]), None);
    }
}
