//! Untrusted bytes as text for models and people: bounded, with head and tail, and nothing that drives a terminal.

use std::path::Path;

use hotcell_core::backend::CapturedStream;
use hotcell_core::text::drives_terminals;

/// Bytes as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Bytes that are missing between head and tail.
    pub(super) left_out: u64,
    /// Whether bytes that are no UTF-8 were replaced by U+FFFD.
    pub(super) lossy: bool,
    /// Whether characters that drive terminals were written as `\u{…}`.
    pub(super) escaped: bool,
}

/// More than the line takes that says how much is left out.
const LEFT_OUT_LINE: usize = 64;

/// What happens to a carriage return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    /// It ends a line, as programs mean it that draw progress bars.
    EndLines,
    /// It is shown, unless a line feed follows: files are to be seen as they are.
    AreShown,
}

/// What a stream had, with at most `most` bytes of it shown.
pub(super) fn stream(captured: &CapturedStream, most: usize) -> Shown {
    fitting(&captured.head, &captured.tail, captured.dropped(), most, Returns::EndLines)
}

/// Bytes with at most `most` of them shown: half from the head, half from the tail.
pub(super) fn bounded(bytes: &[u8], most: usize, returns: Returns) -> Shown {
    fitting(bytes, &[], 0, most, returns)
}

/// Head and tail of something of which `dropped` bytes between them are missing already.
fn fitting(head: &[u8], tail: &[u8], dropped: u64, most: usize, returns: Returns) -> Shown {
    let mut most_bytes = most;
    loop {
        let shown = cut_to(head, tail, dropped, most_bytes, returns);
        // What drives terminals takes eight times the room once it is written out: then fewer bytes are shown.
        if shown.text.len() <= most.saturating_mul(2).saturating_add(LEFT_OUT_LINE) || most_bytes < 8 {
            return shown;
        }
        most_bytes /= 2;
    }
}

fn cut_to(head: &[u8], tail: &[u8], dropped: u64, most: usize, returns: Returns) -> Shown {
    if head.len() + tail.len() <= most {
        if dropped == 0 {
            let mut shown = Shown::default();
            append(&mut shown, &[head, tail].concat(), returns);
            return shown;
        }
        return head_and_tail(head, tail, dropped, returns);
    }
    let all = [head, tail].concat();
    let half = most / 2;
    let left_out = dropped + (all.len() - most) as u64;
    head_and_tail(&all[..half], &all[all.len() - (most - half)..], left_out, returns)
}

fn head_and_tail(head: &[u8], tail: &[u8], dropped: u64, returns: Returns) -> Shown {
    let (head, tail) = (without_cut_end(head), without_cut_start(tail));
    let mut shown = Shown { left_out: dropped, ..Shown::default() };
    append(&mut shown, head, returns);
    if !shown.text.ends_with('\n') {
        shown.text.push('\n');
    }
    shown.text.push_str(&format!("[… {dropped} bytes left out …]\n"));
    append(&mut shown, tail, returns);
    shown
}

/// Without the beginning of a character whose rest was cut off.
pub(super) fn without_cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=3.min(bytes.len()) {
        let at = bytes.len() - back;
        let needed = match bytes[at] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => return bytes,
        };
        return if needed > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Without the end of a character whose beginning was cut off.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    &bytes[rest..]
}

fn append(shown: &mut Shown, bytes: &[u8], returns: Returns) {
    for chunk in bytes.utf8_chunks() {
        push_neutral(&mut shown.text, chunk.valid(), returns, &mut shown.escaped);
        if !chunk.invalid().is_empty() {
            shown.lossy = true;
            shown.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn push_neutral(to: &mut String, text: &str, returns: Returns, escaped: &mut bool) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => to.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' if returns == Returns::EndLines => to.push('\n'),
            _ if drives_terminals(character) => {
                *escaped = true;
                to.extend(character.escape_unicode());
            }
            _ => to.push(character),
        }
    }
}

/// Text on one line, of any length; for names and messages.
pub(super) fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if drives_terminals(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A path on one line.
pub(super) fn path(path: &Path) -> String {
    line(&path.to_string_lossy())
}

/// Text of more than one line that somebody else wrote: nothing in it drives a terminal.
pub(super) fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    push_neutral(&mut shown, text, Returns::EndLines, &mut false);
    shown
}

/// The first `most` bytes of a text, cut between characters and marked.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use hotcell_core::backend::{CaptureLimits, StreamCapture};

    use super::*;

    #[test]
    fn escapes_are_written_out_and_flagged() {
        let shown = bounded(b"a\x1b[31mred\x07\n\tb\xc2\x9bc", 100, Returns::EndLines);
        assert_eq!(shown.text, "a\\u{1b}[31mred\\u{7}\n\tb\\u{9b}c");
        assert!(shown.escaped && !shown.lossy && shown.left_out == 0);
        assert!(!shown.text.chars().any(|c| c != '\n' && c != '\t' && drives_terminals(c)));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_flagged() {
        let shown = bounded(b"a\xff\xfeb", 100, Returns::EndLines);
        assert_eq!((shown.text.as_str(), shown.lossy), ("a\u{fffd}\u{fffd}b", true));
        assert!(!bounded("größe".as_bytes(), 100, Returns::EndLines).lossy);
    }

    #[test]
    fn carriage_returns_end_lines_in_output_and_are_seen_in_files() {
        assert_eq!(bounded(b"1%\r2%\r\n", 100, Returns::EndLines).text, "1%\n2%\n");
        assert_eq!(bounded(b"1%\r2%\r\n", 100, Returns::AreShown).text, "1%\\u{d}2%\n");
    }

    #[test]
    fn head_and_tail_are_kept_and_no_character_is_cut_in_two() {
        let bytes = "é".repeat(100);
        for most in 8..40 {
            let shown = bounded(bytes.as_bytes(), most, Returns::EndLines);
            assert!(!shown.lossy, "{most}: {}", shown.text);
            assert_eq!(shown.left_out, (200 - most) as u64);
            assert!(shown.text.contains(&format!("[… {} bytes left out …]", 200 - most)), "{}", shown.text);
            assert!(shown.text.starts_with('é') && shown.text.ends_with('é'), "{}", shown.text);
        }
    }

    #[test]
    fn a_captured_stream_says_how_much_is_missing() {
        let mut capture = StreamCapture::new(CaptureLimits { head: 3, tail: 3 });
        capture.push(b"abcdefghi");
        let captured = capture.finish();
        assert_eq!(stream(&captured, 6).text, "abc\n[… 3 bytes left out …]\nghi");
        assert_eq!(stream(&captured, 2).text, "a\n[… 7 bytes left out …]\ni");
    }

    #[test]
    fn what_grows_by_being_written_out_is_bounded_too() {
        for hostile in ["\u{1b}", "\u{202e}", "\u{7}\u{feff}"] {
            let bytes = hostile.repeat(10_000);
            let shown = bounded(bytes.as_bytes(), 1000, Returns::EndLines);
            assert!(shown.text.len() < 2100, "{}", shown.text.len());
            assert!(shown.text.contains(&format!("[… {} bytes left out …]", shown.left_out)));
            let kept = shown.text.matches("\\u{").count() * hostile.chars().next().unwrap().len_utf8();
            assert!(shown.left_out as usize + kept <= bytes.len() + 3 * kept, "{}", shown.left_out);
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("ééé", 3), "é…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
