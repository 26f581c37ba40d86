//! The settings of other sandboxes as a `hotcell.toml`: everything in them, or an error that lists what has no equal.
//!
//! ```text
//! text ──json, toml──▶ tree ──srt, codex, codewhale──▶ draft + report ──▶ hotcell.toml
//! ```
//!
//! Every setting of the source is in the report with its [`Fate`]. After a format's own reader has been through the tree, a
//! walk over all its leaves reports those that the reader did not: so a key that nobody thought of is an error, never an
//! omission. What is written grants no more than the source did, is parsed back and is resolved to a policy before anybody
//! gets it.

mod codewhale;
mod codex;
mod draft;
mod error;
mod json;
mod paths;
mod report;
mod srt;
mod toml;
mod tree;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_core::layers::Context;
use serde::{Serialize, Serializer};

pub use error::ImportError;
pub use report::{Fate, Loss, Report, Setting};

use draft::Draft;
use paths::Places;
use tree::{Entry, Node, Value};

/// The largest text that is read.
pub const MAX_IMPORT_BYTES: usize = 1 << 20;

/// The most settings that are read: lists are compared with each other.
pub const MAX_SETTINGS: usize = 10_000;

/// True of every policy, whatever the source says of these names.
const PROTECTED_NAMES: &str = "names that steer programs on the host, such as .git/hooks, .envrc and .vscode, stay as they are in trees that can be written";

/// Whose settings they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The JSON settings of sandbox-runtime (`srt`).
    Srt,
    /// The `config.toml` of Codex.
    Codex,
    /// The `config.toml` of CodeWhale.
    CodeWhale,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Srt, Self::Codex, Self::CodeWhale];

    /// The name on a command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Srt => "srt",
            Self::Codex => "codex",
            Self::CodeWhale => "codewhale",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A format that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the formats are srt, codex and codewhale")]
pub struct UnknownFormat;

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.as_str() == name).ok_or(UnknownFormat)
    }
}

/// What to read a text as.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Whose settings they are; none finds out from the keys.
    pub format: Option<Format>,
    /// The settings that may be left out although they have no equal, each with everything beneath it.
    pub allow_loss: Vec<String>,
    /// The directory that relative paths start from: whether one path lies in another is judged from here.
    pub workspace: PathBuf,
    /// The home directory that `~` stands for.
    pub home: Option<PathBuf>,
}

/// A policy that was made from another sandbox's settings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Imported {
    /// What became of every setting.
    pub report: Report,
    /// The text of a `hotcell.toml`. It may hold a key, and is a file of the user's own: in a project it could only tighten.
    pub toml: String,
}

/// Makes a policy of another sandbox's settings. Nothing is opened, and no file that the text names is followed.
///
/// ```
/// use hotcell::import::{ImportError, ImportOptions, import};
///
/// let options = ImportOptions { workspace: "/srv/app".into(), ..ImportOptions::default() };
/// let text = r#"{ "network": { "allowedDomains": ["example.org"], "deniedDomains": [] } }"#;
/// let Err(ImportError::Lost(report)) = import(text, &options) else { panic!() };
/// assert_eq!(report.losses().next().unwrap().key, "network.allowedDomains");
///
/// let options = ImportOptions { allow_loss: vec!["network.allowedDomains".into()], ..options };
/// let imported = import(text, &options)?;
/// assert!(imported.toml.contains("mode = \"deny\""));
/// # Ok::<(), ImportError>(())
/// ```
pub fn import(text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    if text.len() > MAX_IMPORT_BYTES {
        return Err(ImportError::TooLarge { bytes: text.len() });
    }
    let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let tree = match options.format {
        Some(Format::Srt) => json::read(text)?,
        Some(_) => toml::read(text)?,
        None if is_json => json::read(text)?,
        None => toml::read(text)?,
    };
    let top = Entry::top(&tree);
    let count = top.leaves().len();
    if count > MAX_SETTINGS {
        return Err(ImportError::TooMany { count });
    }
    let format = match options.format {
        Some(format) => format,
        None => detect(&tree, is_json)?,
    };
    let places = Places { workspace: options.workspace.clone(), home: options.home.clone() };
    let mut importer = Importer { report: Report::new(format), draft: Draft::default(), places };
    match format {
        Format::Srt => srt::read(&mut importer, &top)?,
        Format::Codex => codex::read(&mut importer, &top)?,
        Format::CodeWhale => codewhale::read(&mut importer, &top)?,
    }
    let Importer { mut report, mut draft, places } = importer;
    draft.settle(&places.workspace());
    if draft.writes_anything() {
        report.unsaid("protected names", &["filesystem.protect"], PROTECTED_NAMES);
    }
    report.complete(&top);
    report.allow(&options.allow_loss)?;
    if report.losses().any(|loss| !loss.allowed) {
        return Err(ImportError::Lost(report.into()));
    }
    let toml = draft.to_toml(&report);
    draft.check(&toml, &Context { root: places.workspace, home: places.home })?;
    Ok(Imported { report, toml })
}

/// A policy on its way, and what was found.
struct Importer {
    report: Report,
    draft: Draft,
    places: Places,
}

/// Whose settings these are, by keys that only one of them has.
fn detect(tree: &Node, is_json: bool) -> Result<Format, ImportError> {
    if is_json {
        return Ok(Format::Srt);
    }
    let Value::Table(entries) = &tree.value else { return Err(ImportError::UnknownFormat { found: Vec::new() }) };
    let has = |names: &[&str]| entries.iter().any(|(name, _)| names.contains(&name.as_str()));
    let found: Vec<Format> = [(Format::Codex, has(codex::TELLING)), (Format::CodeWhale, has(codewhale::TELLING))]
        .into_iter()
        .filter_map(|(format, found)| found.then_some(format))
        .collect();
    match found[..] {
        [format] => Ok(format),
        _ => Err(ImportError::UnknownFormat { found }),
    }
}
