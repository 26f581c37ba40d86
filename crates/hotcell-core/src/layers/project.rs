//! A project file can only tighten: the error that says so.

use super::PolicyError;
use crate::config::{Origin, named};

/// The error for a project file that asks for more than it may, with what the user would have to write.
pub(super) fn loosens(at: &Origin, key: &str, asked: String, allowed: String, value: &str) -> PolicyError {
    PolicyError::ProjectLoosens {
        at: at.clone().into(),
        key: key.to_owned(),
        asked,
        allowed,
        instead: in_your_own_words(key, value),
    }
}

/// How the user grants it: a line in their own file, or a flag. `value` is as it would be written in a file.
fn in_your_own_words(key: &str, value: &str) -> String {
    let (table, name) = key.split_once('.').unwrap_or(("", key));
    let takes_a_list = named(key).is_some_and(|info| info.takes.starts_with("a list"));
    let value_in_file = if takes_a_list { format!("[{value}]") } else { value.to_owned() };
    let line = format!("put `{name} = {value_in_file}` under [{table}] into your own file");
    match named(key).and_then(|info| info.flag) {
        Some(flag) if value == "true" => format!("{line}, or pass {flag}"),
        Some(flag) => format!("{line}, or pass {flag} {}", value.trim_matches('"')),
        None => line,
    }
}
