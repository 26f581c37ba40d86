//! Settings as they were written: values with their lines, and paths to them.

use super::ImportError;

/// A value and its line, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) line: u32,
}

/// What JSON and TOML have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    /// As it was written.
    Number(String),
    Text(String),
    Date,
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// A place in the settings.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    /// The way there, such as `filesystem.denyRead[2]`; empty at the top.
    pub(super) key: String,
    /// The last name of the way.
    pub(super) name: &'a str,
    pub(super) node: &'a Node,
}

impl<'a> Entry<'a> {
    pub(super) fn top(node: &'a Node) -> Self {
        Self { key: String::new(), name: "", node }
    }

    pub(super) fn entries(&self) -> Result<Vec<Entry<'a>>, ImportError> {
        match &self.node.value {
            Value::Table(entries) => Ok(entries.iter().map(|(name, node)| self.below(name, node)).collect()),
            _ => Err(self.wrong_type("a table")),
        }
    }

    pub(super) fn elements(&self) -> Result<Vec<Entry<'a>>, ImportError> {
        let Value::List(elements) = &self.node.value else { return Err(self.wrong_type("a list")) };
        let element = |(index, node)| Entry { key: format!("{}[{index}]", self.key), name: self.name, node };
        Ok(elements.iter().enumerate().map(element).collect())
    }

    /// The entry of this name, if there is one.
    pub(super) fn get(&self, name: &str) -> Result<Option<Entry<'a>>, ImportError> {
        Ok(self.entries()?.into_iter().find(|entry| entry.name == name))
    }

    pub(super) fn text(&self) -> Result<&'a str, ImportError> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong_type("a text")),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, ImportError> {
        match &self.node.value {
            Value::Boolean(value) => Ok(*value),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    /// Whether nothing is in it: an empty list or table, or null.
    pub(super) fn is_empty(&self) -> bool {
        match &self.node.value {
            Value::List(elements) => elements.is_empty(),
            Value::Table(entries) => entries.is_empty(),
            Value::Null => true,
            _ => false,
        }
    }

    pub(super) fn bad_value(&self, reason: impl Into<String>) -> ImportError {
        ImportError::BadValue { line: self.node.line, key: self.key.clone(), reason: reason.into() }
    }

    pub(super) fn wrong_type(&self, expected: &'static str) -> ImportError {
        let found = self.node.value.kind();
        ImportError::WrongType { line: self.node.line, key: self.key.clone(), expected, found }
    }

    /// Everything that holds no more entries: single values, and lists and tables that are empty.
    pub(super) fn leaves(&self) -> Vec<Entry<'a>> {
        let below = match &self.node.value {
            Value::List(_) => self.elements(),
            Value::Table(_) => self.entries(),
            _ => return vec![self.clone()],
        };
        match below {
            Ok(below) if !below.is_empty() => below.iter().flat_map(Entry::leaves).collect(),
            _ => vec![self.clone()],
        }
    }

    fn below(&self, name: &'a str, node: &'a Node) -> Entry<'a> {
        let shown = shown_name(name);
        let key = if self.key.is_empty() { shown } else { format!("{}.{shown}", self.key) };
        Entry { key, name, node }
    }
}

/// A name in a key: quoted where it is not a plain word, so that a key has one meaning.
fn shown_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !name.is_empty() && name.bytes().all(plain) { name.to_owned() } else { format!("{name:?}") }
}

/// Whether a key is another one or lies beneath it.
pub(super) fn covers(above: &str, key: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| above.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}
