//! JSON to a tree with lines. Keys that are there twice are refused: readers differ in which one counts.

use serde::de::IgnoredAny;

use super::ImportError;
use super::tree::{Node, Value};

/// How deep settings may be nested.
const MAX_DEPTH: usize = 64;

pub(super) fn read(text: &str) -> Result<Node, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // That it is JSON at all, a library says best. It does not say where values are; the walk below does.
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let line = u32::try_from(error.line()).unwrap_or(u32::MAX);
        return Err(syntax(line, &error.to_string()));
    }
    let mut walk = Walk { text, at: 0, line: 1 };
    let node = walk.value(0)?;
    match node.value {
        Value::Table(_) => Ok(node),
        _ => Err(syntax(node.line, "settings are an object")),
    }
}

fn syntax(line: u32, message: &str) -> ImportError {
    ImportError::Syntax { line, language: "JSON", message: message.to_owned() }
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Walk<'a> {
    fn value(&mut self, depth: usize) -> Result<Node, ImportError> {
        if depth > MAX_DEPTH {
            return Err(syntax(self.line, "it is nested too deeply"));
        }
        let next = self.peek();
        let line = self.line;
        let value = match next {
            Some(b'{') => Value::Table(self.object(depth)?),
            Some(b'[') => Value::List(self.array(depth)?),
            Some(b'"') => Value::Text(self.string()?),
            _ => self.word()?,
        };
        Ok(Node { value, line })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<(String, Node)>, ImportError> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        self.skip();
        while self.peek() != Some(b'}') {
            let name = self.string()?;
            let line = self.line;
            self.expect(b':')?;
            let node = self.value(depth + 1)?;
            if !names.insert(name.clone()) {
                return Err(ImportError::Duplicate { line, key: name });
            }
            entries.push((name, node));
            if self.peek() == Some(b',') {
                self.skip();
            }
        }
        self.skip();
        Ok(entries)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, ImportError> {
        let mut elements = Vec::new();
        self.skip();
        while self.peek() != Some(b']') {
            elements.push(self.value(depth + 1)?);
            if self.peek() == Some(b',') {
                self.skip();
            }
        }
        self.skip();
        Ok(elements)
    }

    fn string(&mut self) -> Result<String, ImportError> {
        let _ = self.peek();
        let start = self.at;
        let rest = self.text.as_bytes().get(start + 1..).unwrap_or_default();
        let mut escaped = false;
        let length = rest.iter().position(|byte| {
            let end = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            end
        });
        let end = length.map(|length| start + length + 2);
        let slice =
            end.and_then(|end| self.text.get(start..end)).ok_or_else(|| syntax(self.line, "a text has no end"))?;
        self.at = start + slice.len();
        serde_json::from_str(slice).map_err(|error| syntax(self.line, &error.to_string()))
    }

    fn word(&mut self) -> Result<Value, ImportError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.find(|next: char| ",]}".contains(next) || next.is_ascii_whitespace()).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        match word {
            "true" => Ok(Value::Boolean(true)),
            "false" => Ok(Value::Boolean(false)),
            "null" => Ok(Value::Null),
            "" => Err(syntax(self.line, "a value is missing")),
            number => Ok(Value::Number(number.to_owned())),
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), ImportError> {
        if self.peek() != Some(wanted) {
            return Err(syntax(self.line, "a colon is missing"));
        }
        self.skip();
        Ok(())
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.text.as_bytes().get(self.at).copied()?;
            if !byte.is_ascii_whitespace() {
                return Some(byte);
            }
            self.line = self.line.saturating_add(u32::from(byte == b'\n'));
            self.at += 1;
        }
    }

    fn skip(&mut self) {
        self.at += 1;
    }
}
