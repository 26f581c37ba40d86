//! What `cargo xtask bench` is asked to do.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub(super) const USAGE: &str = "usage: cargo xtask bench [containers|remote|tools] [--quick] [--rounds N] [--out DIR]";

/// How much is measured, and where the result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// Measured runs of each variant.
    pub(super) rounds: usize,
    /// A smoke test: everything runs, but too little of it for its numbers to mean much.
    pub(super) quick: bool,
    /// Where the result goes; none means `docs/bench`.
    pub(super) out: Option<PathBuf>,
    /// The released `hotcell` command. Only the release build of xtask is told it, by xtask itself: it then measures
    /// instead of building.
    pub(super) command: Option<PathBuf>,
}

/// How many rounds there are if nobody says how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usual {
    pub(super) full: usize,
    pub(super) quick: usize,
}

impl Options {
    /// Reads the arguments; `usual` are the rounds that nobody asked for.
    pub(super) fn parse(arguments: &[String], usual: Usual) -> Result<Self> {
        let (mut rounds, mut quick, mut out, mut command) = (None, false, None, None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if flag == "--quick" && joined.is_none() {
                quick = true;
                continue;
            }
            if !matches!(flag, "--rounds" | "--out" | MEASURE) {
                bail!("unknown argument `{word}`; {USAGE}");
            }
            let value = joined.or_else(|| words.next().cloned()).filter(|value| !value.is_empty());
            let value = value.with_context(|| format!("`{flag}` needs a value; {USAGE}"))?;
            match flag {
                "--rounds" => rounds = Some(parse_rounds(&value)?),
                "--out" => out = Some(PathBuf::from(value)),
                _ => command = Some(PathBuf::from(value)),
            }
        }
        let usual = if quick { usual.quick } else { usual.full };
        Ok(Self { rounds: rounds.unwrap_or(usual), quick, out, command })
    }

    /// `full`, or `quick` in a smoke test.
    pub(super) fn scale<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The flag of [`Options::command`].
pub(super) const MEASURE: &str = "--measure";

fn parse_rounds(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(rounds @ 1..=1_000_000) => Ok(rounds),
        _ => bail!("`--rounds` is a number between 1 and 1000000, not `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        let usual = Usual { full: 1000, quick: 30 };
        Options::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), usual)
    }

    #[test]
    fn values_have_two_spellings() {
        let plain = parse(&[]).unwrap();
        assert_eq!((plain.rounds, plain.quick, plain.out), (1000, false, None));
        let options = parse(&["--quick", "--rounds", "40", "--out=somewhere"]).unwrap();
        assert_eq!((options.rounds, options.quick, options.out), (40, true, Some("somewhere".into())));
        assert_eq!(parse(&["--quick"]).unwrap().rounds, 30);
    }

    #[test]
    fn anything_else_is_refused() {
        for words in [&["--rounds"][..], &["--rounds", "0"], &["--rounds=-1"], &["--out="], &["--fast"], &["--quick=1"]]
        {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
