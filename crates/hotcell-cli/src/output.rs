//! Everything that Hotcell itself prints: results on stdout, messages for people on stderr.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use hotcell::text::drives_terminals;

use crate::exit;
use crate::failure::Failure;

/// Writes a result. A reader that is gone is no error that anybody needs to hear of.
pub(crate) fn to_stdout(text: &str) -> Result<u8, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(exit::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit::READER_GONE),
        Err(error) => Err(Failure::unwritten("stdout", &error)),
    }
}

/// Tells the user something: `hotcell: …`.
pub(crate) fn message(text: &str) {
    to_stderr(Style::Plain, "hotcell:", text);
}

/// Tells the user what went wrong: `hotcell: …`.
pub(crate) fn error(text: &str) {
    to_stderr(Style::Error, "hotcell:", text);
}

/// Tells the user what to do about it: `  hint: …`.
pub(crate) fn hint(text: &str) {
    to_stderr(Style::Hint, "  hint:", text);
}

/// Prints lines without a prefix.
pub(crate) fn lines(text: &str) {
    write_stderr(&printable(text));
}

/// Replaces the line that the cursor is in, on a terminal.
pub(crate) fn status(text: &str) {
    write_stderr(&format!("\r\u{1b}[K{}", printable(text)));
}

/// Text with everything escaped that could drive a terminal, except line ends.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\n' && drives_terminals(character) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "{}", character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

enum Style {
    Plain,
    Error,
    Hint,
}

fn to_stderr(style: Style, prefix: &str, text: &str) {
    let text = printable(text);
    let text = text.trim_end();
    let line = match style {
        Style::Error if colours() => format!("\u{1b}[1;31m{prefix}\u{1b}[0m {text}\n"),
        Style::Hint if colours() => format!("\u{1b}[36m{prefix}\u{1b}[0m {text}\n"),
        _ => format!("{prefix} {text}\n"),
    };
    write_stderr(&line);
}

/// There is nobody left to tell if stderr cannot be written.
fn write_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_printed_drives_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{9b}\u{7f}\u{202e}"), "a\\u{1b}[2Jb\nc\\u{9b}\\u{7f}\\u{202e}");
    }
}
