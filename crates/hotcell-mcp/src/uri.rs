//! Names of files in the workspace as URIs, and the other way round.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell::text::drives_terminals;

const WORKSPACE: &str = "workspace:///";

/// The URI of a file, by its path from the workspace on.
pub(crate) fn of_workspace(path: &str) -> String {
    let mut uri = WORKSPACE.to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// The path from the workspace on; none if this is no URI of a file in it.
pub(crate) fn workspace_path(uri: &str) -> Option<String> {
    let path = decode(uri.strip_prefix(WORKSPACE)?)?;
    let inside = path.split('/').all(|name| !matches!(name, "" | "." | ".."));
    (inside && !path.contains('\0')).then_some(path)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'%' => {
                let (digits, after) = after.split_at_checked(2)?;
                let digit = |index: usize| char::from(*digits.get(index)?).to_digit(16);
                bytes.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
                after
            }
            b'?' | b'#' => return None,
            _ => {
                bytes.push(*byte);
                after
            }
        };
    }
    String::from_utf8(bytes).ok()
}

/// What this Base64 holds, if it is text that drives no terminal.
pub(crate) fn plain_text(base64: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(base64).ok()?).ok()?;
    let odd = |character| drives_terminals(character) && !matches!(character, '\n' | '\r' | '\t');
    (!text.contains(odd)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_its_uri() {
        for path in ["a", "src/main.rs", "with space/ü%25?#.txt", "-._~"] {
            assert_eq!(workspace_path(&of_workspace(path)).as_deref(), Some(path));
        }
        assert_eq!(of_workspace("a b/ü"), "workspace:///a%20b/%C3%BC");
    }

    #[test]
    fn nothing_outside_has_a_uri() {
        let outside = [
            "workspace:///",
            "workspace:////etc/passwd",
            "workspace:///../x",
            "workspace:///a/../b",
            "workspace:///a//b",
        ];
        let encoded = [
            "workspace:///%2e%2e/x",
            "workspace:///%2Fetc/passwd",
            "workspace:///a%00",
            "workspace:///%ff",
            "workspace:///%4",
        ];
        let others = [
            "file:///etc/passwd",
            "workspace://host/a",
            "hotcell://report",
            "",
            "workspace:///a?b",
            "workspace:///%zz",
        ];
        for uri in outside.iter().chain(&encoded).chain(&others) {
            assert_eq!(workspace_path(uri), None, "{uri}");
        }
    }

    #[test]
    fn text_that_drives_terminals_stays_bytes() {
        assert_eq!(plain_text(&STANDARD.encode("a\tb\n")).as_deref(), Some("a\tb\n"));
        for odd in [b"\x1b[2J".as_slice(), b"\xff", "\u{202e}".as_bytes()] {
            assert_eq!(plain_text(&STANDARD.encode(odd)), None);
        }
    }
}
