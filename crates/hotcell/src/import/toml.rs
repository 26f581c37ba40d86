//! TOML to a tree with lines.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::ImportError;
use super::tree::{Node, Value};

pub(super) fn read(text: &str) -> Result<Node, ImportError> {
    let lines = Lines(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset).collect());
    let document = DeTable::parse(text).map_err(|error| ImportError::Syntax {
        line: lines.of(error.span().map_or(0, |span| span.start)),
        language: "TOML",
        // Only the message: the library's own display would repeat the line, and the line may hold a key.
        message: error.message().to_owned(),
    })?;
    Ok(Node { value: lines.table(document.get_ref()), line: 1 })
}

/// The offset of each line's end.
struct Lines(Vec<usize>);

impl Lines {
    fn of(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|end| *end < offset) + 1).unwrap_or(u32::MAX)
    }

    /// In the order of the text. An entry's line is that of its key.
    fn table(&self, table: &DeTable<'_>) -> Value {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            (name.to_string(), self.node(value, key.span().start))
        };
        Value::Table(entries.into_iter().map(entry).collect())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>, offset: usize) -> Node {
        let line = self.of(offset);
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => Value::Number(integer.to_string()),
            DeValue::Float(float) => Value::Number(float.to_string()),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(elements) => {
                Value::List(elements.iter().map(|element| self.node(element, element.span().start)).collect())
            }
            DeValue::Table(table) => self.table(table),
        };
        Node { value, line }
    }
}
