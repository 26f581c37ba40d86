//! Frames between what the code writes.
//!
//! A kernel shares its output with the code that it runs. What it has to say is in pieces of the form
//! `MARKER` `+` or `.` `TEXT` `\n`, each written at once and no longer than a pipe takes in one piece, so that nothing that others write
//! ends up within. `.` ends a message. The marker has a random word that only the host and the kernel know: the code can ask its own
//! kernel for it and lie, but nobody says it by accident.

/// The longest piece, with everything.
const PIECE: usize = 4096;

/// The longest message. More is left out and counted.
const MESSAGE: usize = 20 << 20;

/// What was found in a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// What the code wrote.
    Text(&'a [u8]),
    /// What the kernel says.
    Message(Vec<u8>),
    /// The kernel says more than a message may have.
    TooLong,
    /// A piece that makes no sense.
    Broken,
}

/// What is left of a stream that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// What the code wrote last.
    pub(super) text: Vec<u8>,
    /// Whether the kernel was in the middle of a message, which nobody can read.
    pub(super) is_cut: bool,
}

/// Takes frames out of a stream, wherever it is cut.
#[derive(Debug)]
pub(super) struct Scanner {
    marker: Vec<u8>,
    /// What has come and may yet be part of a piece.
    held: Vec<u8>,
    message: Vec<u8>,
    too_long: bool,
    broken: bool,
}

impl Scanner {
    pub(super) fn new(marker: &str) -> Self {
        Self { marker: marker.into(), held: Vec::new(), message: Vec::new(), too_long: false, broken: false }
    }

