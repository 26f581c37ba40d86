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

/// Characters that nobody sees: those that Unicode calls default ignorable, those that change the direction of text, separators of lines
/// and paragraphs, and marks of annotations. Sorted.
///
/// `U+FE0F` alone is missing, although it is one of them: it follows everyday symbols (⚠️, ✔️), and one shape has little to hide in. What
/// joins symbols to one (`U+200D`) is not: the same character hides inside words, and a family falls apart into people who can be read.
const UNSEEN: [(char, char); 17] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0e}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Control characters drive terminals; characters that are not seen make text look like other text, or hide some in it that programs
/// and models read.
pub fn drives_terminals(character: char) -> bool {
    // Most text ends here.
    if character < UNSEEN[0].0 {
        return character.is_control();
    }
    UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&character))
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
    fn what_is_not_seen_is_escaped_and_nothing_beside_it() {
        let mut wanted: Vec<u32> = (0..0x20).chain(0x7f..0xa0).collect();
        for (first, last) in [
            (0xad, 0xad),       // soft hyphen
            (0x34f, 0x34f),     // grapheme joiner
            (0x61c, 0x61c),     // Arabic letter mark
            (0x115f, 0x1160),   // Hangul fillers
            (0x17b4, 0x17b5),   // Khmer vowels
            (0x180b, 0x180f),   // Mongolian selectors and separator
            (0x200b, 0x200f),   // zero widths, marks of direction
            (0x2028, 0x202e),   // separators, embeddings, overrides
            (0x2060, 0x206f),   // joiner, invisible operators, isolates, deprecated
            (0x3164, 0x3164),   // Hangul filler
            (0xfe00, 0xfe0e),   // selectors but the one of emoji
            (0xfeff, 0xfeff),   // byte order mark
            (0xffa0, 0xffa0),   // half-width Hangul filler
            (0xfff0, 0xfffb),   // reserved, annotations
            (0x1bca0, 0x1bca3), // shorthand
            (0x1d173, 0x1d17a), // musical
            (0xe0000, 0xe0fff), // tags, more selectors, reserved
        ] {
            wanted.extend(first..=last);
        }
        let found = (0..=0x10ffff).filter(|code| char::from_u32(*code).is_some_and(drives_terminals));
        assert_eq!(found.collect::<Vec<u32>>(), wanted);
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["⚠️ ✔️ ❤️", "a\u{a0}b\u{3000}c", "e\u{301}", "नमस्ते", "한국어", "\u{fffd}", "⠀⠋", "مرحبا", "🇪🇺👍🏽"]
        {
            assert_eq!(Printable(text).to_string(), text);
        }
        assert_eq!(Printable("👨\u{200d}👩 ok\u{e0041}").to_string(), r"👨\u{200d}👩 ok\u{e0041}");
    }

    #[test]
    fn long_text_is_cut() {
        let shown = Printable(&"x".repeat(5000)).to_string();
        assert_eq!(shown.chars().count(), SHOWN_CHARACTERS + 1);
    }
}
