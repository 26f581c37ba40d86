//! Why there is no imported policy.

use hotcell_core::config::ConfigError;
use hotcell_core::layers::PolicyError;
use hotcell_core::text::Printable;

use super::report::Report;
use super::{Format, MAX_IMPORT_BYTES, MAX_SETTINGS};

/// Why a text did not become a policy. Nothing is made of a part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// More text than any settings have.
    #[error("{bytes} bytes are more than settings may have ({MAX_IMPORT_BYTES})")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// More settings than anybody writes.
    #[error("{count} settings are more than can be read ({MAX_SETTINGS})")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The text is not JSON or TOML.
    #[error("line {line}: not valid {language}: {}", Printable(.message))]
    Syntax {
        /// Where.
        line: u32,
        /// JSON or TOML.
        language: &'static str,
        /// What is wrong.
        message: String,
    },
    /// One key twice in one object: readers differ in which one counts.
    #[error("line {line}: `{}` is there twice; keep one", Printable(.key))]
    Duplicate {
        /// The second one.
        line: u32,
        /// The key.
        key: String,
    },
    /// Nobody can tell whose settings these are.
    #[error("cannot tell whose settings these are ({}); say it with --from srt, codex or codewhale", shown(.found))]
    UnknownFormat {
        /// The formats that have keys of these; none or several.
        found: Vec<Format>,
    },
    /// A value that the format does not have there.
    #[error("line {line}: `{}` takes {expected}, not {found}", Printable(.key))]
    WrongType {
        /// Where.
        line: u32,
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A value that has no meaning there.
    #[error("line {line}: `{}` {}", Printable(.key), Printable(.reason))]
    BadValue {
        /// Where.
        line: u32,
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Settings without an equal that nobody allowed to be left out.
    #[error("{}", .0.lost_message())]
    Lost(Box<Report>),
    /// A setting that was to be left out and is not among those without an equal.
    #[error("`{}` is no setting that would be lost, so it cannot be allowed to be; lost are: {lost}", Printable(.key))]
    NotLost {
        /// What was named.
        key: String,
        /// What could be.
        lost: String,
    },
    /// The policy does not read back.
    #[error("the result is no policy: {0}; change the setting that it comes from")]
    NoConfig(#[from] ConfigError),
    /// The policy does not fit together.
    #[error("the result is no policy: {0}; change the setting that it comes from")]
    NoPolicy(#[from] PolicyError),
    /// The policy reads back as another one.
    #[error(
        "the result does not read back as what was found in {what}: this is a defect of Hotcell's, and nothing is written"
    )]
    NotTheSame {
        /// Which key.
        what: &'static str,
    },
}

fn shown(found: &[Format]) -> String {
    if found.is_empty() {
        return "no key is of one format alone".to_owned();
    }
    let names: Vec<&str> = found.iter().map(|format| format.as_str()).collect();
    format!("there are keys of {}", names.join(" and of "))
}
