//! What became of every setting.

use std::collections::HashSet;

use hotcell_core::text::Printable;
use serde::Serialize;

use super::tree::{Entry, covers};
use super::{Format, ImportError};

/// A mount that can be written does not keep anybody from the sockets in it.
pub(super) const SOCKETS: &str =
    "there code can talk to no socket of the host's; here it can talk to those in trees that `write` names";
pub(super) const NO_SOCKETS_THERE: &str =
    "see that none are there and leave it out, and make `write` an `overlay` in the result where some are";

/// What became of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fate {
    /// It is in the policy, with the same meaning.
    Carried {
        /// The keys that it is in.
        to: Vec<String>,
    },
    /// It is in the policy, which grants less than it did.
    Narrower {
        /// The keys that it is in.
        to: Vec<String>,
        /// In what it is less.
        how: String,
    },
    /// Nothing needs to say it: it is always so, or it would have no effect there either.
    Always {
        /// What is always so.
        how: String,
    },
    /// It is no setting of a sandbox.
    Elsewhere {
        /// What it is.
        what: String,
    },
    /// It has no equal.
    Lost {
        /// Why not.
        why: String,
        /// What to do.
        instead: String,
        /// Whether it was allowed to be left out.
        allowed: bool,
    },
}

/// A setting of the source, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// The way to it, such as `filesystem.denyRead[2]`; in brackets where the source does not say it, and it holds all the same.
    pub key: String,
    /// Its line, counted from 1; none where the source does not say it.
    pub line: Option<u32>,
    /// What became of it, with everything beneath it.
    #[serde(flatten)]
    pub fate: Fate,
}

/// A setting without an equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss<'a> {
    /// The way to it.
    pub key: &'a str,
    /// Its line, counted from 1; none where the source does not say it, and it holds all the same.
    pub line: Option<u32>,
    /// Why it has no equal.
    pub why: &'a str,
    /// What to do.
    pub instead: &'a str,
    /// Whether it was allowed to be left out.
    pub allowed: bool,
}

/// What became of every setting of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Whose settings they are.
    pub format: Format,
    /// Every setting, in the order of the source; what it does not say comes last.
    pub settings: Vec<Setting>,
}

impl Report {
    pub(super) fn new(format: Format) -> Self {
        Self { format, settings: Vec::new() }
    }

    /// The settings without an equal.
    pub fn losses(&self) -> impl Iterator<Item = Loss<'_>> {
        self.settings.iter().filter_map(|setting| match &setting.fate {
            Fate::Lost { why, instead, allowed } => {
                Some(Loss { key: &setting.key, line: setting.line, why, instead, allowed: *allowed })
            }
            _ => None,
        })
    }

    pub(super) fn carried(&mut self, entry: &Entry<'_>, to: &[&str]) {
        self.add(entry, Fate::Carried { to: owned(to) });
    }

    pub(super) fn narrower(&mut self, entry: &Entry<'_>, to: &[&str], how: impl Into<String>) {
        self.add(entry, Fate::Narrower { to: owned(to), how: how.into() });
    }

    pub(super) fn always(&mut self, entry: &Entry<'_>, how: impl Into<String>) {
        self.add(entry, Fate::Always { how: how.into() });
    }

    pub(super) fn elsewhere(&mut self, entry: &Entry<'_>, what: impl Into<String>) {
        self.add(entry, Fate::Elsewhere { what: what.into() });
    }

    pub(super) fn lost(&mut self, entry: &Entry<'_>, why: impl Into<String>, instead: impl Into<String>) {
        self.add(entry, lost(why, instead));
    }

    /// What the source does not say and does all the same, and is less here.
    pub(super) fn unsaid(&mut self, key: &str, to: &[&str], how: impl Into<String>) {
        self.push(format!("({key})"), None, Fate::Narrower { to: owned(to), how: how.into() });
    }

    /// What the source does not say and does all the same, and has no equal here.
    pub(super) fn unsaid_loss(&mut self, key: &str, why: impl Into<String>, instead: impl Into<String>) {
        self.push(key.to_owned(), None, lost(why, instead));
    }

    /// Reports every leaf that nobody reported: it is a key that nobody knows.
    pub(super) fn complete(&mut self, top: &Entry<'_>) {
        let known: HashSet<String> = self.settings.iter().map(|setting| setting.key.clone()).collect();
        for leaf in top.leaves() {
            if !is_covered(&known, &leaf.key) {
                let why = format!("it is no setting of {} that Hotcell knows", self.format);
                self.lost(
                    &leaf,
                    why,
                    "look for a mistake in its name, or leave it out if it does not matter for the sandbox",
                );
            }
        }
        self.settings.sort_by_key(|setting| setting.line.unwrap_or(u32::MAX));
    }

    /// Marks what may be left out. Whatever is named must be lost: otherwise the name is a mistake.
    pub(super) fn allow(&mut self, keys: &[String]) -> Result<(), ImportError> {
        for key in keys {
            let mut found = false;
            for setting in &mut self.settings {
                if let Fate::Lost { allowed, .. } = &mut setting.fate
                    && !key.is_empty()
                    && covers(key, &setting.key)
                {
                    (*allowed, found) = (true, true);
                }
            }
            if !found {
                let lost: Vec<String> = self.losses().map(|loss| Printable(loss.key).to_string()).collect();
                let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
                return Err(ImportError::NotLost { key: key.clone(), lost });
            }
        }
        Ok(())
    }

    pub(super) fn lost_message(&self) -> String {
        let losses: Vec<Loss<'_>> = self.losses().filter(|loss| !loss.allowed).collect();
        let count = match losses.len() {
            1 => "1 setting has no equal".to_owned(),
            count => format!("{count} settings have no equal"),
        };
        let lines = losses.iter().map(|loss| {
            let line = loss.line.map_or_else(|| "not said".to_owned(), |line| format!("line {line}"));
            format!("\n  {} ({line}): {}; {}", Printable(loss.key), Printable(loss.why), Printable(loss.instead))
        });
        format!("{count}, so nothing is written:{}", lines.collect::<String>())
    }

    fn add(&mut self, entry: &Entry<'_>, fate: Fate) {
        self.push(entry.key.clone(), Some(entry.node.line), fate);
    }

    fn push(&mut self, key: String, line: Option<u32>, fate: Fate) {
        let setting = Setting { key, line, fate };
        // One rule can be about several places.
        if self.settings.last() != Some(&setting) {
            self.settings.push(setting);
        }
    }
}

/// Whether a key or one above it is known.
fn is_covered(known: &HashSet<String>, key: &str) -> bool {
    let ends = key.char_indices().filter(|(_, character)| ".[".contains(*character)).map(|(end, _)| end);
    ends.chain([key.len()]).any(|end| known.contains(&key[..end]))
}

fn lost(why: impl Into<String>, instead: impl Into<String>) -> Fate {
    Fate::Lost { why: why.into(), instead: instead.into(), allowed: false }
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