    /// Takes the next bytes of the stream. After [`Found::Broken`] nothing more is found.
    pub(super) fn push(&mut self, bytes: &[u8], mut found: impl FnMut(Found<'_>)) {
        if self.broken {
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(bytes);
        let mut rest = held.as_slice();
        loop {
            let Some(start) = position(rest, &self.marker) else {
                // Only what may be the beginning of a marker is kept back.
                let kept = beginning_at_end(rest, &self.marker);
                let (text, kept) = rest.split_at(rest.len() - kept);
                if !text.is_empty() {
                    found(Found::Text(text));
                }
                self.held = kept.to_vec();
                return;
            };
            let (text, piece) = rest.split_at(start);
            if !text.is_empty() {
                found(Found::Text(text));
            }
            let body = &piece[self.marker.len()..];
            let Some(end) = body.iter().position(|byte| *byte == b'\n') else {
                if piece.len() > PIECE {
                    self.broken = true;
                    found(Found::Broken);
                } else {
                    self.held = piece.to_vec();
                }
                return;
            };
            let (body, after) = (&body[..end], &body[end + 1..]);
            let (is_last, body) = match body.split_first() {
                Some((b'.', body)) if end < PIECE => (true, body),
                Some((b'+', body)) if end < PIECE => (false, body),
                _ => {
                    self.broken = true;
                    found(Found::Broken);
                    return;
                }
            };
            self.take(body, is_last, &mut found);
            rest = after;
        }
    }

    fn take(&mut self, body: &[u8], is_last: bool, found: &mut impl FnMut(Found<'_>)) {
        if self.too_long || self.message.len() + body.len() > MESSAGE {
            self.too_long = true;
            self.message = Vec::new();
        } else {
            self.message.extend_from_slice(body);
        }
        if is_last {
            let message = std::mem::take(&mut self.message);
            found(if std::mem::take(&mut self.too_long) { Found::TooLong } else { Found::Message(message) });
        }
    }

    /// What was kept back, when the stream has ended.
    pub(super) fn finish(&mut self) -> Rest {
        let held = std::mem::take(&mut self.held);
        let in_message = !std::mem::take(&mut self.message).is_empty() || std::mem::take(&mut self.too_long);
        match held.starts_with(&self.marker) {
            true => Rest { text: Vec::new(), is_cut: true },
            false => Rest { text: held, is_cut: in_message },
        }
    }
}

fn position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let first = *word.first()?;
    let mut from = 0;
    while let Some(offset) = bytes[from..].iter().position(|byte| *byte == first) {
        let at = from + offset;
        if bytes[at..].starts_with(word) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// How many of the last bytes are the beginning of `word`, without being all of it.
fn beginning_at_end(bytes: &[u8], word: &[u8]) -> usize {
    let most = bytes.len().min(word.len().saturating_sub(1));
    (1..=most).rev().find(|length| word.starts_with(&bytes[bytes.len() - length..])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: &str = "\u{1e}word:";

    /// What is found when the stream comes in pieces of this size: text joined, messages apart.
    fn found(stream: &[u8], size: usize) -> Vec<(String, String)> {
        let mut scanner = Scanner::new(MARKER);
        let mut all: Vec<(String, String)> = Vec::new();
        for piece in stream.chunks(size) {
            scanner.push(piece, |found| {
                let (kind, bytes) = match found {
                    Found::Text(text) => ("text", text.to_vec()),
                    Found::Message(message) => ("message", message),
                    Found::TooLong => ("too long", Vec::new()),
                    Found::Broken => ("broken", Vec::new()),
                };
                let bytes = String::from_utf8(bytes).unwrap();
                match all.last_mut() {
                    Some((last, text)) if kind == "text" && last == "text" => text.push_str(&bytes),
                    _ => all.push((kind.to_owned(), bytes)),
                }
            });
        }
        let Rest { text, is_cut } = scanner.finish();
        let text = String::from_utf8(text).unwrap();
        if !text.is_empty() {
            all.push(("rest".to_owned(), text));
        }
        if is_cut {
            all.push(("cut".to_owned(), String::new()));
        }
        all
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
        let stream = format!("a\u{1e}wo{MARKER}+one \nb{MARKER}.two\nc{MARKER}.\n\u{1e}word");
        let expected =
            [("text", "a\u{1e}wob"), ("message", "one two"), ("text", "c"), ("message", ""), ("rest", "\u{1e}word")];
        for size in 1..=stream.len() {
            assert_eq!(found(stream.as_bytes(), size), pairs(&expected), "{size}");
        }
    }

    #[test]
    fn a_message_that_is_cut_is_no_text() {
        for (stream, rest) in [
            (format!("a{MARKER}"), vec![("text", "a"), ("cut", "")]),
            (format!("a{MARKER}.{{\"type\":"), vec![("text", "a"), ("cut", "")]),
            (format!("a{MARKER}+one\nb"), vec![("text", "ab"), ("cut", "")]),
            (format!("{MARKER}+one\nb\u{1e}wo"), vec![("text", "b"), ("rest", "\u{1e}wo"), ("cut", "")]),
            (format!("{MARKER}.one\nb"), vec![("message", "one"), ("text", "b")]),
        ] {
            for size in [1, 3, stream.len()] {
                assert_eq!(found(stream.as_bytes(), size), pairs(&rest), "{stream:?} {size}");
            }
        }
    }

    #[test]
    fn what_is_no_piece_ends_it() {
        let endless = format!("{MARKER}.{}", "x".repeat(2 * PIECE));
        let long = format!("{MARKER}.{}\n", "x".repeat(PIECE));
        for stream in [format!("{MARKER}?x\nafter"), format!("{MARKER}\nafter"), endless, long] {
            for size in [1, 7, stream.len()] {
                assert_eq!(found(stream.as_bytes(), size), pairs(&[("broken", "")]), "{size}");
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut scanner = Scanner::new(MARKER);
        let piece = format!("{MARKER}+{}\n", "x".repeat(4000));
        let mut told = Vec::new();
        for _ in 0..(2 * MESSAGE / 4000) {
            scanner.push(piece.as_bytes(), |found| told.push(matches!(found, Found::TooLong)));
            assert!(scanner.message.len() <= MESSAGE && scanner.held.len() <= PIECE);
        }
        scanner.push(format!("{MARKER}.\n").as_bytes(), |found| told.push(matches!(found, Found::TooLong)));
        assert_eq!(told, [true]);
        // The next message is whole again.
        let mut next = Vec::new();
        scanner.push(format!("{MARKER}.ok\n").as_bytes(), |found| {
            if let Found::Message(message) = found {
                next = message;
            }
        });
        assert_eq!(next, b"ok");
    }
}
