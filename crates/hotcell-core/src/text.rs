//! Showing untrusted text to people.
//!
//! A project file and a guest's file names are written by strangers; an escape sequence in them must not reach the
//! terminal of whoever reads an error message.

use std::fmt;
use std::path::Path;

/// The longest piece of untrusted text that a message repeats, in characters.
const SHOWN_CHARACTERS: usize = 200;

/// Displays text with control characters escaped and very long text cut.
///
/// ```
/// use hotcell_core::text::Printable;
/// assert_eq!(Printable("a\u{1b}[31mb").to_string(), r"a\u{1b}[31mb");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, character) in self.0.chars().enumerate() {
            if index == SHOWN_CHARACTERS {
                return f.write_str("…");
            }
            if drives_terminals(character) {
                write!(f, "{}", character.escape_unicode())?;
            } else {
                fmt::Write::write_char(f, character)?;
            }
        }
        Ok(())
    }
}

/// Displays a path like [`Printable`] does; bytes that are not UTF-8 are shown as `U+FFFD`.
#[derive(Debug, Clone, Copy)]
pub struct PrintablePath<'a>(pub &'a Path);

impl fmt::Display for PrintablePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0.to_string_lossy()).fmt(f)
    }
}

/// Control characters drive terminals; bidirectional and zero-width characters make text look like other text.
pub fn drives_terminals(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_escaped() {
        assert_eq!(Printable("a\nb\u{202e}c\u{9b}").to_string(), r"a\u{a}b\u{202e}c\u{9b}");
        assert_eq!(Printable("größe 数").to_string(), "größe 数");
    }

    #[test]
    fn long_text_is_cut() {
        let shown = Printable(&"x".repeat(5000)).to_string();
        assert_eq!(shown.chars().count(), SHOWN_CHARACTERS + 1);
    }
}
