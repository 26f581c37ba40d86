//! A guest's output, made harmless for the terminal that shows it.
//!
//! Kept: text, line ends, tabs, carriage returns (progress bars) and colours. Left out: every other control character
//! and sequence (titles, clipboard, cursor, queries whose answers would be typed as if by the user) and marks that
//! turn the direction of text. What is not UTF-8 becomes U+FFFD, because some terminals obey single bytes above 127.

use std::str;

const ESCAPE: char = '\u{1b}';
const RESET_COLOURS: &[u8] = b"\x1b[0m";
/// Longer than any colour that a program asks for.
const LONGEST_COLOUR: usize = 64;

/// The state between two pieces of one stream.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    state: State,
    /// The beginning of a character whose end has not come yet.
    incomplete: Vec<u8>,
    /// The parameters of a control sequence, while it can still be a colour.
    parameters: String,
    coloured: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and a character that says that more follow.
    EscapeMore,
    /// In a control sequence that can be a colour.
    Colour,
    /// In a control sequence that is none.
    Control,
    /// In a string for the terminal: title, clipboard, device control.
    Command,
    /// In such a string, after ESC.
    CommandEscape,
}

impl Filter {
    /// The next piece of output, as far as it is harmless.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(bytes.len());
        let joined;
        let mut rest = bytes;
        if !self.incomplete.is_empty() {
            self.incomplete.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.incomplete);
            rest = &joined;
        }
        loop {
            match str::from_utf8(rest) {
                Ok(text) => {
                    text.chars().for_each(|character| self.character(character, &mut kept));
                    return kept;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    let text = str::from_utf8(valid).unwrap_or_default();
                    text.chars().for_each(|character| self.character(character, &mut kept));
                    let Some(length) = error.error_len() else {
                        self.incomplete = broken.to_vec();
                        return kept;
                    };
                    self.character(char::REPLACEMENT_CHARACTER, &mut kept);
                    rest = &broken[length..];
                }
            }
        }
    }

    /// What remains at the end: colours do not outlive the command.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut kept = Vec::new();
        if !std::mem::take(&mut self.incomplete).is_empty() {
            self.character(char::REPLACEMENT_CHARACTER, &mut kept);
        }
        if std::mem::take(&mut self.coloured) {
            kept.extend_from_slice(RESET_COLOURS);
        }
        self.state = State::Text;
        kept
    }

    fn character(&mut self, character: char, kept: &mut Vec<u8>) {
        match self.state {
            State::Text => self.text(character, kept),
            State::Escape => match character {
                '[' => self.begin_control(),
                ']' | 'P' | 'X' | '^' | '_' => self.state = State::Command,
                ' '..='/' => self.state = State::EscapeMore,
                '0'..='~' => self.state = State::Text,
                other => self.abandon(other, kept),
            },
            State::EscapeMore => match character {
                ' '..='/' => {}
                '0'..='~' => self.state = State::Text,
                other => self.abandon(other, kept),
            },
            State::Colour | State::Control => self.control(character, kept),
            State::Command => match character {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.state = State::Text,
                ESCAPE => self.state = State::CommandEscape,
                // A string without an end must not hide the rest of the output.
                '\n' => self.abandon(character, kept),
                _ => {}
            },
            State::CommandEscape => {
                self.state = State::Escape;
                if character == '\\' {
                    self.state = State::Text;
                } else {
                    self.character(character, kept);
                }
            }
        }
    }

    fn text(&mut self, character: char, kept: &mut Vec<u8>) {
        match character {
            '\n' | '\t' | '\r' => kept.push(character as u8),
            ESCAPE => self.state = State::Escape,
            '\u{9b}' => self.begin_control(),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.state = State::Command,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            control if control.is_control() => {}
            character => kept.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    fn begin_control(&mut self) {
        self.parameters.clear();
        self.state = State::Colour;
    }

    fn control(&mut self, character: char, kept: &mut Vec<u8>) {
        match character {
            '0'..='9' | ';' | ':' if self.parameters.len() < LONGEST_COLOUR => self.parameters.push(character),
            ' '..='?' => self.state = State::Control,
            'm' if self.state == State::Colour => {
                kept.extend_from_slice(format!("\u{1b}[{}m", self.parameters).as_bytes());
                self.coloured = !matches!(self.parameters.as_str(), "" | "0");
                self.state = State::Text;
            }
            '@'..='~' => self.state = State::Text,
            other => self.abandon(other, kept),
        }
    }

    /// A character that cannot be part of the sequence ends it and counts for itself.
    fn abandon(&mut self, character: char, kept: &mut Vec<u8>) {
        self.state = State::Text;
        self.text(character, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, which must not depend on where the output is cut into pieces.
    fn filtered(bytes: &[u8]) -> String {
        let results: Vec<Vec<u8>> = (1..=bytes.len().max(1))
            .map(|size| {
                let mut filter = Filter::default();
                let mut kept: Vec<u8> = bytes.chunks(size).flat_map(|piece| filter.push(piece)).collect();
                kept.extend(filter.finish());
                kept
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]));
        String::from_utf8(results[0].clone()).unwrap()
    }

    #[test]
    fn text_lines_and_colours_stay() {
        let text = "größe\t數\r\n10%\r20%\n\u{1b}[1;31mred\u{1b}[0m \u{1b}[38:2:1:2:3mx\u{1b}[m";
        assert_eq!(filtered(text.as_bytes()), text);
    }

    #[test]
    fn colours_end_with_the_output() {
        assert_eq!(filtered(b"\x1b[31mred"), "\u{1b}[31mred\u{1b}[0m");
    }

    #[test]
    fn sequences_that_drive_the_terminal_are_left_out() {
        let harmless = [
            (&b"a\x1b]0;title\x07b"[..], "ab"),
            (b"a\x1b]52;c;Y2xpcA==\x1b\\b", "ab"),
            (b"a\x1b[2J\x1b[1;1Hb\x1b[?1049hc", "abc"),
            (b"a\x1b[6nb\x1b[cc\x1bZd", "abcd"),
            (b"a\x1bPqsixel\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d\x1bXsos\x1b\\e", "abcde"),
            (b"a\x1bcb\x1b(0c\x1b#8d", "abcd"),
            (b"a\x08\x07\x0e\x0f\x7fb\x00c", "abc"),
            (b"a\xc2\x9b2Jb\xc2\x9d0;t\xc2\x9cc\xc2\x85d", "abcd"),
            (b"a\x1b[>4;1mb\x1b[ mc", "abc"),
            ("a\u{202e}b\u{2066}c\u{2069}".as_bytes(), "abc"),
        ];
        for (bytes, expected) in harmless {
            assert_eq!(filtered(bytes), expected, "{:?}", bytes.escape_ascii().to_string());
        }
    }

    #[test]
    fn raw_bytes_cannot_pass_as_controls() {
        assert_eq!(filtered(b"a\x9b2Jb\xff\xfec\xe2\x82"), "a\u{fffd}2Jb\u{fffd}\u{fffd}c\u{fffd}");
    }

    #[test]
    fn an_unfinished_sequence_hides_no_more_than_its_line() {
        assert_eq!(filtered(b"a\x1b]0;never ends\nb"), "a\nb");
        assert_eq!(filtered(b"a\x1b[12\nb"), "a\nb");
        assert_eq!(filtered(b"a\x1b[1\x1b[31mb\x1b[0m"), "a\u{1b}[31mb\u{1b}[0m");
        assert_eq!(filtered(b"a\x1b\x1b[2Jb"), "ab");
        assert_eq!(filtered(b"a\x1b]x\x1b[2Jb"), "ab");
    }

    #[test]
    fn an_endless_colour_is_none() {
        let long = format!("a\u{1b}[{}mb", "1;".repeat(100));
        assert_eq!(filtered(long.as_bytes()), "ab");
    }

    #[test]
    fn nothing_but_colours_is_left_of_any_bytes() {
        // A simple generator is enough: the alphabet is what matters.
        let alphabet = b"\x1b\x1b[]P\\m;0123?ab\n\x07\x9b\xc2\x9d\xe2\x80\xae\x18";
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    alphabet[(seed >> 33) as usize % alphabet.len()]
                })
                .collect();
            let mut rest = filtered(&bytes);
            while let Some(at) = rest.find(ESCAPE) {
                let colour = rest[at + 1..].strip_prefix('[').unwrap();
                let end = colour.find(|c: char| !matches!(c, '0'..='9' | ';' | ':')).unwrap();
                assert_eq!(&colour[end..=end], "m");
                rest.replace_range(at..=at, "");
            }
            assert!(rest.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')));
        }
    }
}
