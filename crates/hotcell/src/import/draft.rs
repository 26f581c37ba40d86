//! A policy on its way: what goes into the file, and the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hotcell_core::config::{Config, Layer};
use hotcell_core::layers::{Context, Layers, resolve};
use hotcell_core::policy::{Access, NetworkMode};
use hotcell_core::secret::Secret;
use hotcell_core::text::{Printable, drives_terminals};

use super::ImportError;
use super::paths::Place;
use super::report::{Fate, Report, Setting};

/// What the policy will say.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// One access for every place; the strictest of what was asked for.
    rules: BTreeMap<PathBuf, Rule>,
    /// Paths that stay as they are inside what can be written.
    kept: BTreeMap<PathBuf, String>,
    pub(super) protect: BTreeMap<String, String>,
    pub(super) unprotect: BTreeMap<String, String>,
    pub(super) network: Option<NetworkMode>,
    pub(super) pass: BTreeMap<String, String>,
    pub(super) set: BTreeMap<String, String>,
    pub(super) tty: bool,
    pub(super) mode: Option<&'static str>,
    pub(super) url: Option<String>,
    pub(super) api_key: Option<Secret<String>>,
}

#[derive(Debug)]
struct Rule {
    written: String,
    access: Access,
    /// The setting that it comes from.
    from: String,
}

/// The key of `[filesystem]` for an access.
pub(super) fn key_of(access: Access) -> &'static str {
    match access {
        Access::Deny => "filesystem.deny",
        Access::Read => "filesystem.read",
        Access::Overlay => "filesystem.overlay",
        Access::Write => "filesystem.write",
    }
}

impl Draft {
    /// Adds a rule. Of two for one place, the stricter one stays; whether the new one did.
    pub(super) fn rule(&mut self, place: &Place, access: Access, from: &str) -> bool {
        let new = Rule { written: place.written.clone(), access, from: from.to_owned() };
        match self.rules.get(&place.absolute) {
            Some(there) if there.access < access => false,
            Some(there) if there.access == access => true,
            _ => {
                self.rules.insert(place.absolute.clone(), new);
                true
            }
        }
    }

    /// Whether anything can be written.
    pub(super) fn writes_anything(&self) -> bool {
        self.rules.values().any(|rule| rule.access >= Access::Overlay)
    }

    /// Keeps a path inside a writable tree as it is, whether or not anything is there.
    pub(super) fn keep(&mut self, path: &Path, from: &str) {
        self.kept.entry(path.to_owned()).or_insert_with(|| from.to_owned());
    }

    /// To be called when all rules are there. Says of the workspace what the rules above it say: by default it can be read,
    /// whatever they say. Then makes protected names of the paths to be kept.
    pub(super) fn settle(&mut self, workspace: &Place) {
        let kept = workspace.absolute.ancestors().any(|above| self.kept.contains_key(above));
        if let Some((_, access)) = self.nearest(&workspace.absolute)
            && !(kept && access >= Access::Overlay)
        {
            self.rule(workspace, access, "the current directory, which would be shown by default");
        }
        for (path, from) in &self.kept {
            let Some((tree, Access::Write)) = self.nearest(path) else { continue };
            match path.strip_prefix(tree) {
                Ok(name) if !name.as_os_str().is_empty() => {
                    self.protect.insert(name.to_string_lossy().into_owned(), from.clone());
                }
                _ => {}
            }
        }
    }

