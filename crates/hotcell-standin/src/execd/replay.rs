//! The last output of a terminal, for clients that come back.

use std::collections::VecDeque;

/// As much as the real one keeps.
const KEPT: usize = 1 << 20;

/// The last bytes, and how many there ever were.
#[derive(Debug, Default)]
pub(super) struct Replay {
    kept: VecDeque<u8>,
    total: u64,
}

impl Replay {
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend(bytes);
        let surplus = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..surplus);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// What came after the first `offset` bytes, as far as it is still there, and where that begins.
    pub(super) fn since(&self, offset: u64) -> (Vec<u8>, u64) {
        let oldest = self.total - self.kept.len() as u64;
        let from = offset.clamp(oldest, self.total);
        let skipped = usize::try_from(from - oldest).unwrap_or(usize::MAX);
        (self.kept.iter().skip(skipped).copied().collect(), from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept() {
        let mut replay = Replay::default();
        replay.write(b"hello");
        assert_eq!(replay.since(0), (b"hello".to_vec(), 0));
        assert_eq!(replay.since(3), (b"lo".to_vec(), 3));
        assert_eq!(replay.since(9), (Vec::new(), 5));
        replay.write(&vec![b'x'; KEPT]);
        assert_eq!(replay.total(), 5 + KEPT as u64);
        assert_eq!(replay.since(0), (vec![b'x'; KEPT], 5));
    }
}
