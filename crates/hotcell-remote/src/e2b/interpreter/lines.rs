//! Lines, out of bytes that come in pieces of any size.

use bytes::{Buf, Bytes, BytesMut};

/// The most that a line may have. Pictures are in them.
pub(super) const MOST: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to have no end of a line.
    looked: usize,
}

/// A line is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// More bytes.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next line without its end, if it is there in whole. Empty lines are none.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        loop {
            let fresh = self.buffer.get(self.looked..).unwrap_or_default();
            let Some(at) = fresh.iter().position(|byte| *byte == b'\n') else {
                self.looked = self.buffer.len();
                return if self.looked > MOST { Err(TooLong) } else { Ok(None) };
            };
            let line = self.buffer.split_to(self.looked + at).freeze();
            self.buffer.advance(1);
            self.looked = 0;
            if line.len() > MOST {
                return Err(TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Whether there is the beginning of a line.
    pub(super) fn is_in_the_middle(&self) -> bool {
        !self.buffer.trim_ascii().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(lines: &mut Lines) -> Vec<Bytes> {
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..MOST / piece.len() {
            lines.push(&piece);
            assert_eq!(lines.next(), Ok(None));
        }
        lines.push(b"x");
        assert_eq!(lines.next(), Err(TooLong));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(text in "([a-z\u{e4} ]{0,20}\r?\n){0,8}[a-z]{0,5}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let wire = text.as_bytes();
            let mut whole = Lines::default();
            whole.push(wire);
            let expected = all(&mut whole);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
            cuts.extend([0, wire.len()]);
            cuts.sort_unstable();
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for window in cuts.windows(2) {
                lines.push(&wire[window[0]..window[1]]);
                got.extend(all(&mut lines));
            }
            prop_assert_eq!(got, expected);
            prop_assert_eq!(lines.is_in_the_middle(), whole.is_in_the_middle());
        }
    }
}
