//! JSON as Go's encoder writes it.

use serde::{Deserialize, Deserializer, Serialize};

/// Stands for a byte that is no UTF-8 until the text is written. No character has this code.
const NO_TEXT: char = '\u{fdd0}';

/// Reads a value for which `null` is as good as nothing.
pub(crate) fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Bytes as text in which every byte that is no UTF-8 is one replacement character.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| NO_TEXT));
    }
    text
}

/// JSON in which `<`, `>`, `&` and two kinds of line ends are escaped, as Go does for the sake of HTML.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    // Nothing that is written here has keys that are no strings, which is all that can fail.
    let plain = serde_json::to_string(value).unwrap_or_default();
    let mut escaped = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            NO_TEXT => escaped.push_str("\\ufffd"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(json(&"<a&b>\u{2028}"), r#""\u003ca\u0026b\u003e\u2028""#);
        assert_eq!(json(&text(b"a\xff\xfeb\xc3")), r#""a\ufffd\ufffdb\ufffd""#);
        assert_eq!(json(&text("ä".as_bytes())), "\"ä\"");
    }
}
