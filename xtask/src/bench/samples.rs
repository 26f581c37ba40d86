//! Measured times and what they say.

use std::time::Duration;

/// Times of one variant, in ascending order; never empty.
#[derive(Debug, Clone)]
pub(super) struct Samples {
    sorted: Vec<Duration>,
}

impl Samples {
    /// None if nothing was measured.
    pub(super) fn new(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        (!times.is_empty()).then_some(Self { sorted: times })
    }

    pub(super) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest time that at least this share of all runs did not exceed.
    pub(super) fn percentile(&self, percent: f64) -> Duration {
        let rank = (percent / 100.0 * self.count() as f64).ceil() as usize;
        self.sorted.get(rank.clamp(1, self.count()) - 1).copied().unwrap_or_default()
    }

    pub(super) fn median(&self) -> Duration {
        self.percentile(50.0)
    }

    pub(super) fn mean(&self) -> Duration {
        self.sorted.iter().sum::<Duration>().div_f64(self.count() as f64)
    }
}

/// The middle of some numbers, or the mean of the two middle ones.
pub(super) fn median_of(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    let upper = numbers.get(numbers.len() / 2)?;
    let lower = numbers.get(numbers.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let samples = Samples::new((1..=200).rev().map(Duration::from_millis).collect()).unwrap();
        let milliseconds = |percent| samples.percentile(percent).as_millis();
        assert_eq!((samples.count(), samples.median().as_millis()), (200, 100));
        assert_eq!(
            (milliseconds(0.0), milliseconds(95.0), milliseconds(99.0), milliseconds(100.0)),
            (1, 190, 198, 200)
        );
        assert_eq!(samples.mean(), Duration::from_micros(100_500));
    }

    #[test]
    fn nothing_measured_is_no_samples() {
        assert!(Samples::new(Vec::new()).is_none());
        assert_eq!(median_of(Vec::new()), None);
    }

    #[test]
    fn the_middle_of_an_even_number_is_between() {
        assert_eq!(median_of(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_of(vec![3.0, 1.0, 2.0]), Some(2.0));
    }
}
