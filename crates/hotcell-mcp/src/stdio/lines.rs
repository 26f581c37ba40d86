//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line without its end.
    Whole(Vec<u8>),
    /// One that was longer than it may be; it was skipped.
    TooLong,
}

/// Reads lines, and never keeps more of one than it may have.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    longest: usize,
    /// Whether the rest of the line is skipped.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, longest: usize) -> Self {
        Self { input: BufReader::new(input), line: Vec::new(), longest, skipping: false }
    }

    /// The next line; none at the end of the input. The last line need not have an end. Cancel-safe: what was read of a line
    /// stays here.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = self.input.fill_buf().await?;
            let at_end = available.is_empty();
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            if self.line.len() + piece.len() > self.longest {
                self.skipping = true;
                self.line = Vec::new();
            }
            if !self.skipping {
                self.line.extend_from_slice(piece);
            }
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if at_end && self.line.is_empty() && !self.skipping {
                return Ok(None);
            }
            if end.is_some() || at_end {
                let line = std::mem::take(&mut self.line);
                let too_long = std::mem::take(&mut self.skipping);
                return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], longest: usize) -> Vec<Line> {
        let mut lines = Lines::new(input, longest);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_is_not() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(all(b"abc\nabcd\nx\n", 3).await, [whole("abc"), Line::TooLong, whole("x")]);
        let long = [vec![b'x'; 100_000], b"\nok\n".to_vec()].concat();
        assert_eq!(all(&long, 9_999).await, [Line::TooLong, whole("ok")]);
        assert_eq!(all(b"a\n\nlast", 9).await, [whole("a"), whole(""), whole("last")]);
        assert_eq!(all(b"abcd", 3).await, [Line::TooLong]);
    }
}
