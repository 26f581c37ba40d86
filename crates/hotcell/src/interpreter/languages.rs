//! The languages, and what runs each.

use std::collections::BTreeMap;

use super::error::CodeError;

/// The languages that are built in, and other names that people and models give them.
const BUILT_IN: &[(&str, &[&str], KernelKind)] = &[
    ("bash", &["sh", "shell"], KernelKind::Bash),
    ("javascript", &["js", "node"], KernelKind::Node),
    ("python", &["py", "python3"], KernelKind::Python),
    ("typescript", &["ts"], KernelKind::TypeScript),
];

/// The languages that code may be written in: those that are built in, and those of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    more: BTreeMap<String, Vec<String>>,
}

impl Languages {
    /// Adds a language: its name and the command that runs a file, whose path is appended. It takes the place of a built-in one of
    /// that name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, command: Vec<String>) -> Self {
        self.more.insert(name.into(), command);
        self
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&str> {
        let built_in = BUILT_IN.iter().map(|(name, ..)| *name);
        let mut names: Vec<&str> = self.more.keys().map(String::as_str).chain(built_in).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What runs a language, by its name or another that people give it.
    pub(super) fn find(&self, name: &str) -> Result<Language, CodeError> {
        if let Some(command) = self.more.get(name) {
            if command.first().is_none_or(String::is_empty) {
                let what = format!("the command of the language `{}`", hotcell_core::text::Printable(name));
                return Err(CodeError::invalid(&what, "it is empty; name the program that runs a file"));
            }
            return Ok(Language { name: name.to_owned(), runner: Runner::File(command.clone()) });
        }
        let known = |(canonical, others, _): &&(&str, &[&str], _)| *canonical == name || others.contains(&name);
        match BUILT_IN.iter().find(known) {
            Some((canonical, _, kind)) => {
                // An alias of a language that the configuration has in its place.
                match self.more.get(*canonical) {
                    Some(_) => self.find(canonical),
                    None => Ok(Language { name: (*canonical).to_owned(), runner: Runner::Kernel(*kind) }),
                }
            }
            None => Err(CodeError::UnknownLanguage { language: name.to_owned(), known: self.names().join(", ") }),
        }
    }
}

/// A language that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Language {
    pub(super) name: String,
    pub(super) runner: Runner,
}

/// What runs a language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runner {
    /// A process that speaks our protocol.
    Kernel(KernelKind),
    /// A command that takes the path of a file.
    File(Vec<String>),
}

/// The processes that speak our protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelKind {
    Python,
    Node,
    /// Node, with types taken off.
    TypeScript,
    Bash,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_languages_have_other_names() {
        let languages = Languages::default();
        assert_eq!(languages.names(), ["bash", "javascript", "python", "typescript"]);
        for (alias, name) in [("py", "python"), ("js", "javascript"), ("ts", "typescript"), ("sh", "bash")] {
            assert_eq!(languages.find(alias).unwrap().name, name);
        }
        let Err(error) = languages.find("lua\u{1b}") else { panic!("known") };
        assert!(error.to_string().contains("bash, javascript, python, typescript"), "{error}");
        assert!(!error.to_string().contains('\u{1b}'));
    }

    #[test]
    fn a_configured_language_takes_the_place_of_a_built_in_one() {
        let languages = Languages::default().with("lua", vec!["lua".into()]).with("python", vec!["pypy".into()]);
        assert_eq!(languages.names(), ["bash", "javascript", "lua", "python", "typescript"]);
        for name in ["python", "py"] {
            assert_eq!(languages.find(name).unwrap().runner, Runner::File(vec!["pypy".into()]));
        }
        assert!(matches!(Languages::default().with("x", vec![]).find("x"), Err(CodeError::Invalid { .. })));
    }
}
