//! How long one command takes, from asking for it to having its output: every variant in turn, round after round.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::samples::Samples;
use super::{Measured, in_words};

/// How often, and with how much time between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Runs that are counted.
    pub(super) rounds: usize,
    /// Runs that are not counted: caches fill, pools and lazy parts of the kernel settle.
    pub(super) warm_up: usize,
    /// Between two runs, so that what one leaves for later (the kernel frees namespaces in the background, a spawner
    /// prepares its next box) is not on the next one's account.
    pub(super) pause: Duration,
}

/// One way to run a command.
pub(super) trait Variant {
    /// Runs the command once and says how long it took; what has to be prepared or cleared away is not counted.
    fn once(&mut self) -> Result<Duration>;
}

/// A variant that is to be measured, if it can be had here.
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) variant: Measured<Box<dyn Variant>>,
}

/// A variant that was measured, or why it was not.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) samples: Measured<Samples>,
}

/// Measures all candidates. A comparison that does not work here is left out by name; Hotcell itself has to work.
pub(super) fn measure(mut candidates: Vec<Candidate>, pace: Pace, ours: &[&str]) -> Result<Vec<Row>> {
    let Pace { rounds, pause, .. } = pace;
    for candidate in &mut candidates {
        let Err(error) = warm_up(&mut candidate.variant, pace.warm_up) else { continue };
        if ours.contains(&candidate.name) {
            return Err(error.context(format!("`{}` does not work", candidate.name)));
        }
        candidate.variant = Err(in_words(&error));
    }
    let mut times: Vec<Vec<Duration>> = candidates.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        // Each round begins with another variant: none is always the one after the heaviest.
        for turn in 0..candidates.len() {
            let index = (round + turn) % candidates.len();
            let Some(Candidate { name, variant: Ok(variant), .. }) = candidates.get_mut(index) else { continue };
            let time = variant.once().with_context(|| format!("`{name}` failed in round {round}"))?;
            if let Some(times) = times.get_mut(index) {
                times.push(time);
            }
            thread::sleep(pause);
        }
    }
    let row = |(candidate, times): (Candidate, Vec<Duration>)| Row {
        name: candidate.name,
        about: candidate.about,
        samples: candidate
            .variant
            .and_then(|_| Samples::new(times).ok_or_else(|| "no rounds were asked for".to_owned())),
    };
    Ok(candidates.into_iter().zip(times).map(row).collect())
}

fn warm_up(variant: &mut Measured<Box<dyn Variant>>, times: usize) -> Result<()> {
    match variant {
        Ok(variant) => (0..times).try_for_each(|_| variant.once().map(|_| ())),
        Err(reason) => bail!("{reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { rounds: 3, warm_up: 1, pause: Duration::ZERO };

    struct Always(Option<Duration>);

    impl Variant for Always {
        fn once(&mut self) -> Result<Duration> {
            self.0.context("it never works")
        }
    }

    fn candidate(name: &'static str, time: Option<Duration>) -> Candidate {
        Candidate { name, about: "", variant: Ok(Box::new(Always(time))) }
    }

    #[test]
    fn what_does_not_work_is_left_out_by_name() {
        let time = Duration::from_millis(2);
        let candidates = vec![candidate("works", Some(time)), candidate("broken", None)];
        let rows = measure(candidates, PACE, &["works"]).unwrap();
        assert_eq!(rows[0].samples.as_ref().map(|samples| (samples.count(), samples.median())), Ok((3, time)));
        assert!(rows[1].samples.as_ref().unwrap_err().contains("never works"));
    }

    #[test]
    fn our_own_has_to_work() {
        assert!(measure(vec![candidate("ours", None)], PACE, &["ours"]).is_err());
    }
}
