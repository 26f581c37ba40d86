//! JSON that is safe to look at: a terminal that shows it cannot be driven by what is in it.

use hotcell::text::drives_terminals;
use serde::Serialize;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// One object on one line.
pub(crate) fn line(object: &impl Serialize) -> String {
    // Our own types have text keys and no failing fields, so this branch is not taken; it must not be silent either.
    let text = serde_json::to_string(object).unwrap_or_else(|error| {
        serde_json::json!({ "error": { "kind": "json", "message": error.to_string() } }).to_string()
    });
    escape(&text) + "\n"
}

/// Escapes what JSON allows in strings but terminals obey. Outside of strings JSON has none of these characters.
fn escape(text: &str) -> String {
    if !text.chars().any(drives_terminals) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if drives_terminals(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().enumerate().fold(0_u32, |group, (index, byte)| group | u32::from(*byte) << (16 - 8 * index));
        for digit in 0..4 {
            let value = (group >> (18 - 6 * digit)) & 0x3f;
            text.push(if digit > chunk.len() { '=' } else { char::from(BASE64[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_escaped_and_reads_back() {
        let nasty = "a\u{1b}]0;x\u{7}\u{7f}\u{9b}2J\u{202e}\u{2066}\u{feff}é數";
        let line = line(&nasty);
        assert_eq!(line, "\"a\\u001b]0;x\\u0007\\u007f\\u009b2J\\u202e\\u2066\\ufeffé數\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), nasty);
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in known {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0x00]), "//4A");
    }
}
