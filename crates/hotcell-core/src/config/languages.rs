//! `[languages.NAME]`: programs that run code in languages beyond the built-in ones.

use super::keys::KeyInfo;
use super::set::not_in_project;
use super::value::{Node, Written};
use super::{Config, ConfigError};
use crate::suggest::nearest;

/// The one key of a language.
const COMMAND: &str = "command";
const MAX_NAME: usize = 32;
const MAX_WORDS: usize = 64;

impl Config {
    pub(super) fn set_languages(&mut self, info: &KeyInfo, value: &Written) -> Result<(), ConfigError> {
        not_in_project(info, value, "it says which program runs the code that an agent writes")?;
        let Node::Table(languages) = &value.node else { return Err(value.wrong_type(info)) };
        for (name, language) in languages {
            check_language(name).map_err(|reason| language.bad_value(info, name, reason))?;
            let Node::Table(keys) = &language.node else { return Err(language.wrong_type(info)) };
            if let Some((key, at)) = keys.iter().find(|(key, _)| key != COMMAND) {
                return Err(ConfigError::UnknownKey {
                    at: at.origin.clone().into(),
                    key: key.clone(),
                    table: Some(format!("languages.{name}")),
                    suggestion: nearest(key, [COMMAND]).map(str::to_owned),
                });
            }
            let Some((_, command)) = keys.first() else {
                return Err(language.bad_value(info, name, "it has no `command`"));
            };
            let words = words(info, name, command)?;
            self.languages.insert(name.clone(), command.sourced(words));
        }
        Ok(())
    }
}

fn words(info: &KeyInfo, name: &str, command: &Written) -> Result<Vec<String>, ConfigError> {
    let Node::List(words) = &command.node else { return Err(command.wrong_type(info)) };
    if words.is_empty() || words.len() > MAX_WORDS {
        let reason = format!("its command has {} words; it takes a program and at most 63 arguments", words.len());
        return Err(command.bad_value(info, name, reason));
    }
    let read = |word: &Written| match &word.node {
        Node::Text(text) if text.is_empty() || text.contains('\0') => {
            Err(word.bad_value(info, name, "a word of its command is not empty and has no NUL byte"))
        }
        Node::Text(text) => Ok(text.clone()),
        _ => Err(word.wrong_type(info)),
    };
    words.iter().map(read).collect()
}

/// Why this is no name of a language.
fn check_language(name: &str) -> Result<(), &'static str> {
    let letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    let rest = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_+-".contains(&byte));
    if letter && rest && name.len() <= MAX_NAME {
        Ok(())
    } else {
        Err("a language's name is at most 32 of a-z, 0-9, `_`, `+` and `-`, and begins with a letter")
    }
}
