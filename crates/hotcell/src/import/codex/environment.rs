//! `shell_environment_policy`: which variables a command finds.
//!
//! There, all variables are passed by default, and patterns take some away. Here none is passed that is not named, except six
//! that say how text and terminals look; where the source passes fewer, those are covered by fixed values.

use hotcell_core::policy::DEFAULT_PASS;

use super::super::draft::cover;
use super::super::tree::{Entry, Value};
use super::super::{ImportError, Importer};

/// Variables that a box has with values of its own.
const BOXES_OWN: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP", "USERNAME"];
/// Those that are taken away unless `ignore_default_excludes` is true.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];
const ALL_PASSED: &str = "there all variables are passed; here LANG, TERM and their like, and what `pass` names";

#[derive(Default)]
struct Policy<'a> {
    inherit: Option<&'a str>,
    ignores_default_excludes: bool,
    exclude: Vec<&'a str>,
    include_only: Vec<Entry<'a>>,
    set: Vec<&'a str>,
}

impl Policy<'_> {
    /// Whether the source passes this variable where the host has it.
    fn passes(&self, name: &str) -> bool {
        let inherited = match self.inherit {
            Some("none") => false,
            Some("core") => BOXES_OWN.contains(&name),
            _ => true,
        };
        let excluded = self.exclude.iter().any(|pattern| matches(pattern, name))
            || (!self.ignores_default_excludes && DEFAULT_EXCLUDES.iter().any(|pattern| matches(pattern, name)));
        inherited && !excluded && self.includes(name)
    }

    fn includes(&self, name: &str) -> bool {
        let mut patterns = self.include_only.iter().filter_map(|entry| entry.text().ok());
        self.include_only.is_empty() || patterns.any(|pattern| matches(pattern, name))
    }
}

/// The environment where nothing is said about it.
pub(super) fn unsaid(importer: &mut Importer) {
    importer.report.unsaid("shell_environment_policy", &["env.pass"], ALL_PASSED);
}

pub(super) fn read(importer: &mut Importer, table: &Entry<'_>) -> Result<(), ImportError> {
    // As Codex has it: nothing is taken away by default unless that is asked for.
    let mut policy = Policy { ignores_default_excludes: true, ..Policy::default() };
    for entry in table.entries()? {
        match entry.name {
            "inherit" => policy.inherit = Some(entry.text()?),
            "ignore_default_excludes" => policy.ignores_default_excludes = entry.boolean()?,
            "exclude" => policy.exclude = entry.elements()?.iter().map(Entry::text).collect::<Result<_, _>>()?,
            "include_only" => {
                policy.include_only = entry.elements()?;
                policy.include_only.iter().try_for_each(|pattern| pattern.text().map(drop))?;
            }
            "set" => policy.set = entry.entries()?.iter().map(|entry| entry.name).collect(),
            _ => {}
        }
    }
    for entry in table.entries()? {
        match entry.name {
            "inherit" => inherit(importer, &entry)?,
            "ignore_default_excludes" => {
                importer.report.always(&entry, "no variable is passed that is not named, whatever its name");
            }
            "exclude" => importer.report.always(&entry, "no variable is passed that is not named"),
            "include_only" if policy.include_only.is_empty() => importer.report.always(&entry, "it names nothing"),
            "include_only" => include_only(importer, &policy),
            "set" => set(importer, &entry, &policy)?,
            "filters" if entry.is_empty() => importer.report.always(&entry, "it names nothing"),
            "experimental_use_profile" if !entry.boolean()? => {
                importer.report.always(&entry, "no start-up file of yours is read in a box");
            }
            "filters" | "experimental_use_profile" => {
                importer.report.lost(&entry, "variables are passed by name", "name them under include_only");
            }
            _ => {}
        }
    }
    for name in DEFAULT_PASS {
        if !policy.passes(name) && !importer.draft.set.contains_key(*name) {
            importer.draft.set.insert((*name).to_owned(), cover(name).to_owned());
        }
    }
    Ok(())
}

fn inherit(importer: &mut Importer, entry: &Entry<'_>) -> Result<(), ImportError> {
    match entry.text()? {
        "none" => importer.report.carried(entry, &["env.set"]),
        "core" => {
            let how = "the box has its own PATH, HOME, USER, LOGNAME, SHELL and TMPDIR, and not the host's";
            importer.report.narrower(entry, &["env.pass"], how);
        }
        "all" => importer.report.narrower(entry, &["env.pass"], ALL_PASSED),
        other => return Err(entry.bad_value(format!("is `{other}`, and can be \"all\", \"core\" or \"none\""))),
    }
    Ok(())
}

fn include_only(importer: &mut Importer, policy: &Policy<'_>) {
    for entry in &policy.include_only {
        let Value::Text(name) = &entry.node.value else { continue };
        if name.contains(['*', '?']) {
            let why = "variables are passed by name, and this is a pattern";
            importer.report.lost(entry, why, "name the variables that it means");
        } else if policy.set.contains(&name.as_str()) {
            importer.report.always(entry, "it has no effect: set gives it a value");
        } else if BOXES_OWN.contains(&name.as_str()) {
            importer.report.narrower(entry, &[], "the box has a value of its own for it, and not the host's");
        } else if policy.passes(name) {
            importer.draft.pass.insert(name.clone(), entry.key.clone());
            importer.report.carried(entry, &["env.pass"]);
        } else {
            importer.report.always(entry, "it has no effect: other keys take this variable away");
        }
    }
}

fn set(importer: &mut Importer, table: &Entry<'_>, policy: &Policy<'_>) -> Result<(), ImportError> {
    if table.is_empty() {
        importer.report.always(table, "it names nothing");
    }
    for entry in table.entries()? {
        let value = entry.text()?;
        if policy.includes(entry.name) {
            importer.draft.set.insert(entry.name.to_owned(), value.to_owned());
            importer.report.carried(&entry, &["env.set"]);
        } else {
            importer.report.always(&entry, "it has no effect: include_only takes this variable away");
        }
    }
    Ok(())
}

/// Whether a pattern with `*` and `?` stands for a name; letters are compared without their case.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut at, mut next, mut star, mut from) = (0, 0, None, 0);
    while at < name.len() {
        match pattern.get(next) {
            Some('*') => {
                (star, from) = (Some(next), at);
                next += 1;
            }
            Some(character) if *character == '?' || *character == name[at] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some(star) = star else { return false };
                from += 1;
                (at, next) = (from, star + 1);
            }
        }
    }
    pattern[next..].iter().all(|character| *character == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_stand_for_names() {
        for (pattern, name) in [("*", ""), ("*KEY*", "api_key_2"), ("A?C", "abc"), ("a*b*c", "aXbYbZc"), ("**", "x")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("?", ""), ("A*", "BA"), ("*KEY", "KEYS"), ("a*b", "ac")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
