//! A value as it was written, before any key gives it a meaning.

use super::{ConfigError, KeyInfo, Origin};

/// A value and its place.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) node: Node,
    pub(super) origin: Origin,
}

/// What can be written.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Text from a variable or a flag, which may stand for a number, a boolean or one element of a list.
    Bare(String),
    Text(String),
    /// Too large integers are kept as the largest one; `shown` is what was written.
    Integer {
        value: i128,
        shown: String,
    },
    Float(f64),
    Boolean(bool),
    Date,
    List(Vec<Written>),
    Table(Vec<(String, Written)>),
}

impl Written {
    /// A text, from a string or from a variable or flag.
    pub(super) fn text(&self, info: &KeyInfo) -> Result<&str, ConfigError> {
        match &self.node {
            Node::Bare(text) | Node::Text(text) => Ok(text),
            _ => Err(self.wrong_type(info)),
        }
    }

    /// A text or a whole number, as text.
    pub(super) fn text_or_integer(&self, info: &KeyInfo) -> Result<String, ConfigError> {
        match &self.node {
            Node::Integer { value, .. } => Ok(value.to_string()),
            _ => self.text(info).map(str::to_owned),
        }
    }

    /// The elements of a list; a variable or flag is one element.
    pub(super) fn elements(&self, info: &KeyInfo) -> Result<&[Written], ConfigError> {
        match &self.node {
            Node::List(elements) => Ok(elements),
            Node::Bare(_) => Ok(std::slice::from_ref(self)),
            _ => Err(self.wrong_type(info)),
        }
    }

    pub(super) fn boolean(&self, info: &KeyInfo) -> Result<bool, ConfigError> {
        match &self.node {
            Node::Boolean(value) => Ok(*value),
            Node::Bare(text) if text == "true" => Ok(true),
            Node::Bare(text) if text == "false" => Ok(false),
            _ => Err(self.wrong_type(info)),
        }
    }

    pub(super) fn wrong_type(&self, info: &KeyInfo) -> ConfigError {
        ConfigError::WrongType {
            at: self.origin.clone().into(),
            key: info.name.to_owned(),
            expected: info.takes,
            found: self.kind(),
            example: info.example,
        }
    }

    pub(super) fn bad_value(&self, info: &KeyInfo, value: &str, reason: impl ToString) -> ConfigError {
        ConfigError::BadValue {
            at: self.origin.clone().into(),
            key: info.name.to_owned(),
            value: value.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The kind of value, for people.
    pub(super) fn kind(&self) -> &'static str {
        match &self.node {
            Node::Bare(_) | Node::Text(_) => "a text",
            Node::Integer { .. } => "a whole number",
            Node::Float(_) => "a fraction",
            Node::Boolean(_) => "true or false",
            Node::Date => "a date",
            Node::List(_) => "a list",
            Node::Table(_) => "a table",
        }
    }
}
