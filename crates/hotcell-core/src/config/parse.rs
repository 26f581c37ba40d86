//! TOML text to [`Config`].

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{find, suggest, tables};
use super::value::{Node, Written};
use super::{Config, ConfigError, Layer, Origin};

/// The largest configuration text that is read.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

impl Config {
    /// Reads the text of a configuration file. The file name is for messages only; nothing is opened.
    pub fn parse(text: &str, file: impl AsRef<Path>, layer: Layer) -> Result<Self, ConfigError> {
        let source = Source::new(text, file.as_ref(), layer);
        if text.len() > MAX_CONFIG_BYTES {
            let at = Origin { line: None, ..source.origin(0) };
            return Err(ConfigError::TooLarge { at: at.into(), bytes: text.len(), limit: MAX_CONFIG_BYTES });
        }
        let document = DeTable::parse(text).map_err(|error| {
            // Only the message: the library's own display would repeat the line, and the line may hold a key.
            let at = source.origin(error.span().map_or(0, |span| span.start));
            ConfigError::Syntax { at: at.into(), message: error.message().to_owned() }
        })?;
        let mut config = Self::default();
        for (name, value) in source.entries(document.get_ref()) {
            config.read_top_level(&name, value)?;
        }
        Ok(config)
    }

    fn read_top_level(&mut self, name: &str, value: Written) -> Result<(), ConfigError> {
        if let Some(info) = find(None, name) {
            return self.apply(info, &value);
        }
        let Some(table) = tables().find(|table| *table == name) else {
            return Err(unknown_key(None, name, value.origin));
        };
        let Node::Table(entries) = value.node else {
            return Err(ConfigError::WrongType {
                key: table.to_owned(),
                expected: "a table",
                found: value.kind(),
                example: "[limits] on a line of its own",
                at: value.origin.into(),
            });
        };
        for (key, value) in entries {
            let info = find(Some(table), &key).ok_or_else(|| unknown_key(Some(table), &key, value.origin.clone()))?;
            self.apply(info, &value)?;
        }
        Ok(())
    }
}

fn unknown_key(table: Option<&str>, key: &str, at: Origin) -> ConfigError {
    ConfigError::UnknownKey {
        at: at.into(),
        key: key.to_owned(),
        table: table.map(str::to_owned),
        suggestion: suggest(table, key),
    }
}

/// The text, and what is needed to say where in it something is.
struct Source<'a> {
    file: &'a Path,
    layer: Layer,
    /// The offset of each line's end.
    line_ends: Vec<usize>,
}

impl<'a> Source<'a> {
    fn new(text: &str, file: &'a Path, layer: Layer) -> Self {
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset).collect();
        Self { file, layer, line_ends }
    }

    fn origin(&self, offset: usize) -> Origin {
        let line = self.line_ends.partition_point(|end| *end < offset) + 1;
        Origin::line(self.layer, self.file, u32::try_from(line).unwrap_or(u32::MAX))
    }

    /// The entries of a table in the order of the text, so that the first mistake is the one reported. An entry's
    /// place is that of its key.
    fn entries(&self, table: &DeTable<'_>) -> Vec<(String, Written)> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries
            .into_iter()
            .map(|(key, value)| (key.get_ref().to_string(), self.written(value, key.span().start)))
            .collect()
    }

    fn written(&self, value: &Spanned<DeValue<'_>>, offset: usize) -> Written {
        let node = match value.get_ref() {
            DeValue::String(text) => Node::Text(text.to_string()),
            DeValue::Integer(integer) => Node::Integer {
                value: i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX),
                shown: integer.to_string(),
            },
            DeValue::Float(float) => Node::Float(float.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Node::Boolean(*value),
            DeValue::Datetime(_) => Node::Date,
            DeValue::Array(elements) => {
                Node::List(elements.iter().map(|element| self.written(element, element.span().start)).collect())
            }
            DeValue::Table(table) => Node::Table(self.entries(table)),
        };
        Written { node, origin: self.origin(offset) }
    }
}
