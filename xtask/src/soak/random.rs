//! Random numbers that can be had again: the same seed gives the same ones.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A sequence of numbers that look random. (Each is a scrambled count, so that no seed is a bad one.)
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A seed that was not used before.
    pub(super) fn any_seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Short enough to type in again.
        Self::new(now.as_nanos() as u64 ^ u64::from(std::process::id())).next() & 0xffff_ffff
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// One of `0..count`.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.next() % count.max(1)
    }

    /// A moment between now and `most`.
    pub(super) fn moment(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// A name that nothing else has, in the form of a UUID.
    pub(super) fn uuid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            a >> 16 & 0xffff,
            a & 0xfff,
            0x8000 | b >> 48 & 0x3fff,
            b & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let many = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(many(1), many(1));
        assert_ne!(many(1), many(2));
    }

    #[test]
    fn moments_are_spread_and_within_bounds() {
        let mut random = Random::new(3);
        let most = Duration::from_millis(100);
        let moments: Vec<_> = (0..1000).map(|_| random.moment(most)).collect();
        assert!(moments.iter().all(|moment| *moment < most));
        let early = moments.iter().filter(|moment| **moment < most / 2).count();
        assert!((400..600).contains(&early), "{early}");
    }

    #[test]
    fn uuids_differ_and_have_their_form() {
        let mut random = Random::new(0);
        let (one, other) = (random.uuid(), random.uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), one.as_bytes()[14]), (36, b'4'));
    }
}
