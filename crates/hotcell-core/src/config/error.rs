//! What can be wrong with one layer of configuration.

use super::Origin;
use crate::suggest::did_you_mean;
use crate::text::Printable;

/// Why a configuration text, variable or flag was not accepted. Every message starts with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is larger than any configuration needs to be.
    #[error("{at}: {bytes} bytes are more than a configuration file may have ({limit})")]
    TooLarge {
        /// The file.
        at: Box<Origin>,
        /// Its size.
        bytes: usize,
        /// The largest size accepted.
        limit: usize,
    },
    /// The text is not TOML.
    #[error("{at}: not valid TOML: {}", Printable(.message))]
    Syntax {
        /// Where.
        at: Box<Origin>,
        /// What the TOML parser says.
        message: String,
    },
    /// A key that does not exist.
    #[error("{at}: unknown key `{}`{}{}", Printable(.key), in_table(.table), did_you_mean(.suggestion))]
    UnknownKey {
        /// Where.
        at: Box<Origin>,
        /// The key as written.
        key: String,
        /// The table it is in; none at the top level.
        table: Option<String>,
        /// The nearest known key.
        suggestion: Option<String>,
    },
    /// A `HOTCELL_` variable that does not exist.
    #[error("{at}: unknown variable{}", did_you_mean(.suggestion))]
    UnknownVariable {
        /// The variable.
        at: Box<Origin>,
        /// The nearest known variable.
        suggestion: Option<String>,
    },
    /// A value of another type than the key takes.
    #[error("{at}: `{key}` takes {expected}, not {found}; for example: {example}")]
    WrongType {
        /// Where.
        at: Box<Origin>,
        /// The key.
        key: String,
        /// What the key takes.
        expected: &'static str,
        /// What was found.
        found: &'static str,
        /// A line that would be accepted.
        example: &'static str,
    },
    /// A value that the key does not take.
    #[error("{at}: `{key}` cannot be `{}`: {reason}", Printable(.value))]
    BadValue {
        /// Where.
        at: Box<Origin>,
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// Why not, and which forms are accepted.
        reason: String,
    },
    /// Two values of one layer that cannot both hold.
    #[error("{at}: `{key}` contradicts {earlier}: {}", Printable(.detail))]
    Contradiction {
        /// The later of the two.
        at: Box<Origin>,
        /// The key of the later one.
        key: String,
        /// The earlier of the two.
        earlier: Box<Origin>,
        /// The two values.
        detail: String,
    },
    /// A key that this layer may not use.
    #[error("{at}: a project file may not set `{key}`: {why}; {instead}")]
    NotInProjectFile {
        /// Where.
        at: Box<Origin>,
        /// The key.
        key: String,
        /// Why it would loosen the box.
        why: &'static str,
        /// What the user can do instead.
        instead: String,
    },
}

fn in_table(table: &Option<String>) -> String {
    table.as_ref().map(|table| format!(" in [{}]", Printable(table))).unwrap_or_default()
}