    /// The rule that decides about a path.
    fn nearest<'a>(&self, path: &'a Path) -> Option<(&'a Path, Access)> {
        path.ancestors().find_map(|above| Some((above, self.rules.get(above)?.access)))
    }

    fn paths(&self, access: Access) -> Vec<(&str, &str)> {
        self.rules.values().filter(|rule| rule.access == access).map(|rule| (&*rule.written, &*rule.from)).collect()
    }

    pub(super) fn to_toml(&self, report: &Report) -> String {
        let mut text = Text(format!("# Made by `hotcell import` from settings of {}.\n", report.format));
        text.0.push_str(
            "# Use it with --policy FILE, or as your own hotcell.toml; a project's file could only tighten.\n",
        );
        text.listed("Left out, as it was allowed to be:", report, |setting| match &setting.fate {
            Fate::Lost { why, .. } => Some(why),
            _ => None,
        });
        text.listed("Less than it was:", report, |setting| match &setting.fate {
            Fate::Narrower { how, .. } => Some(how),
            _ => None,
        });
        if let Some(mode) = self.mode {
            text.table("sandbox");
            text.value("mode", mode);
        }
        let lists = [Access::Read, Access::Write, Access::Deny].map(|access| (access.as_str(), self.paths(access)));
        let named = [("protect", pairs(&self.protect)), ("unprotect", pairs(&self.unprotect))];
        text.lists("filesystem", lists.into_iter().chain(named));
        text.table("network");
        text.value("mode", self.network.unwrap_or_default().as_str());
        if !self.pass.is_empty() || !self.set.is_empty() {
            text.lists("env", [("pass", pairs(&self.pass))]);
            text.table("env.set");
            self.set.iter().for_each(|(name, value)| text.line(&quoted(name), &quoted(value)));
        }
        if self.tty {
            text.table("process");
            text.line("tty", "true");
        }
        if self.url.is_some() || self.api_key.is_some() {
            text.table("remote");
            self.url.iter().for_each(|url| text.value("url", url));
            self.api_key.iter().for_each(|key| text.value("api_key", key.expose()));
        }
        text.0
    }

    /// Reads the text back: it must be this policy, and one that holds together.
    pub(super) fn check(&self, text: &str, context: &Context) -> Result<(), ImportError> {
        let config = Config::parse(text, "the imported policy", Layer::User)?;
        let same = |list: &[hotcell_core::config::Sourced<PathBuf>], meant: Vec<(&str, &str)>| {
            list.iter().map(|path| path.value.as_path()).eq(meant.iter().map(|(path, _)| Path::new(path)))
        };
        let files = &config.filesystem;
        let set: BTreeMap<String, String> =
            config.env.set.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
        let checks = [
            ("filesystem.read", same(&files.read, self.paths(Access::Read))),
            ("filesystem.write", same(&files.write, self.paths(Access::Write))),
            ("filesystem.deny", same(&files.deny, self.paths(Access::Deny))),
            ("filesystem.protect", same(&files.protect, pairs(&self.protect))),
            ("filesystem.unprotect", same(&files.unprotect, pairs(&self.unprotect))),
            (
                "network.mode",
                config.network.mode.as_ref().is_some_and(|mode| mode.value == self.network.unwrap_or_default()),
            ),
            ("env.pass", config.env.pass.iter().map(|name| &name.value).eq(self.pass.keys())),
            ("env.set", set == self.set),
            ("remote.url", config.remote.url.as_ref().map(|url| &url.value) == self.url.as_ref()),
            ("remote.api_key", config.remote.api_key.as_ref().map(|key| &key.value) == self.api_key.as_ref()),
        ];
        if let Some((what, _)) = checks.into_iter().find(|(_, same)| !same) {
            return Err(ImportError::NotTheSame { what });
        }
        resolve(&Layers { user: Some(config), ..Layers::default() }, context)?;
        Ok(())
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter().map(|(name, from)| (&**name, &**from)).collect()
}

/// The text of a file. Whatever comes from the source is quoted or, in a comment, escaped: it cannot end its line.
struct Text(String);

impl Text {
    fn table(&mut self, name: &str) {
        let _ = write!(self.0, "\n[{name}]\n");
    }

    fn value(&mut self, key: &str, value: &str) {
        self.line(key, &quoted(value));
    }

    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn lists<'a>(&mut self, table: &str, lists: impl IntoIterator<Item = (&'a str, Vec<(&'a str, &'a str)>)>) {
        let lists: Vec<_> = lists.into_iter().filter(|(_, elements)| !elements.is_empty()).collect();
        if lists.is_empty() {
            return;
        }
        self.table(table);
        for (key, elements) in lists {
            let _ = writeln!(self.0, "{key} = [");
            for (element, from) in elements {
                let _ = writeln!(self.0, "    {}, # {}", quoted(element), Printable(from));
            }
            self.0.push_str("]\n");
        }
    }

    fn listed(&mut self, title: &str, report: &Report, pick: impl Fn(&Setting) -> Option<&String>) {
        let mut lines = report.settings.iter().filter_map(|setting| Some((setting, pick(setting)?))).peekable();
        if lines.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "#\n# {title}");
        for (setting, said) in lines {
            let line = setting.line.map(|line| format!(" (line {line})")).unwrap_or_default();
            let _ = writeln!(self.0, "#   {}{line}: {}", Printable(&setting.key), Printable(said));
        }
    }
}

/// A text as TOML has it, with nothing in it that could drive a terminal.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if drives_terminals(character) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted + "\""
}

/// A value for a variable that would be passed here and is not there.
pub(super) fn cover(name: &str) -> &'static str {
    match name {
        "LANG" | "LC_ALL" | "LC_CTYPE" => "C.UTF-8",
        "TERM" => "dumb",
        "TZ" => "UTC",
        _ => "",
    }
}
